# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Each family trains in every layout as on one rank, through the flags of its own plan.

The weights are five times as large as usual: with usual ones, attention hardly matters within ten
steps, and a wrong gradient in it stays below the bar. A token that changes its expert makes a
larger difference than rounding: the steps before that are compared, at least half of all. Adam's
epsilon is larger than usual, because a tiny gradient divided by its own size turns rounding into a
step of full size, and so changes experts.

Multi-token prediction is not compared under context parallelism: the engine divides its loss by the
tokens of each context-parallel rank, on GPUs too.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engine_process.process import TrainingOutcome, worker_python
from seatrial.engines.engine import Arguments, Trial
from seatrial.engines.megatron.command_line import command_line
from seatrial.engines.megatron.trial import trial_arguments
from seatrial.planning.plan import Plan
from seatrial.rehearsal.parity import FP32_BAR, compare
from seatrial.spec.loader import loads
from seatrial.worker.settings import EXPERT_COUNTS
from tests.conftest import MEGATRON, plan_spec
from tests.engine.families import FAMILIES, LENGTH, Model
from tests.faults.warm import Warm

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

STEPS = 10
SHORT = "deepseek-v3"
"""The family that every run of CI tries; `make engine` tries all."""
LAYOUTS: dict[str, dict[str, int]] = {
    "tp 2": {"tp_size": 2},
    "pp 2": {"pp_size": 2},
    "cp 2": {"cp_size": 2},
    "ep 2": {"ep_size": 2},
}


def plan_of(model: Model, layout: dict[str, int]) -> Plan:
    """The plan of a tiny model in a layout on this host."""
    ranks = max(layout.values(), default=1)
    parallelism = {"tp_size": 1, "pp_size": 1, "cp_size": 1, "vp_size": 1, "recompute": "none"}
    spec = {
        "apiVersion": "seatrial.dev/v1alpha1",
        "name": "family",
        "model": {"dimensions": model},
        "data": {"mock": True},
        "cluster": {"profile": "local", "accelerator": "none", "processes_per_node": ranks},
        "parallelism": parallelism | layout,
        "training": {
            "steps": STEPS,
            "sequence_length": LENGTH,
            "global_batch_size": 4,
            "micro_batch_size": 2 if layout.get("ep_size", 1) == 1 else 1,
            "precision": "fp32",
            "init_std": 0.1,
            "learning_rate": {"peak": 1e-3, "style": "constant"},
            "optimizer": {"epsilon": 1e-5},
            "evaluation": {"batches": 0},
        },
    }
    return plan_spec(loads(json.dumps(spec), "family.json"), Catalog())


def arguments_of(plan: Plan, directory: Path) -> Arguments:
    trial = Trial(str(directory), str(directory / "none"), mock_tokenizer=True)
    return trial_arguments(plan, trial)


def layouts_of(model: Model) -> list[str]:
    """The layouts in which a family is compared with one rank."""
    left_out = {"cp 2"} if model.get("mtp_layers") else set()
    left_out |= set() if "moe" in model else {"ep 2"}
    return [name for name in LAYOUTS if name not in left_out]


@pytest.fixture(scope="module")
def engine() -> Iterator[Warm]:
    """The engine, loaded once for all trainings here."""
    warm = Warm(worker_python(MEGATRON), "tests.engine.warm_worker")
    yield warm
    warm.close()


def train_all(
    engine: Warm, model: Model, directory: Path
) -> dict[str, tuple[Plan, TrainingOutcome]]:
    """Train a family on one rank and in each layout, from the same initial weights."""
    initial = str(directory / "initial")
    plans = {"one rank": plan_of(model, {})}
    plans |= {name: plan_of(model, LAYOUTS[name]) for name in layouts_of(model)}

    def train(name: str, plan: Plan, changed: Arguments) -> TrainingOutcome:
        words = command_line(arguments_of(plan, directory) | changed)
        told = {EXPERT_COUNTS: "1"} if "moe" in model else {}
        log = directory / f"{name}.log"
        outcome = engine.begin(log, words, told, plan.layout.world_size)
        assert outcome.code == 0, f"{name}: {outcome.tail}"
        return outcome

    once: Arguments = {"save": initial, "load": None, "save-interval": 1, "train-iters": 1}
    train("initial", plans["one rank"], once | {"lr": 0.0, "min-lr": 0.0})
    loading: Arguments = {"save": None, "save-interval": None, "load": initial, "finetune": True}
    loading |= {"no-load-optim": True, "no-load-rng": True}
    return {name: (plan, train(name, plan, loading)) for name, plan in plans.items()}


def counted_parameters(log: Path) -> dict[int, set[int]]:
    """The parameters of a rank in each stage, as the engine prints them for each tp rank."""
    printed = r"number of parameters on \([^)]*\) model parallel rank \(\d+, \d+, (\d+)\): (\d+)"
    found: dict[int, set[int]] = {}
    for stage, count in re.findall(printed, log.read_text()):
        found.setdefault(int(stage), set()).add(int(count))
    return found


def cases() -> list[object]:
    """The families, those beyond the short one marked as slow."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=() if name == SHORT else slow) for name in FAMILIES]


@pytest.mark.parametrize("family", cases())
def test_a_family_trains_in_every_layout_as_on_one_rank(
    family: str, engine: Warm, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    found = train_all(engine, FAMILIES[family], tmp_path)
    alone = found["one rank"][1]
    wrong = []
    for name, (plan, outcome) in found.items():
        expected = {stage: {count} for stage, count in enumerate(plan.stage_parameters)}
        assert counted_parameters(tmp_path / f"{name}.log") == expected, name
        assert list(outcome.steps()) == list(range(1, STEPS + 1)), name
        if name == "one rank":
            continue
        parity = compare(alone, outcome)
        said = f"{family:12} {name:6} {parity.words(FP32_BAR)}"
        record_property("figure", said)
        early = parity.rerouting is not None and parity.rerouting.step <= STEPS // 2
        assert not early, f"{name}: a token changes its expert early"
        if parity.before is None or not parity.before.within(FP32_BAR):
            wrong.append(said)
    assert wrong == []
