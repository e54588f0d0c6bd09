# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Train the tutorial's model in every layout for some steps, and write down one step of each.

    python -m docs.tools.tutorial.record [DIRECTORY]

The directory (build/tutorial) gets the files of the tutorial's first page and its data, unless they
are there. Each training is a rehearsal of the real engine on the CPU of this host, in as many
processes as the layout has ranks. Writes docs/figures/tutorial.json, from which
docs/tools/tutorial/draw.py draws. Needs the worker's environment (SEATRIAL_WORKER_PYTHON).
"""

import json
import os
import subprocess
import sys
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path
from typing import Any

from docs.tools.page_parts import ROOT
from docs.tools.tutorial.walk import DATA_PAGE, Walk
from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import worker_python
from seatrial.engines.engine import Trial
from seatrial.engines.registry import ENGINES
from seatrial.planning.engine_limits import limits_of
from seatrial.planning.layout import DENSE_AXES
from seatrial.planning.memory.constants import constants
from seatrial.planning.memory.estimate import every_stage
from seatrial.planning.plan import Plan
from seatrial.planning.workload import Hardware, Workload
from seatrial.sdk.data import prepare_data
from seatrial.sdk.plan import plan as plan_of

FIGURES = ROOT / "docs/figures"
RECORDED = FIGURES / "tutorial.json"
LIMIT = 3600.0
"""Seconds that all trainings may take."""
STEPS = 4
SHORT = (f"training.steps={STEPS}", "training.evaluation.batches=0", "checkpoints.every_steps=4")
EXPERTS = "model.dimensions.moe={experts: 4, top_k: 2, expert_ffn_hidden_size: 128}"
LAYOUTS: dict[str, tuple[str, ...]] = {
    "dp": ("cluster.processes_per_node=2",),
    "tp": ("cluster.processes_per_node=2", "parallelism.tp_size=2"),
    "pp": ("cluster.processes_per_node=4", "parallelism.pp_size=4", "training.micro_batch_size=2"),
    "cp": ("cluster.processes_per_node=2", "parallelism.cp_size=2"),
    "ep": ("cluster.processes_per_node=2", "parallelism.ep_size=2", EXPERTS),
    "grid": ("cluster.processes_per_node=8", "parallelism.tp_size=2", "parallelism.pp_size=2"),
}
"""The layouts by name, each as it is asked for on the command line."""


def recorded(name: str, plan: Plan, directory: Path) -> dict[str, Any]:
    """One layout: what the plan says of it, and what its ranks did."""
    ranks = [
        json.loads((directory / f"rank-{rank}.json").read_text(encoding="utf-8"))
        for rank in range(plan.layout.world_size)
    ]
    begin = min(passed["begin"] for rank in ranks for passed in rank["passes"])
    for rank in ranks:
        for passed in rank["passes"]:
            passed["begin"] = round(passed["begin"] - begin, 4)
            passed["end"] = round(passed["end"] - begin, 4)
    return {
        "overrides": list(LAYOUTS[name]),
        "cores": os.cpu_count(),
        "plan": planned(plan),
        "ranks": ranks,
    }


def train_all(plans: dict[str, Plan], home: Path) -> None:
    """Some steps of the real engine in each layout, each rank writing down one of them."""
    cases = []
    for name, plan in plans.items():
        directory = home / name
        directory.mkdir(parents=True, exist_ok=True)
        engine = ENGINES[plan.spec.engine.name]
        arguments = engine.trial_arguments(plan, Trial(str(directory), "", False, None))
        # Nothing is saved: a layout must not go on where another has ended.
        arguments |= {"save": None, "load": None, "save-interval": None}
        cases.append(
            {
                "name": name,
                "words": engine.command_line(arguments),
                "world_size": plan.layout.world_size,
                "directory": str(directory),
                "log": str(directory / "log.txt"),
                "environment": engine.environment(plan),
            }
        )
    wanted = {"SEATRIAL_DEVICE": "cpu", "OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1"}
    wanted |= {"GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}
    wanted["PYTHONPATH"] = os.pathsep.join((python_path(), str(ROOT)))
    subprocess.run(
        [worker_python(ENGINES["megatron"]), "-m", "docs.tools.tutorial.recorded_ranks"],
        env=os.environ | wanted,
        cwd=home.parent,
        input="".join(json.dumps(case) + "\n" for case in cases),
        text=True,
        check=True,
        timeout=LIMIT,
    )


def planned(plan: Plan) -> dict[str, Any]:
    """What the plan says: degrees, places of the ranks, layers and memory of the stages."""
    layout = plan.layout
    places = [layout.coordinates(rank, DENSE_AXES) for rank in range(layout.world_size)]
    return {
        "layout": asdict(layout),
        "micro_batches": plan.batch.micro_batches,
        "layers": [list(stage.layers) for stage in plan.stages],
        "places": [{str(axis): at for axis, at in place.items()} for place in places],
        "memory": memory(plan),
    }


def memory(plan: Plan) -> list[dict[str, int]]:
    """Bytes that the planner reckons for each stage, without what only a GPU's libraries take."""
    nothing = Hardware("", 1, 1.0, 1.0, 1.0, 1.0, 1, 1, 1.0)
    workload = Workload(
        plan.model.architecture,
        plan.model.sequence_length,
        plan.model.padded_vocab_size,
        plan.layout,
        plan.stages,
        plan.sequence_parallel,
        plan.sharding,
        plan.recompute,
        plan.batch.micro_batch_size,
        plan.batch.micro_batches,
        plan.spec.training.precision,
        nothing,
        limits_of(plan.spec).stack,
        flash_attention=False,
    )
    fixed = int(constants(workload.stack).allocated_bytes)
    return [
        {
            "weights": stage.weights,
            "gradients": stage.gradients,
            "optimizer": stage.optimizer,
            "activations": stage.activations - fixed + stage.logits,
        }
        for stage in every_stage(workload).stages
    ]


def prepared(directory: Path) -> Path:
    """The spec of the tutorial with its data, made in the directory unless they are there."""
    spec = directory / "run.yaml"
    if not (directory / "volume").exists():
        directory.mkdir(parents=True, exist_ok=True)
        Walk(directory).write_files(DATA_PAGE)
        for program in ("make_corpus.py", "make_tokenizer.py"):
            subprocess.run([sys.executable, program], cwd=directory, check=True)
        with chdir(directory):
            prepare_data(spec)
    return spec


def main() -> None:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "tutorial").resolve()
    spec = prepared(directory)
    with chdir(directory):
        plans = {name: plan_of(spec, (*SHORT, *LAYOUTS[name])) for name in LAYOUTS}
        train_all(plans, directory / "recorded")
    told = {
        name: recorded(name, plan, directory / "recorded" / name) for name, plan in plans.items()
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in told.items())
    RECORDED.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
