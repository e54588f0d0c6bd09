# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A page with made-up figures, so that better constants do not change what is tested of it."""

from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from types import MappingProxyType

from seatrial.catalog.catalog import Catalog
from seatrial.planning.length import BatchPhase
from seatrial.planning.memory.breakdown import Memory, MemoryFit, StageMemory
from seatrial.planning.plan import Plan
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import Basis, resolve_basis
from seatrial.planning.run_budget import Cost, Duration, RunBudget
from seatrial.planning.saving.interval import FailureRate, Losses
from seatrial.planning.saving.run_saves import Saves
from seatrial.planning.saving.save_budget import SaveBudget
from seatrial.planning.saving.size import Kept
from seatrial.planning.search.candidates import Lacking, Priced, SearchOutcome
from seatrial.planning.search.choose import LayoutChooser
from seatrial.planning.timing.breakdown import StepTime, TimePart
from seatrial.planning.timing.constants import TimingConstants
from seatrial.planning.timing.rates import Rates
from seatrial.reports.plan_text import Page
from seatrial.spec.parallelism import Recompute
from tests.unit.planning.search.asked import opened

GIB = 1 << 30
TIB = 1 << 40
DAY = 86400.0
GIVEN = (
    "parallelism={tp_size: 4, pp_size: 2, vp_size: 1, cp_size: 1, sequence_parallel: true, "
    "sharding: optimizer, recompute: selective}",
    "training={tokens: 150B, micro_batch_size: 4, global_batch_size: 1024}",
    "checkpoints={every_steps: 133}",
)


def _stage(index: int, activations: float) -> StageMemory:
    """A stage with made-up memory."""
    sizes = (3.5, 7.0, 5.2, activations, 0.8 * index, 1.2, 0.9)
    return StageMemory(index, *(int(size * GIB) for size in sizes))


def _memory(activations: float, room: float) -> Memory:
    """Two stages."""
    stages = (_stage(0, activations), _stage(1, activations / 2))
    headroom = int(room * GIB) - stages[0].total
    verdict = MemoryFit.FITS if headroom > 0 else MemoryFit.DOES_NOT_FIT
    return Memory(stages, stages[0], verdict, headroom, 0.05)


def _time(seconds: float, **parts: float) -> StepTime:
    """A step of so many seconds, of which some go to parts; the rest is compute."""
    named = {TimePart(name.replace("_", "-")): share * seconds for name, share in parts.items()}
    rest = {TimePart.COMPUTE: seconds - sum(named.values())}
    return StepTime(MappingProxyType(rest | named), (0.5, 0.6), 1.0e17, 16, 0.068)


class MadeUpChooser(LayoutChooser):
    """Prices every plan alike."""

    def __init__(self, basis: Basis, constants: TimingConstants, chosen: Priced) -> None:
        super().__init__(basis)
        self.constants = constants
        self.chosen = chosen

    def price(self, plan: Plan, phase: BatchPhase | None = None) -> Priced | None:
        return self.chosen


@dataclass(frozen=True)
class MadeUpRun(PlannedRun):
    """A run whose figures no model made."""

    figures: MadeUpChooser

    @cached_property
    def chooser(self) -> LayoutChooser:
        return self.figures

    @cached_property
    def given_fields(self) -> tuple[str, ...]:
        """The spec sets every field, also where the page is one of the planner's choice."""
        return () if self.searched else ("parallelism.tp_size",)


def with_figures(page: Page, chosen: Priced) -> Page:
    """The page with other memory and time."""
    assert isinstance(page.run, MadeUpRun)
    assert page.run.constants is not None
    figures = MadeUpChooser(page.run.basis, page.run.constants, chosen)
    return replace(page, run=replace(page.run, figures=figures))


def made_up_page(*, searched: bool = True) -> Page:
    """The page of a 7.5B model on 16 GPUs with figures that no model made."""
    run = plan_run(resolve_basis(opened(*GIVEN), Catalog()))
    assert run.chosen is not None
    chosen = Priced(
        run.chosen.candidate,
        run.chosen.workload,
        _memory(9.6, 39.39),
        _time(42.8, tensor_parallel=0.12, data_parallel=0.03, optimizer=0.01, other=0.05),
    )
    outcome = SearchOutcome(
        (chosen, *_others(chosen)), (_lacking(chosen),), risky=False, legal=310, priced=80
    )
    constants = TimingConstants(
        Rates(), 0.068, "120 rows of made-up runs", "1", error_nine_of_ten=0.15
    )
    figures = MadeUpChooser(run.basis, constants, chosen)
    shown = MadeUpRun(run.plan, {}, run.basis, None, outcome, searched, figures)
    return Page(
        shown,
        _budget(),
        "megatron 0.19.2",
        ".seatrial/open/plan.json, sha256:0123456789ab",
        "seatrial rehearse run.yaml",
        volume="a new volume of 1.17 TiB",
    )


def _others(chosen: Priced) -> tuple[Priced, Priced]:
    """Two layouts that lose, one to traffic and one to the bubble."""
    shape = chosen.candidate.shape
    wide = replace(shape, layout=replace(shape.layout, tp_size=8, pp_size=1))
    deep = replace(shape, layout=replace(shape.layout, tp_size=2, pp_size=4))
    return (
        replace(
            chosen,
            candidate=replace(chosen.candidate, shape=wide),
            time=_time(47.0, tensor_parallel=0.2, data_parallel=0.03),
        ),
        replace(
            chosen,
            candidate=replace(chosen.candidate, shape=deep),
            time=_time(49.8, tensor_parallel=0.1, bubble=0.2),
        ),
    )


def _lacking(chosen: Priced) -> Lacking:
    """A layout that does not fit."""
    shape = chosen.candidate.shape
    small = replace(shape, layout=replace(shape.layout, tp_size=2, pp_size=1, dp_size=8))
    candidate = replace(chosen.candidate, shape=small, recompute=Recompute.FULL)
    return Lacking(candidate, _memory(26.0, 39.39))


def _budget() -> RunBudget:
    """Time, cost and checkpoints."""
    saves = SaveBudget(
        size=105_000_000_000,
        write_seconds=21.0,
        best_every_steps=133,
        every_steps=133,
        lost=Losses(0.003, 0.001),
        kept=Kept(3, 0, 1),
        capacity=TIB * 9 // 10,
        volume=TIB,
        available=True,
        usd_per_month=None,
    )
    rate = FailureRate("made up", 419, 16384, 1296, "nowhere at all")
    times: dict[str, float | None] = {"fsx-lustre-250": 21.0, "fsx-lustre-500": 10.5}
    cost = Cost(37_312.0, 21.96, date(2026, 10, 1), "us-east-1", "nowhere at all")
    return RunBudget(
        Duration(35.4 * DAY, 0.107 * DAY, 0.036 * DAY),
        0.15,
        1_699.0,
        cost,
        Saves("fsx-lustre-250", False, saves, times, rate, 9 * DAY, 133 * 42.8),
    )
