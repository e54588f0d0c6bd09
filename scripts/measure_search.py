# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure what `seatrial plan` costs as GPUs grow from 8 to 100,000, and draw it for the docs.

    python -m scripts.measure_search [ROUNDS]

The time is the processor's, of the whole command: start, search and page. Each model is planned
with a global batch of four sequences a GPU, with which nearly every layout divides evenly, so that
the search has as much to look at as it can have. The best of all rounds counts. Writes
docs/figures/search.json and docs/figures/search.svg; ends with 1 when a plan is above its limit.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
ROUNDS = 3
LIMIT = 2.0
"""Seconds of processor time that the largest plan may take."""
NODES = (1, 2, 8, 32, 128, 512, 2048, 8192, 12500)
"""Nodes of eight GPUs: from 8 to 100,000 GPUs."""
MODELS = ("gpt3-7.5b", "gpt3-175b", "llama3-405b", "qwen3-30b-a3b", "qwen3-235b-a22b")
SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: measured
model: {{preset: {model}}}
data: {{mock: true}}
training: {{tokens: 15T, global_batch_size: {batch}}}
cluster: {{profile: eks, node_type: p5.48xlarge, nodes: {nodes}}}
"""


@dataclass(frozen=True, slots=True)
class Point:
    """One plan, measured."""

    model: str
    """The preset."""
    gpus: int
    """GPUs of the run."""
    cpu_seconds: float
    """Processor time of the whole command."""
    legal: int
    """Legal layouts that were looked at."""
    priced: int
    """Layouts whose time was computed."""


def used() -> float:
    """The processor time of all processes that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def planned(file: Path) -> tuple[float, dict[str, Any] | None]:
    """The processor time of planning a spec, and the plan; nothing where nothing fits."""
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    settings |= {
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONPYCACHEPREFIX": str(file.parent / "pycache"),
        "SEATRIAL_CATALOG": str(file.parent),
    }
    began = used()
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "plan", file.name, "--again", "--json"],
        cwd=file.parent,
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    answer = json.loads(done.stdout)
    return used() - began, answer if done.returncode == 0 else None


def measured(rounds: int) -> Iterator[Point]:
    """Every model on every number of nodes on which it fits."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "run.yaml")
        file.write_text(SPEC.format(model=MODELS[0], nodes=2, batch=64), encoding="utf-8")
        # The first call fills caches of the disk and of compiled modules, and does not count.
        planned(file)
        for model in MODELS:
            for nodes in NODES:
                text = SPEC.format(model=model, nodes=nodes, batch=4 * 8 * nodes)
                file.write_text(text, encoding="utf-8")
                runs = [planned(file) for _ in range(rounds)]
                plan = runs[0][1]
                if plan is None:
                    continue
                search = plan["search"]
                best = min(seconds for seconds, _ in runs)
                yield Point(model, 8 * nodes, best, search["legal"], search["priced"])


def drawn(points: list[Point]) -> Figure:
    """Processor time over GPUs, a line a model, with the limit."""
    # Without it, ids in the file would be new at every run.
    mpl.rcParams["svg.hashsalt"] = "seatrial"
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.subplots()
    for model in MODELS:
        own = [point for point in points if point.model == model]
        axes.plot([p.gpus for p in own], [p.cpu_seconds for p in own], marker="o", label=model)
    axes.axhline(LIMIT, color="grey", linestyle="--", linewidth=1)
    axes.set(
        xscale="log",
        xlabel="GPUs",
        ylabel="processor seconds of seatrial plan",
        ylim=(0, 1.1 * max(LIMIT, *(p.cpu_seconds for p in points))),
    )
    axes.legend(frameon=False, fontsize="small")
    return figure


def main() -> int:
    """Measure, write, draw; 1 when the limit is exceeded."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    points = list(measured(rounds))
    print(f"{'model':<18}{'GPUs':>8}{'CPU':>9}{'legal':>8}{'priced':>8}")
    for p in points:
        print(f"{p.model:<18}{p.gpus:>8,}{p.cpu_seconds:>7.2f} s{p.legal:>8,}{p.priced:>8,}")
    FIGURES.mkdir(exist_ok=True)
    content = {
        "python": platform.python_version(),
        "rounds": rounds,
        "limit_seconds": LIMIT,
        "points": [asdict(point) for point in points],
    }
    (FIGURES / "search.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    drawn(points).savefig(FIGURES / "search.svg", metadata={"Date": None})
    slowest = max(points, key=lambda point: point.cpu_seconds)
    print(f"slowest: {slowest.model} on {slowest.gpus:,} GPUs, {slowest.cpu_seconds:.2f} s")
    return 1 if slowest.cpu_seconds > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
