# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Estimate the memory of each stage of a layout, and whether it fits on the GPU."""

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

PREDICTION_WIDTHS = 5
"""Tensors as wide as the residual stream that a layer for multi-token prediction stores besides
those of its layer: its embeddings, the joined inputs (two), input and output of its final norm
(`core/transformer/multi_token_prediction.py` in megatron-core 0.19.2)."""


def in_flight(workload: Workload, stage: int) -> float:
    """Return the peak number of micro-batches whose activations a stage stores.

    In the plain schedule, this is one more than the number of later stages. The interleaved
    schedule counts chunks: 2 (p - i - 1) + (v - 1) p from the warm-up, plus the running one.
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
    """Return the peak of a stage's stored activations if its chunks differ."""
    stages, chunks = workload.layout.pp_size, workload.layout.vp_size
    # After two rounds through all chunks, the pattern repeats.
    passes = 2 * (stages - stage - 1) + 3 * chunks * stages
    batches = min(workload.micro_batches, -(-passes // chunks))
    held = held_chunks(stages, chunks, stage, batches)
    return max(float(sum(map(mul, counts, chunk_bytes))) for counts in held)


@cache
def held_chunks(
    stages: int, chunks: int, stage: int, micro_batches: int
) -> frozenset[tuple[int, ...]]:
    """Return the peak combinations of micro-batches that each chunk stores.

    Chunks alternate after as many passes as there are stages; backward passes use the chunks in the
    opposite order.
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
    """Return the memory of the stages that can be the fullest, and the verdict."""
    known = constants(workload.stack)
    return judged(workload, known, stages_of(workload, known, deciding_stages(workload)))


def every_stage(workload: Workload) -> Memory:
    """Return the memory of all stages, for figures."""
    known = constants(workload.stack)
    return judged(workload, known, stages_of(workload, known, range(workload.layout.pp_size)))


def deciding_stages(workload: Workload) -> tuple[int, ...]:
    """Return the stages that can be the fullest.

    The stages between the first and the last have the same number of layers, and earlier stages
    have more micro-batches in flight. Leading layers without experts make a stage smaller, so the
    first stage without such layers is included too. If layers with and without experts alternate,
    it is the first of the stages with the most experts. In a custom layout, any stage can be.
    """
    last = workload.layout.pp_size - 1
    if last < 2 or workload.stages[0].mtp is not None:
        return tuple(range(last + 1))
    moe = workload.model.moe
    if moe is not None and moe.layer_interval > 1:
        most = max(range(1, last), key=lambda n: stage_layers(workload, n).expert)
        return tuple(sorted({0, 1, most, last}))
    if moe is None or not moe.dense_layers:
        return (0, 1, last)
    free = next((n for n in range(1, last) if not stage_layers(workload, n).dense), 1)
    return tuple(sorted({0, 1, free, last}))


def stages_of(
    workload: Workload, known: StackConstants, indices: range | tuple[int, ...]
) -> tuple[StageMemory, ...]:
    """Return the memory of the given stages."""
    layer = layer_activations(workload, known)
    counts = model_counts(workload)
    outside = int(known.context_bytes + communicators(workload) * known.communicator_bytes)
    return tuple([_stage(workload, known, layer, counts, outside, index) for index in indices])


def communicators(workload: Workload) -> int:
    """Return the number of communicators on a rank, each with its own buffers."""
    layout = workload.layout
    return (
        (layout.tp_size > 1)
        + (layout.pp_size > 1)
        + (layout.dp_size * layout.cp_size > 1)
        + (layout.cp_size > 1)
        + (layout.ep_size > 1)
    )


def judged(workload: Workload, known: StackConstants, stages: tuple[StageMemory, ...]) -> Memory:
    """Return the stages with the fullest one and the verdict."""
    fullest = max(stages, key=lambda stage: stage.total)
    tested = known.error if workload.model.moe is None else known.expert_error
    untested = borrowed(workload)
    assumed = max(0.0, borrowed_error() - tested) if untested else 0.0
    if narrow_format(workload) is not None:
        assumed += _narrowed_share(workload, known, fullest)
        untested = (*untested, f"{workload.precision} copies of weights and inputs")
    error = tested + assumed
    need, room = fullest.total, workload.hardware.memory_bytes
    return Memory(stages, fullest, fit(need, room, error), room - need, error, untested, assumed)


def fit(need: int, room: int, error: float) -> MemoryFit:
    """Return whether a process fits on its GPU, with a relative error bar."""
    if need * (1 + error) <= room:
        return MemoryFit.FITS
    return MemoryFit.DOES_NOT_FIT if need * (1 - error) > room else MemoryFit.RISKY


def borrowed(workload: Workload) -> tuple[str, ...]:
    """Return the parts of a workload that use constants from different runs, as text.

    No figure with FSDP or fp32 was fitted. Their error bar is that of one stack's figures with the
    constants of a different stack (`backtest/memory_backtest.py`).
    """
    found = []
    if not is_known(workload.stack):
        found.append(f"{workload.stack}, estimated with the constants of {stand_in()}")
    if workload.sharding is Sharding.FSDP:
        found.append("FSDP sharding and gathering")
    if workload.precision is Precision.FP32:
        found.append("activations in fp32, estimated from 16-bit runs")
    return tuple(found)


def _narrowed_share(workload: Workload, known: StackConstants, stage: StageMemory) -> float:
    """Return the relative change in a stage's memory due to narrow products.

    Published figures barely test this change, so the error bar covers all of it.
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
    kept = _kept(workload, layer, chunks, index) - _on_host(workload, layer, layers)
    logits = 0.0
    if workload.stages[index].has_mtp(layout.pp_size):
        kept += PREDICTION_WIDTHS * workload.model.mtp_layers * layer.width
    if index == layout.pp_size - 1:
        # Input and output of the norm before the output projection.
        kept += 2 * layer.width
        logits = logit_memory(workload, known)
    # The logits are freed before the backward pass of the first layer: the larger peak counts.
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
    """Return the bytes that all micro-batches in flight store on a stage."""
    first = chunks[0]
    if chunks.count(first) < len(chunks):
        sizes = [own.dense * layer.kept + own.expert * layer.kept_expert for own in chunks]
        return most_kept(workload, index, sizes)
    kept = first.dense * layer.kept + first.expert * layer.kept_expert
    return kept * len(chunks) * in_flight(workload, index)


def _on_host(workload: Workload, layer: LayerActivations, layers: Layers) -> float:
    """Return the bytes of activations that are kept in the host's memory; only without stages."""
    options = workload.options
    if options is None or not options.activation_offload:
        return 0.0
    expert = min(options.activation_offload, layers.expert)
    dense = min(options.activation_offload - expert, layers.dense)
    return dense * layer.kept + expert * layer.kept_expert


def logit_memory(workload: Workload, known: StackConstants) -> float:
    """Return the bytes of logits, softmax and gradient for one micro-batch on the last stage.

    Each layer for multi-token prediction has its own, which are stored as long as the others.
    """
    layout = workload.layout
    tokens = workload.micro_batch_size * workload.sequence_length / layout.cp_size
    # One copy is in the format of the products, the others are in fp32.
    wider = element_bytes(workload) - HALF_BYTES
    own = known.logit_bytes + wider if known.logit_bytes else 0.0
    whole = known.whole_logit_bytes + wider if known.whole_logit_bytes else 0.0
    per_entry = own / layout.tp_size + whole
    heads = 1 + workload.model.mtp_layers
    return tokens * workload.padded_vocab_size * per_entry * heads
