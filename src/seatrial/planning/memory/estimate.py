# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How much memory a layout needs on each stage, and whether that fits the GPU."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from operator import mul

from seatrial.planning.memory.activations import LayerActivations, layer_activations
from seatrial.planning.memory.breakdown import Memory, MemoryFit, StageMemory
from seatrial.planning.memory.constants import (
    StackConstants,
    borrowed_error,
    constants,
    is_known,
    stand_in,
)
from seatrial.planning.memory.formats import HALF_BYTES, element_bytes, narrow_format
from seatrial.planning.memory.states import (
    Layers,
    ModelCounts,
    chunk_layers,
    model_counts,
    stage_layers,
    stage_parameters,
    states,
    total_layers,
)
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Precision


def in_flight(workload: Workload, stage: int) -> float:
    """How many micro batches a stage keeps the activations of, at its peak.

    The plain schedule keeps one more than there are stages behind. The interleaved one counts
    chunks: 2 (p - i - 1) + (v - 1) p of the warm-up and the one that runs.
    """
    stages, chunks = workload.layout.pp_size, workload.layout.vp_size
    if stages == 1:
        return 1.0
    behind = stages - stage - 1
    if chunks == 1:
        return float(min(workload.micro_batches, behind + 1))
    warm_up = 2 * behind + (chunks - 1) * stages + 1
    return min(workload.micro_batches * chunks, warm_up) / chunks


def most_kept(workload: Workload, stage: int, chunk_bytes: Sequence[float]) -> float:
    """The most that a stage keeps at a time, of chunks that are not alike."""
    stages, chunks = workload.layout.pp_size, workload.layout.vp_size
    # After two rounds through all chunks everything repeats.
    passes = 2 * (stages - stage - 1) + 3 * chunks * stages
    batches = min(workload.micro_batches, -(-passes // chunks))
    held = held_chunks(stages, chunks, stage, batches)
    return max(float(sum(map(mul, counts, chunk_bytes))) for counts in held)


@cache
def held_chunks(
    stages: int, chunks: int, stage: int, micro_batches: int
) -> frozenset[tuple[int, ...]]:
    """How many micro batches of each chunk are kept at a time, where no other time has as many.

    Chunks take turns after as many passes as there are stages; the backward passes take the
    chunks in the opposite order.
    """
    total = micro_batches * chunks
    warm_up = min(total, 2 * (stages - stage - 1) + (chunks - 1) * stages)
    counts = [0] * chunks
    found = set()
    for passed in range(total):
        counts[passed // stages % chunks] += 1
        found.add(tuple(counts))
        if passed >= warm_up:
            counts[chunks - 1 - (passed - warm_up) // stages % chunks] -= 1
    return frozenset(
        counts
        for counts in found
        if not any(
            other != counts and all(more >= own for more, own in zip(other, counts, strict=True))
            for other in found
        )
    )


def memory(workload: Workload) -> Memory:
    """The memory of the stages that can be the fullest, and the verdict."""
    known = constants(workload.stack)
    return judged(workload, known, stages_of(workload, known, deciding_stages(workload)))


def every_stage(workload: Workload) -> Memory:
    """The same with all stages, for a picture of them."""
    known = constants(workload.stack)
    return judged(workload, known, stages_of(workload, known, range(workload.layout.pp_size)))


def deciding_stages(workload: Workload) -> tuple[int, ...]:
    """The stages of which one is the fullest.

    Between the first stage and the last all have as many layers, and the earlier one keeps more
    micro batches in flight; leading layers without experts make a stage smaller, so the first
    stage that is free of them counts too.
    """
    last = workload.layout.pp_size - 1
    if last < 2:
        return tuple(range(last + 1))
    moe = workload.model.moe
    if moe is None or not moe.dense_layers:
        return (0, 1, last)
    free = next((n for n in range(1, last) if not stage_layers(workload, n).dense), 1)
    return tuple(sorted({0, 1, free, last}))


def stages_of(
    workload: Workload, known: StackConstants, indices: range | tuple[int, ...]
) -> tuple[StageMemory, ...]:
    """The memory of the given stages."""
    layer = layer_activations(workload, known)
    counts = model_counts(workload)
    outside = int(known.context_bytes + communicators(workload) * known.communicator_bytes)
    return tuple([_stage(workload, known, layer, counts, outside, index) for index in indices])


def communicators(workload: Workload) -> int:
    """How many groups of ranks a rank talks in, each with buffers of its own."""
    layout = workload.layout
    return (
        (layout.tp_size > 1)
        + (layout.pp_size > 1)
        + (layout.dp_size * layout.cp_size > 1)
        + (layout.cp_size > 1)
        + (layout.ep_size > 1)
    )


def judged(workload: Workload, known: StackConstants, stages: tuple[StageMemory, ...]) -> Memory:
    """The stages with the fullest of them and its verdict."""
    fullest = max(stages, key=lambda stage: stage.total)
    tested = known.error if workload.model.moe is None else known.expert_error
    untested = borrowed(workload)
    assumed = max(0.0, borrowed_error() - tested) if untested else 0.0
    if narrow_format(workload) is not None:
        assumed += _narrowed_share(workload, known, fullest)
        untested = (*untested, f"copies of weights and inputs in {workload.precision}")
    error = tested + assumed
    need, room = fullest.total, workload.hardware.memory_bytes
    if need * (1 + error) <= room:
        verdict = MemoryFit.FITS
    elif need * (1 - error) > room:
        verdict = MemoryFit.DOES_NOT_FIT
    else:
        verdict = MemoryFit.RISKY
    return Memory(stages, fullest, verdict, room - need, error, untested, assumed)


def borrowed(workload: Workload) -> tuple[str, ...]:
    """For what of a workload constants stand in that were fitted to something else, in words.

    No figure of FSDP or of fp32 was ever fitted. The error bar is then that of one stack's figures
    by the constants of another (`backtest/memory_backtest.py`).
    """
    found = []
    if not is_known(workload.stack):
        found.append(f"{workload.stack}, by the constants of {stand_in()}")
    if workload.sharding is Sharding.FSDP:
        found.append("what FSDP shares out and gathers")
    if workload.precision is Precision.FP32:
        found.append("activations in fp32, reckoned from 16-bit runs")
    return tuple(found)


def _narrowed_share(workload: Workload, known: StackConstants, stage: StageMemory) -> float:
    """What narrow products change in a stage, weights and activations apart, over all of it.

    Hardly anything published tests it, so the error bar spans it: as if none of it were so.
    """
    wide = replace(workload, precision=Precision.BF16)
    (plain,) = stages_of(wide, known, (stage.index,))
    changed = abs(stage.weights - plain.weights) + abs(stage.activations - plain.activations)
    return changed / stage.total


def _stage(
    workload: Workload,
    known: StackConstants,
    layer: LayerActivations,
    counts: ModelCounts,
    outside: int,
    index: int,
) -> StageMemory:
    layout = workload.layout
    chunks = chunk_layers(workload, index)
    layers = total_layers(chunks)
    rest, routed = stage_parameters(workload, counts, layers, index)
    held = states(workload, known, counts, layers, rest, routed)
    kept = _kept(workload, layer, chunks, index)
    logits = 0.0
    if index == layout.pp_size - 1:
        # Input and output of the norm before the output projection.
        kept += 2 * layer.width
        logits = logit_memory(workload, known)
    # The logits are gone when the first layer is differentiated: the larger of both counts.
    activations = kept + max(0.0, layer.working - logits) + known.allocated_bytes
    return StageMemory(
        index,
        held.weights,
        held.gradients,
        held.optimizer,
        int(activations),
        int(logits),
        outside,
        int(activations * known.fragmentation + logits * known.logit_fragmentation),
    )


def _kept(workload: Workload, layer: LayerActivations, chunks: list[Layers], index: int) -> float:
    """Bytes that all micro batches in flight keep on a stage."""
    first = chunks[0]
    if chunks.count(first) < len(chunks):
        sizes = [own.dense * layer.kept + own.expert * layer.kept_expert for own in chunks]
        return most_kept(workload, index, sizes)
    kept = first.dense * layer.kept + first.expert * layer.kept_expert
    return kept * len(chunks) * in_flight(workload, index)


def logit_memory(workload: Workload, known: StackConstants) -> float:
    """Bytes of logits, softmax and gradient of one micro batch on the last stage."""
    layout = workload.layout
    tokens = workload.micro_batch_size * workload.sequence_length / layout.cp_size
    # One of the copies is in the format of the products, the others are in fp32 as ever.
    wider = element_bytes(workload) - HALF_BYTES
    own = known.logit_bytes + wider if known.logit_bytes else 0.0
    whole = known.whole_logit_bytes + wider if known.whole_logit_bytes else 0.0
    per_entry = own / layout.tp_size + whole
    return tokens * workload.padded_vocab_size * per_entry
