# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Sharing out everything is never taken in silence: what it is weighed against is named."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.codes.planning import PlanCode
from seatrial.findings import Finding
from seatrial.planning.memory.breakdown import MemoryFit
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.search import choose
from seatrial.planning.search.candidates import Lacking, Priced
from seatrial.planning.search.explain import why
from seatrial.planning.search.verdicts import verdicts
from seatrial.planning.timing.constants import TimingConstants, table
from seatrial.planning.timing.rates import Rates
from seatrial.spec.parallelism import Sharding
from tests.unit.planning.search.asked import opened

MIGHT_FIT = ("model.preset=llama2-70b", "cluster.nodes=16", "parallelism.tp_size=1")
"""Only FSDP fits for certain; a layout with the distributed optimizer might."""
ONLY_FSDP = ("model.preset=llama2-70b", "cluster.nodes=8", "parallelism.pp_size=1")
"""Nothing but FSDP comes near."""
SLOW, FAST = 0.02, 50.0
"""Networks: FSDP, which sends all weights for every micro-batch, is far slower, or is not."""


def planned(
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    overrides: tuple[str, ...],
    network: float,
) -> tuple[PlannedRun, list[Finding]]:
    """A plan with made-up rates, so that no fit changes what is tested, and its findings."""
    rates = Rates(data_network=network, data_link=network)
    made_up = TimingConstants(rates, 0.05, "made up", "1", error_nine_of_ten=0.1)
    monkeypatch.setattr(choose, "constants_for", lambda *_: made_up)
    loaded = opened(*overrides)
    run = plan_run(resolve_basis(loaded, catalog))
    findings = [found for found in verdicts(loaded, run) if found.code != PlanCode.BEYOND_FIT]
    return run, findings


def test_a_far_faster_layout_that_might_fit_is_preferred_and_the_sure_one_named(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, findings = planned(catalog, monkeypatch, MIGHT_FIT, SLOW)
    assert run.chosen is not None
    assert run.outcome is not None
    assert run.plan.sharding is Sharding.OPTIMIZER
    assert run.chosen.memory.verdict is MemoryFit.RISKY
    assert run.chosen.memory.headroom >= 0
    sure = run.outcome.instead
    assert isinstance(sure, Priced)
    assert sure.memory.verdict is MemoryFit.FITS
    assert run.chosen.rate > 2 * sure.rate
    (finding,) = findings
    assert finding.code == "ST-PLAN-012"
    assert "fsdp certainly fits, and takes " in finding.rule
    assert "parallelism.sharding=fsdp" in finding.fix
    said = why(run.chosen, run.outcome, run.problem)[0]
    assert "with fsdp certainly fits" in said
    assert "times as long" in said


def test_fsdp_is_taken_with_a_word_where_nothing_else_fits(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, findings = planned(catalog, monkeypatch, ONLY_FSDP, SLOW)
    assert run.chosen is not None
    assert run.outcome is not None
    assert run.plan.sharding is Sharding.FSDP
    assert isinstance(run.outcome.instead, Lacking)
    (finding,) = findings
    assert finding.code == "ST-PLAN-015"
    assert "few published runs show how fast" in finding.rule
    assert finding.fix == (
        "Use auto for the rest of parallelism and micro_batch_size, which certainly fits."
    )
    assert why(run.chosen, run.outcome, run.problem)[0].startswith(
        "fsdp, because tp 8 · dp 8 with the distributed optimizer needs "
    )


def test_fsdp_is_taken_where_it_fits_and_is_about_as_fast(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, findings = planned(catalog, monkeypatch, MIGHT_FIT, FAST)
    assert run.chosen is not None
    assert run.outcome is not None
    assert run.plan.sharding is Sharding.FSDP
    other = run.outcome.instead
    assert isinstance(other, Priced)
    assert other.memory.verdict is MemoryFit.RISKY
    assert other.rate < run.chosen.rate * (1 + table().unseen_error)
    (finding,) = findings
    assert finding.code == "ST-PLAN-015"
    assert "only fsdp certainly fits" in finding.rule
    assert "parallelism.sharding=optimizer" in finding.fix


def test_the_time_of_megatrons_fsdp_is_that_of_the_unseen(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = planned(catalog, monkeypatch, ONLY_FSDP, SLOW)
    known = run.time_error
    assert known is not None
    assert known.median >= table().unseen_error
    assert known.nine_of_ten >= table().unseen_error_nine_of_ten
    assert known.beyond == ("FSDP, which few of the fitted megatron-core runs have",)
    less = planned(catalog, monkeypatch, (), FAST)[0].time_error
    assert less is not None
    assert (less.median, less.nine_of_ten, less.beyond) == (0.05, 0.1, ())


def test_nothing_is_said_of_it_where_the_optimizer_alone_is_enough(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, findings = planned(catalog, monkeypatch, (), SLOW)
    assert run.outcome is not None
    assert run.outcome.instead is None
    assert findings == []
