# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How many micro batches a stage keeps the activations of, by Megatron's schedules.

`megatron/core/pipeline_parallel/schedules.py` of 0.19.2.
"""

from collections.abc import Sequence
from functools import cache
from operator import mul

from seatrial.planning.workload import Workload


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
