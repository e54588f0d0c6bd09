# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The pipeline schedule takes as long as theory says, and does everything once, in order."""

from itertools import pairwise

import pytest

from seatrial.planning.search.pipeline_schedule import Slot, schedule


def length(slots: list[Slot]) -> float:
    return max(slot.end for slot in slots)


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 4), (2, 2), (4, 8), (8, 16), (4, 2)])
def test_the_plain_schedule_has_the_bubble_of_theory(stages: int, micro_batches: int) -> None:
    slots = schedule((3.0,) * stages, micro_batches, 1)
    assert length(slots) == pytest.approx(3.0 * (micro_batches + stages - 1))


@pytest.mark.parametrize(("stages", "micro_batches", "chunks"), [(2, 4, 2), (4, 8, 2), (4, 8, 3)])
def test_chunks_divide_the_bubble(stages: int, micro_batches: int, chunks: int) -> None:
    slots = schedule((3.0,) * stages, micro_batches, chunks)
    bubble = (stages - 1) / chunks
    assert length(slots) == pytest.approx(3.0 * (micro_batches + bubble))


@pytest.mark.parametrize("chunks", [1, 2])
def test_everything_is_done_once_and_after_what_it_needs(chunks: int) -> None:
    slots = schedule((1.0, 2.0, 1.5, 1.0), 8, chunks)
    ends = {(s.stage, s.chunk, s.micro_batch, s.forward): s.end for s in slots}
    assert len(ends) == len(slots) == 4 * 8 * chunks * 2
    for slot in slots:
        if slot.forward and slot.stage:
            assert slot.begin >= ends[slot.stage - 1, slot.chunk, slot.micro_batch, True]
        if not slot.forward:
            assert slot.begin >= ends[slot.stage, slot.chunk, slot.micro_batch, True]
            if slot.stage < 3:
                assert slot.begin >= ends[slot.stage + 1, slot.chunk, slot.micro_batch, False]
    for stage in range(4):
        own = sorted((s.begin, s.end) for s in slots if s.stage == stage)
        assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(own))
