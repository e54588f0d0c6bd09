# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Expert groups stay inside a node unless another layout is clearly faster."""

from dataclasses import replace

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.codes.planning import PlanCode
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.search.candidates import SearchOutcome
from seatrial.planning.search.explain import why
from seatrial.planning.search.search import prefer_experts_inside
from seatrial.planning.timing.breakdown import TimePart
from seatrial.planning.timing.error_bars import time_error
from seatrial.planning.timing.step_time import step_time
from tests.unit.planning.search.asked import opened

RUN = ("model.preset=deepseek-v3", "cluster.node_type=p5.48xlarge", "cluster.nodes=128")


def planned(*overrides: str) -> PlannedRun:
    return plan_run(resolve_basis(opened(*RUN, *overrides), Catalog()))


def layout(ep: int) -> str:
    """Return 16 stages of 61 layers with an expert-parallel size."""
    stages = "pp_size: 16, first_stage_layers: 2, last_stage_layers: 3"
    return f"parallelism={{tp_size: 1, cp_size: 1, ep_size: {ep}, {stages}}}"


@pytest.fixture(scope="module")
def run() -> PlannedRun:
    return planned()


def test_a_slightly_faster_layout_across_nodes_does_not_win(run: PlannedRun) -> None:
    assert run.outcome is not None
    assert run.chosen is not None
    assert run.constants is not None
    best, second = run.outcome.ranked[:2]
    assert best.candidate.shape.layout.ep_size == 8
    assert second.candidate.shape.layout.ep_size > 8
    error = time_error(best.workload, run.constants, run.problem.limits).median
    assert best.rate < second.rate < best.rate * (1 + error)
    assert why(run.chosen, run.outcome, run.problem)[0].endswith("but its experts span nodes")


def test_a_clearly_faster_layout_across_nodes_wins(run: PlannedRun) -> None:
    assert run.outcome is not None
    assert run.constants is not None
    inside, across = run.outcome.ranked[:2]
    parts = {part: seconds / 2 for part, seconds in across.time.parts.items()}
    fast = replace(across, time=replace(across.time, parts=parts))
    outcome = SearchOutcome((fast, inside), (), risky=False, legal=2, priced=2)
    assert prefer_experts_inside(outcome, run.problem, run.constants).best is fast


def test_dispatchers_that_send_a_token_once_per_node_may_leave_it(run: PlannedRun) -> None:
    assert run.outcome is not None
    across = run.outcome.ranked[1]
    assert across.sends_copies_across
    flex = planned("performance.token_dispatcher=deepep")
    assert flex.chosen is not None
    assert not flex.chosen.sends_copies_across


def test_the_time_of_tokens_between_nodes_is_the_networks() -> None:
    seconds = {}
    for ep in (8, 32):
        run = planned(layout(ep))
        assert run.chosen is not None
        assert run.constants is not None
        seconds[ep] = step_time(run.chosen.workload, run.constants).parts[TimePart.EXPERT_PARALLEL]
    assert seconds[32] > 2 * seconds[8]


def test_a_spec_with_experts_across_nodes_gets_a_warning() -> None:
    def warned(*overrides: str) -> list[str]:
        found = planned(*overrides).plan.findings
        return [each.fix for each in found if each.code == PlanCode.EXPERTS_ACROSS_NODES]

    (fix,) = warned(layout(32))
    assert fix.startswith("Use ep_size 8 or less, or performance.token_dispatcher=deepep")
    assert warned(layout(32), "performance.token_dispatcher=deepep") == []
    assert warned(layout(8)) == []
    assert warned() == []
