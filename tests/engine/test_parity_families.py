# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Each family trains in every layout as on one rank, through the flags of its own plan.

The weights are five times as large as usual: with usual ones, attention hardly matters within ten
steps, and a wrong gradient in it stays below the bar. A token that changes its expert makes a
larger difference than rounding; the experts get no auxiliary loss, and the test says which step
routes differently. Multi-token prediction is not compared under context parallelism: the engine
divides its loss by the tokens of each context-parallel rank, on GPUs too.
"""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engine_process.process import worker_python
from seatrial.engines.engine import Arguments, Trial
from seatrial.engines.megatron.command_line import command_line
from seatrial.engines.megatron.trial import trial_arguments
from seatrial.planning.plan import Plan
from seatrial.spec.loader import loads
from tests.conftest import MEGATRON, plan_spec
from tests.engine.families import FAMILIES, LENGTH, Model

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

BAR, NORM_BAR = 1e-6, 1e-5
STEPS = 10
SHORT = "deepseek-v3"
"""The family that every run of CI tries; `make engine` tries all."""
LAYOUTS: dict[str, dict[str, int]] = {
    "tp 2": {"tp_size": 2},
    "pp 2": {"pp_size": 2},
    "cp 2": {"cp_size": 2},
    "ep 2": {"ep_size": 2},
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run measured."""

    losses: dict[str, float]
    norms: dict[str, float]
    parameters: list[int]
    experts: dict[str, dict[str, int]]


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


def train_all(model: Model, directory: Path) -> dict[str, tuple[Plan, Measured]]:
    """Train a family on one rank and in each layout, from the same initial weights."""
    initial = str(directory / "initial")
    plans = {"one rank": plan_of(model, {})}
    plans |= {name: plan_of(model, LAYOUTS[name]) for name in layouts_of(model)}
    beginning = {"save": initial, "load": None, "save-interval": 1, "train-iters": 1, "lr": 0.0}
    runs = [("initial", arguments_of(plans["one rank"], directory) | beginning | {"min-lr": 0.0})]
    loading = {"save": None, "save-interval": None, "load": initial, "finetune": True}
    loading |= {"no-load-optim": True, "no-load-rng": True}
    runs += [(name, arguments_of(plan, directory) | loading) for name, plan in plans.items()]
    ranks = {name: plan.layout.world_size for name, plan in plans.items()}
    file = directory / "runs.json"
    file.write_text(
        json.dumps(
            [
                {"name": name, "arguments": command_line(words), "ranks": ranks.get(name, 1)}
                for name, words in runs
            ]
        )
    )
    command = [worker_python(MEGATRON), "-m", "tests.engine.forked_runs", str(file)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(runs), done.stderr[-3000:]
    found = {}
    for line in lines:
        assert not line["tail"], f"{line['name']}: {line['tail']}"
        if line["name"] != "initial":
            parts = {name: line[name] for name in ("losses", "norms", "parameters", "experts")}
            found[line["name"]] = (plans[line["name"]], Measured(**parts))
    return found


def apart(one: dict[str, float], other: dict[str, float]) -> float:
    """The largest relative difference over all steps."""
    assert len(one) == STEPS
    assert set(one) == set(other)
    return max(abs(one[step] - other[step]) / abs(one[step]) for step in one)


def expected_parameters(plan: Plan) -> list[int]:
    """The parameters of each rank: stages are the slowest dimension of the rank order."""
    each = plan.layout.world_size // plan.layout.pp_size
    return [count for count in plan.stage_parameters for _ in range(each)]


def cases() -> list[object]:
    """The families, those beyond the short one marked as slow."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=() if name == SHORT else slow) for name in FAMILIES]


@pytest.mark.parametrize("family", cases())
def test_a_family_trains_in_every_layout_as_on_one_rank(
    family: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    found = train_all(FAMILIES[family], tmp_path)
    alone = found["one rank"][1]
    wrong = []
    for name, (plan, measured) in found.items():
        assert measured.parameters == expected_parameters(plan), name
        if name == "one rank":
            continue
        loss, norm = apart(alone.losses, measured.losses), apart(alone.norms, measured.norms)
        moved = [step for step in alone.experts if alone.experts[step] != measured.experts[step]]
        said = f"{family:12} {name:6} loss {loss:.1e}, gradient norm {norm:.1e}"
        said += f", routes differ from step {moved[0]}" if moved else ""
        record_property("figure", said)
        if loss > BAR or norm > NORM_BAR or moved:
            wrong.append(said)
    assert wrong == []
