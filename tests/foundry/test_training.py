# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry on a CPU: one rank, two alone, two sharded; killed, resumed, on other ranks.

The kills run in pieces: SEATRIAL_FAULT_SEEDS=0:5 make foundry ARGS='-k kill'; each is appended to
build/fault-results.jsonl, and one seed alone repeats its case.
"""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engine_process.process import TrainingOutcome, differing_tensors
from seatrial.engines.engine import Resharding, Trial
from seatrial.planning.layout import Layout
from seatrial.planning.plan import Plan
from seatrial.recipes.shipped import recipe
from seatrial.rehearsal.parity import largest_difference
from seatrial.rehearsal.twin import SAVE_AT, STEPS, TwinData, twins
from seatrial.spec.loader import load
from tests.conftest import plan_spec
from tests.faults.checkpoint_starts import record, seeds
from tests.foundry.conftest import Figure
from tests.foundry.warm import FOUNDRY, WarmFoundry

pytestmark = [pytest.mark.engine, pytest.mark.timeout(7200)]

CATALOG = Catalog()
RECIPES = ("aks-mpt-125m", "aks-mpt-30b")
PARITY = 1e-6
"""Largest relative difference of a loss between layouts."""
OTHER_RANKS = 1e-5
"""And after a resume on another number of ranks."""
NORM_PARITY = 1e-5
"""Of a gradient norm, which adds up more roundings than a loss."""
KILLS = 20
KILLED = "llm-foundry kills"
"""What the cases are called among the results."""


def twin(name: str, sharding: str) -> Plan:
    """The shrunk twin of a recipe."""
    loaded = load(recipe(name).path, (f"parallelism.sharding={sharding}", *_plain(sharding)))
    return twins(loaded, plan_spec(loaded, CATALOG), CATALOG, TwinData())[0].plan


def _plain(sharding: str) -> tuple[str, ...]:
    # Layers are computed again only where they are sharded.
    return ("parallelism.recompute=none",) if sharding == "none" else ()


@dataclass(frozen=True, slots=True)
class Bench:
    """Where trainings of a test work, and what starts them."""

    directory: Path
    engine: WarmFoundry

    def start(
        self,
        plan: Plan,
        name: str,
        ranks: int,
        *,
        saves: str = "",
        kill: tuple[int, int] | None = None,
        resharding: Resharding | None = None,
    ) -> TrainingOutcome:
        """One training; it must end well unless it is to be killed."""
        place = str(self.directory)
        trial = Trial(place, f"{place}/{saves or name}", True, resharding)
        arguments = FOUNDRY.trial_arguments(plan, trial)
        outcome = self.engine.start(self.directory, name, arguments, ranks, kill)
        assert kill is not None or outcome.code == 0, f"{name}: {outcome.tail}"
        return outcome


@pytest.fixture
def bench(tmp_path: Path, warm: WarmFoundry) -> Bench:
    return Bench(tmp_path, warm)


def figures(outcome: TrainingOutcome) -> dict[int, tuple[float, float, str]]:
    """Loss, gradient norm and samples of each step."""
    return {
        step: (event.values["loss"], event.values["grad_norm"], event.values["samples"])
        for step, event in outcome.steps().items()
    }


def norms_of(outcome: TrainingOutcome) -> dict[int, float]:
    """The gradient norm of each step."""
    return {step: event.values["grad_norm"] for step, event in outcome.steps().items()}


@pytest.mark.parametrize("name", RECIPES)
def test_layouts_give_the_same_losses(name: str, bench: Bench, figure: Figure) -> None:
    alone = bench.start(twin(name, "none"), "alone", 1)
    assert len(alone.losses()) == STEPS
    for sharding, called in (("none", "2 ranks, DDP"), ("fsdp", "2 ranks, FSDP")):
        other = bench.start(twin(name, sharding), sharding, 2)
        assert len(other.losses()) == STEPS
        worst = largest_difference(alone.losses(), other.losses())
        norms = largest_difference(norms_of(alone), norms_of(other))
        figure("parity", f"{name}, {called}", f"{worst:.1e}", f"{norms:.1e}")
        assert worst <= PARITY
        assert norms <= NORM_PARITY


@pytest.mark.parametrize("sharding", ["none", "fsdp"])
def test_kill_and_resume_to_the_last_bit(sharding: str, bench: Bench) -> None:
    plan = twin("aks-mpt-125m", sharding)
    straight = bench.start(plan, "straight", 2)
    theirs, last, wrong = figures(straight), FOUNDRY.checkpoint_naming.directory_name(STEPS), []
    for seed in seeds(KILLS):
        source = random.Random(seed)  # noqa: S311  (a drill, not a secret)
        kill = (source.randrange(2), source.randint(SAVE_AT + 1, STEPS - 1))
        where = f"killed-{seed}"
        killed = bench.start(plan, f"first-{seed}", 2, saves=where, kill=kill)
        assert killed.code != 0, "it was not killed"
        mine = figures(bench.start(plan, f"second-{seed}", 2, saves=where))
        tensors, differing = differing_tensors(
            bench.directory / "straight" / last,
            bench.directory / where / last,
            600.0,
            engine=FOUNDRY,
        )
        assert tensors > 10
        same = sorted(mine) == list(range(SAVE_AT + 1, STEPS + 1))
        right = same and not differing and all(mine[step] == theirs[step] for step in mine)
        record(KILLED, sharding=sharding, seed=seed, rank=kill[0], step=kill[1], right=right)
        if not right:
            wrong.append((seed, kill, differing[:3]))
    assert not wrong


@pytest.mark.parametrize(
    ("sharding", "ranks"), [("fsdp", 1), ("fsdp", 4), ("none", 1), ("none", 4)]
)
def test_resume_on_other_ranks(sharding: str, ranks: int, bench: Bench, figure: Figure) -> None:
    plan = twin("aks-mpt-125m", sharding)
    straight = bench.start(plan, "straight", 2)
    resharding = Resharding(SAVE_AT, Layout(dp_size=ranks))
    other = bench.start(plan, "other", ranks, saves="straight", resharding=resharding)
    assert sorted(other.losses()) == list(range(SAVE_AT + 1, STEPS + 1))
    worst = largest_difference(straight.losses(), other.losses())
    called = "1 rank" if ranks == 1 else f"{ranks} ranks"
    figure("reshard", f"2 ranks, {sharding}", called, f"{worst:.1e}")
    assert worst <= OTHER_RANKS
