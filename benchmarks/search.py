# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure what `seatrial plan` costs as GPUs grow from 8 to 100,000.

    python -m benchmarks.search [ROUNDS]

The time is the processor's, of the whole command: start, search and page. Each model is planned
with a global batch of four sequences a GPU, with which nearly every layout divides evenly, so that
the search has as much to look at as it can have. The best of all rounds counts. Writes the table of
docs/guides/plan.md; ends with 1 when a plan is above its limit.
"""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.measured import Run, measure_here
from docs.tools.page_parts import ROOT, put, table
from seatrial.errors import ExitCode

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


def plan(model: str, nodes: int, directory: Path) -> Run:
    text = SPEC.format(model=model, nodes=nodes, batch=4 * 8 * nodes)
    (directory / "run.yaml").write_text(text, encoding="utf-8")
    argv = [sys.executable, "-m", "seatrial", "plan", "run.yaml", "--again", "--json"]
    return measure_here(argv, directory, tuple(ExitCode), SEATRIAL_CATALOG=str(directory))


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    rows, slowest = [], 0.0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        # The first call fills caches of the disk and of compiled modules, and does not count.
        plan(MODELS[0], 2, directory)
        for nodes in NODES:
            cells = [f"{8 * nodes:,}"]
            for model in MODELS:
                runs = [plan(model, nodes, directory) for _ in range(rounds)]
                search = json.loads(runs[0].output).get("search")
                best = min(run.cpu for run in runs)
                slowest = max(slowest, best if search else 0.0)
                cells.append(f"{best:.2f} s, {search['legal']:,}" if search else "")
            rows.append(cells)
            print("".join(f"{cell:>18}" for cell in cells), flush=True)
    put(ROOT / "docs/guides/plan.md", {"search": table(("GPUs", *MODELS), rows)})
    print(f"slowest: {slowest:.2f} s of {LIMIT} s")
    return int(slowest > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
