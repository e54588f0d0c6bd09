# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry on a CPU: one rank, two alone, two sharded; killed, resumed, on other ranks."""

import random
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engines.engine import Resharding, Trial
from seatrial.planning.plan import Plan
from seatrial.planning.resolve import resolve
from seatrial.recipes.shipped import recipe
from seatrial.rehearsal.drills import largest_difference
from seatrial.rehearsal.twin import SAVE_AT, STEPS, TwinData, twins
from seatrial.rehearsal.worker_process import Outcome, Training, differing_tensors, train
from seatrial.spec.loader import load
from tests.foundry.conftest import FOUNDRY, Figure

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

CATALOG = Catalog()
RECIPES = ("aks-mpt-125m", "aks-mpt-30b")
PARITY = 1e-6
"""Largest relative difference of a loss between layouts."""
OTHER_RANKS = 1e-5
"""And after a resume on another number of ranks."""
SEED = 20261115
KILLS = 20


def twin(name: str, sharding: str) -> Plan:
    """The shrunk twin of a recipe."""
    loaded = load(recipe(name).path, (f"parallelism.sharding={sharding}", *_plain(sharding)))
    return twins(loaded, resolve(loaded, CATALOG), CATALOG, TwinData())[0].plan


def _plain(sharding: str) -> tuple[str, ...]:
    # Layers are computed again only where they are sharded.
    return ("parallelism.recompute=none",) if sharding == "none" else ()


def start(
    directory: Path,
    plan: Plan,
    name: str,
    ranks: int,
    *,
    saves: str = "",
    kill: tuple[int, int] | None = None,
    resharding: Resharding | None = None,
) -> Outcome:
    """One training; it must end well unless it is to be killed."""
    trial = Trial(str(directory), str(directory / (saves or name)), True, resharding)
    arguments = FOUNDRY.trial_arguments(plan, trial)
    training = Training(name, arguments, ranks, directory, kill, engine=FOUNDRY.name)
    outcome = train(training, 300.0)
    assert kill is not None or outcome.code == 0, f"{name}: {outcome.tail}\n{training.log}"
    return outcome


def figures(outcome: Outcome) -> dict[int, tuple[float, float, str]]:
    """Loss, gradient norm and samples of each step."""
    return {
        step: (event.values["loss"], event.values["grad_norm"], event.values["samples"])
        for step, event in outcome.steps().items()
    }


@pytest.mark.parametrize("name", RECIPES)
def test_layouts_give_the_same_losses(name: str, tmp_path: Path, figure: Figure) -> None:
    alone = start(tmp_path, twin(name, "none"), "alone", 1)
    assert len(alone.losses()) == STEPS
    for sharding, called in (("none", "2 ranks, DDP"), ("fsdp", "2 ranks, FSDP")):
        other = start(tmp_path, twin(name, sharding), sharding, 2)
        assert len(other.losses()) == STEPS
        worst = largest_difference(alone.losses(), other.losses())
        figure("parity", f"{name}, {called}", f"{worst:.1e}")
        assert worst <= PARITY


@pytest.mark.parametrize("sharding", ["none", "fsdp"])
def test_kill_and_resume_to_the_last_bit(sharding: str, tmp_path: Path, figure: Figure) -> None:
    plan = twin("aks-mpt-125m", sharding)
    straight = start(tmp_path, plan, "straight", 2)
    source, wrong = random.Random(SEED), 0  # noqa: S311  (a drill, not a secret)
    for number in range(KILLS):
        kill = (source.randrange(2), source.randint(SAVE_AT + 1, STEPS - 1))
        where = f"killed-{number}"
        killed = start(tmp_path, plan, f"first-{number}", 2, saves=where, kill=kill)
        assert killed.code != 0, "it was not killed"
        resumed = start(tmp_path, plan, f"second-{number}", 2, saves=where)
        mine, theirs = figures(resumed), figures(straight)
        assert min(mine) == SAVE_AT + 1
        last = FOUNDRY.checkpoint_name(STEPS)
        tensors, differing = differing_tensors(
            tmp_path / "straight" / last, tmp_path / where / last, engine=FOUNDRY
        )
        assert tensors > 10
        wrong += bool(differing) or any(mine[step] != theirs[step] for step in mine)
    figure("kills", f"2 ranks, {sharding}", f"{KILLS - wrong} of {KILLS}")
    assert wrong == 0


@pytest.mark.parametrize(("sharding", "ranks"), [("none", 1), ("none", 4), ("fsdp", 4)])
def test_resume_on_other_ranks(sharding: str, ranks: int, tmp_path: Path, figure: Figure) -> None:
    plan = twin("aks-mpt-125m", sharding)
    straight = start(tmp_path, plan, "straight", 2)
    resharding = Resharding(SAVE_AT, 1, 1, 1, ranks)
    other = start(tmp_path, plan, "other", ranks, saves="straight", resharding=resharding)
    assert sorted(other.losses()) == list(range(SAVE_AT + 1, STEPS + 1))
    worst = largest_difference(straight.losses(), other.losses())
    figure("reshard", f"2 ranks, {sharding}", f"{ranks} ranks", f"{worst:.1e}")
    assert worst <= OTHER_RANKS
