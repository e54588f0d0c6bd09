# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Planted hangs are found where they are, and legal steps have none."""

import random
from dataclasses import replace

import pytest

from seatrial.planning.counted import Communication, Event, Pass, RankCount, Wait
from seatrial.planning.layout import Layout
from seatrial.rehearsal.executed_ranks import ranks_to_match, representative
from seatrial.rehearsal.matching import Hang, Matching, match_ranks
from tests.unit.rehearsal.counted_steps import (
    LINES,
    Change,
    Recorder,
    Step,
    at_lines,
    record,
    records,
    without,
)

LAYOUT = Layout(tp_size=4, dp_size=4, pp_size=4)
TENSOR = "TENSOR_MODEL_PARALLEL_GROUP"
DATA = "DATA_PARALLEL_GROUP_WITH_CP"
PIPELINE = "PIPELINE_MODEL_PARALLEL_GROUP"


def matched(step: Step, change: Change | None = None) -> Matching:
    ranks = ranks_to_match(step.layout)
    found = records(step, ranks, change) if change is not None else records(step, ranks)
    return match_ranks(found, representative(step.layout, ranks))


def is_at(own: Recorder, event: Event, line: str, micro_batch: int, during: Pass) -> bool:
    """Return True for the first communication of a line in a pass."""
    return (
        isinstance(event, Communication)
        and own.places[event.place].line == LINES[line]
        and (event.micro_batch, event.during) == (micro_batch, during)
    )


def test_a_legal_step_has_no_findings_and_says_what_was_compared() -> None:
    found = matched(Step(LAYOUT, experts=True))
    assert found.findings == ()
    assert found.groups > 10
    assert found.collectives > 500
    assert found.transfers > 20
    assert found.assumed == ("even routing",)


def test_an_additional_collective_on_one_rank_of_a_stage() -> None:
    def change(own: Recorder, event: Event) -> list[Event]:
        extra = is_at(own, event, "tp", 2, Pass.FORWARD) and own.module.endswith("0.mlp")
        if own.rank == 3 and extra and isinstance(event, Communication):
            return [event, replace(event, place=own.place("plugin.py:7"))]
        return [event]

    [finding] = matched(Step(LAYOUT), change).findings
    assert finding.ranks == (0, 3)
    assert finding.group.name == TENSOR
    assert finding.sides[1].place is not None
    assert finding.sides[1].place.line == "plugin.py:7"
    assert finding.sides[1].place.module == "decoder.layers.0.mlp"
    assert "forward of micro-batch 2" in str(finding)


def test_an_additional_collective_on_one_stage() -> None:
    # Only the second stage reduces over all ranks of the model.
    def change(own: Recorder, event: Event) -> list[Event]:
        twice = isinstance(event, Communication) and own.stage == 1
        return [event, event] if twice and is_at(own, event, "norm", -1, Pass.UPDATE) else [event]

    [finding] = matched(Step(LAYOUT), change).findings
    assert (finding.hang, finding.group.name) == (Hang.MISSING, "MODEL_PARALLEL_GROUP")
    assert finding.ranks == (0, 16)
    assert "rank 0 has no further operation there" in str(finding)
    assert f"({LINES['norm']}, update)" in str(finding)


def test_swapped_collectives_of_a_group() -> None:
    pending: list[Event] = []

    def change(own: Recorder, event: Event) -> list[Event]:
        if own.rank != 2 or own.module != "decoder.layers.1.mlp" or own.micro_batch != 1:
            return [event]
        if isinstance(event, Communication) and event.kind == "all_gather":
            pending.append(event)
            return []
        if isinstance(event, Communication):
            return [event, pending.pop()]
        return [event]

    [finding] = matched(Step(LAYOUT), change).findings
    assert (finding.hang, finding.ranks, finding.group.name) == (Hang.KIND, (0, 2), TENSOR)
    assert "rank 0 does an all_gather of 9.38 KiB bf16 in decoder.layers.1.mlp" in str(finding)
    assert "rank 2 does a reduce_scatter of 9.38 KiB bf16 in decoder.layers.1.mlp" in str(finding)


def test_sizes_that_differ_because_layers_are_uneven() -> None:
    ranks = ranks_to_match(LAYOUT)
    step = Step(LAYOUT, overlapped=False)
    uneven = replace(step, layers=(2, 2, 2, 3))
    found = [record(uneven if rank == 60 else step, rank) for rank in ranks]
    reduced = [
        finding
        for finding in match_ranks(found, representative(LAYOUT, ranks)).findings
        if finding.group.name == DATA
    ]
    assert [(one.hang, one.ranks) for one in reduced] == [(Hang.SIZE, (48, 60))]
    assert "rank 48 does a reduce_scatter of 75 KiB fp32" in str(reduced[0])
    assert "rank 60 does a reduce_scatter of 112 KiB fp32" in str(reduced[0])


def test_a_transfer_whose_sides_expect_different_sizes() -> None:
    def change(own: Recorder, event: Event) -> list[Event]:
        if isinstance(event, Communication) and event.kind == "send" and own.stage == 1:
            return [replace(event, size=event.size + 200)] if event.peer == 32 else [event]
        return [event]

    finding = matched(Step(LAYOUT), change).findings[0]
    assert (finding.hang, finding.ranks, finding.group.name) == (Hang.SIZE, (16, 32), PIPELINE)
    assert "rank 16 sends 2.54 KiB bf16 to rank 32" in str(finding)
    assert "rank 32 receives 2.34 KiB bf16 from rank 16" in str(finding)


def test_a_missing_receive() -> None:
    ranks = tuple(stage * 16 for stage in range(4))
    found = records(Step(LAYOUT), ranks)
    receives = [
        index
        for index in at_lines(found[2], "pp")
        if isinstance(event := found[2].events[index], Communication)
        and (event.kind, event.peer) == ("receive", 16)
    ]
    found[2] = without(found[2], receives[2])
    [finding] = match_ranks(found, representative(LAYOUT, ranks)).findings
    assert (finding.hang, finding.ranks, finding.number) == (Hang.MISSING, (16, 32), 4)
    assert "rank 16 sends" in str(finding)
    assert "rank 32 has no further operation there" in str(finding)


def test_a_condition_on_the_data_parallel_rank() -> None:
    def change(own: Recorder, event: Event) -> list[Event]:
        middle = own.rank // 4 % 4 == 2
        if middle and is_at(own, event, "gather", -1, Pass.UPDATE):
            return []
        return [event]

    [finding] = matched(Step(LAYOUT), change).findings
    assert (finding.hang, finding.group.name) == (Hang.MISSING, DATA)
    assert finding.ranks == (0, 8)
    assert finding.count == 3  # On the first, a middle and the last stage.
    assert "The same happens 2 more times" in str(finding)


def test_an_optimizer_that_gathers_twice_on_the_last_replica() -> None:
    def change(own: Recorder, event: Event) -> list[Event]:
        last = own.rank // 4 % 4 == 3
        return [event, event] if last and is_at(own, event, "gather", -1, Pass.UPDATE) else [event]

    first = matched(Step(LAYOUT), change).findings[0]
    assert (first.hang, first.ranks) == (Hang.MISSING, (0, 12))
    assert LINES["gather"] in str(first)


def test_a_wrong_type() -> None:
    def change(own: Recorder, event: Event) -> list[Event]:
        reduces = isinstance(event, Communication) and event.kind == "reduce_scatter"
        if own.rank == 12 and isinstance(event, Communication) and reduces:
            return [replace(event, dtype="fp16" if event.dtype == "fp32" else "bf16")]
        return [event]

    [finding] = matched(Step(LAYOUT), change).findings
    assert (finding.hang, finding.ranks, finding.group.name) == (Hang.DTYPE, (0, 12), DATA)
    assert "37.5 KiB fp32" in str(finding)
    assert "37.5 KiB fp16" in str(finding)


def test_a_broadcast_with_different_roots() -> None:
    def change(own: Recorder, event: Event) -> list[Event]:
        if is_at(own, event, "norm", -1, Pass.UPDATE) and isinstance(event, Communication):
            root = 1 if own.rank == 3 else 0
            return [replace(event, kind="broadcast", peer=root)]
        return [event]

    [finding] = matched(Step(Layout(tp_size=4)), change).findings
    assert (finding.hang, finding.ranks) == (Hang.ROOT, (0, 3))
    assert "from rank 1" in str(finding)


def test_sends_that_wait_for_each_other() -> None:
    # Every rank sends to the next one before it receives, as in a ring without batches.
    def change(own: Recorder, event: Event) -> list[Event]:
        if isinstance(event, Communication) and own.groups[event.group].name.startswith("CONTEXT"):
            return [replace(event, batch=None, asynchronous=False)]
        return [event] if not isinstance(event, Wait) else []

    [finding] = matched(Step(Layout(cp_size=4)), change).findings
    assert finding.hang is Hang.CYCLE
    assert finding.ranks in {(0, 2, 3), (0, 1, 2, 3), (0, 2), (0, 3, 2)}
    assert all(side.place is not None and side.place.line == LINES["cp"] for side in finding.sides)
    assert "sends 1.17 KiB bf16 to rank 1 in decoder.layers.0.self_attention" in str(finding)


def test_two_ranks_that_send_before_they_receive() -> None:
    def change(own: Recorder, event: Event) -> list[Event]:
        if isinstance(event, Communication) and event.kind in {"send", "receive"}:
            return [replace(event, batch=None, asynchronous=False)]
        return [event] if not isinstance(event, Wait) else []

    [finding] = matched(Step(Layout(pp_size=2), unbatched=False), change).findings
    assert (finding.hang, finding.ranks) == (Hang.CYCLE, (0, 1))
    assert "rank 0 sends" in str(finding)
    assert "rank 1 sends" in str(finding)


def test_two_groups_that_are_used_in_different_orders() -> None:
    # The norm and the gather are in different groups: in each group, the order is the same.
    layout = Layout(dp_size=2, pp_size=2)
    found = records(Step(layout), (0, 1, 2, 3))
    represent = representative(layout, range(4))
    found[3] = gathering_first(found[3])
    # Rank 2 computes its norm with rank 0 and joins rank 3 later.
    assert match_ranks(found, represent).findings == ()
    found[0] = gathering_first(found[0])
    [finding] = match_ranks(found, represent).findings
    assert finding.hang is Hang.CYCLE
    assert set(finding.ranks) == {0, 1, 2, 3}
    assert [side.group.name for side in finding.sides].count(DATA) == 2
    assert str(finding).startswith("Cycle of waits")


def gathering_first(found: RankCount) -> RankCount:
    [norm], [gather] = at_lines(found, "norm"), at_lines(found, "gather")
    events = list(found.events)
    events[norm], events[gather] = events[gather], events[norm]
    return replace(found, events=tuple(events))


def test_waits_in_different_orders() -> None:
    # A communicator executes in order of launch, so ranks that launch asynchronous operations of
    # two groups in different orders still finish; ranks that wait in between do not.
    def change(own: Recorder, event: Event, *, waits: bool) -> list[Event]:
        if not is_at(own, event, "norm", -1, Pass.UPDATE) or not isinstance(event, Communication):
            return [event]
        first = replace(event, asynchronous=waits is False)
        second = replace(first, group=own.group_of("OTHER_GROUP", (0, 1)), place=first.place)
        order = [first, second] if own.rank == 0 else [second, first]
        start = len(own.events)
        return [*order, Wait(start), Wait(start + 1)] if not waits else [*order]

    step = Step(Layout(tp_size=2))
    assert matched(step, lambda own, event: change(own, event, waits=False)).findings == ()
    [finding] = matched(step, lambda own, event: change(own, event, waits=True)).findings
    assert (finding.hang, finding.ranks) == (Hang.CYCLE, (0, 1))
    assert [side.group.name for side in finding.sides] == ["MODEL_PARALLEL_GROUP", "OTHER_GROUP"]


def test_sizes_of_exchanges_are_compared_only_under_one_routing() -> None:
    def change(own: Recorder, event: Event) -> list[Event]:
        if isinstance(event, Communication) and event.kind == "all_to_all" and own.rank == 2:
            return [replace(event, size=event.size * 6 // 5)]
        return [event]

    step = Step(Layout(dp_size=4, ep_size=4), experts=True)
    ranks = ranks_to_match(step.layout)
    found = records(step, ranks, change)
    [finding] = match_ranks(found, representative(step.layout, ranks)).findings
    assert (finding.hang, finding.ranks) == (Hang.SIZE, (0, 2))
    stated = [replace(one, assumed=(f"{one.rank} tokens",)) for one in found]
    assert match_ranks(stated, representative(step.layout, ranks)).findings == ()


def test_a_peer_that_was_not_executed_is_represented() -> None:
    ranks = ranks_to_match(LAYOUT)
    represent = representative(LAYOUT, ranks)
    assert 17 not in ranks
    assert represent(17) == 16

    def change(own: Recorder, event: Event) -> list[Event]:
        # Rank 2 is the middle member of its tensor-parallel group; its peer 18 is not executed.
        if own.rank == 2 and isinstance(event, Communication) and event.kind == "send":
            return [replace(event, dtype="fp32")]
        return [event]

    [finding] = matched(Step(LAYOUT), change).findings
    assert (finding.hang, finding.ranks) == (Hang.DTYPE, (2, 16))
    assert "rank 18 (executed as rank 16) receives" in str(finding)


def test_ranks_to_match_cover_first_middle_and_last_of_every_group() -> None:
    layout = Layout(tp_size=8, cp_size=2, dp_size=16, pp_size=16, ep_size=8)
    ranks = ranks_to_match(layout)
    stage = layout.world_size // 16
    assert len(ranks) < 60
    assert {0, 4, 7, 8, 16 * 8, 16 * 15, stage - 1} <= set(ranks)  # tp, cp, dp and the last rank
    assert {stage * n for n in range(16)} <= set(ranks)
    assert {15 * stage + 4, 16 * stage - 1} <= set(ranks)
    assert {8 * 16, 8 * 31} <= set(ranks)  # replicas of experts
    with pytest.raises(ValueError, match="no rank of stage 1 was executed"):
        representative(layout, [0])(stage)


def random_step(chance: random.Random) -> Step:
    stages = chance.choice([1, 1, 2, 3, 4, 5])
    chunks = chance.choice([1, 1, 2, 3]) if stages > 2 else 1
    layout = Layout(
        tp_size=chance.choice([1, 2, 4, 8]),
        cp_size=chance.choice([1, 1, 2, 4]),
        dp_size=chance.choice([1, 2, 3, 4, 8]),
        pp_size=stages,
        vp_size=chunks,
    )
    inside = layout.world_size // stages
    layout = replace(layout, ep_size=chance.choice([n for n in (1, 2, 4, 8) if inside % n == 0]))
    batches = stages * chance.randint(1, 2) if chunks > 1 else chance.randint(1, 5)
    return Step(
        layout,
        micro_batches=batches,
        layers=tuple(1 + (chance.random() < 0.3) for _ in range(stages)),
        overlapped=chance.random() < 0.5,
        tied=chance.random() < 0.5,
        unbatched=chunks == 1 and chance.random() < 0.4,
        experts=layout.ep_size > 1,
    )


def test_random_legal_layouts_have_no_findings() -> None:
    chance = random.Random(30)  # noqa: S311
    for _ in range(200):
        step = random_step(chance)
        found = matched(step)
        assert found.findings == (), f"{step}: {found.findings[0]}"


def test_a_wait_of_one_rank_leaves_the_others_alone() -> None:
    # One executed rank has nobody to disagree with.
    found = match_ranks([record(Step(Layout(tp_size=4)), 0)], lambda rank: 0)
    assert (found.findings, found.groups) == ((), 0)
