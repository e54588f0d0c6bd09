# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Project wall time, core-hours and cost of large corpora from the measured rate.

    python -m scripts.project_data_cost [build/bench-data.json]

Prints a table in Markdown, and below it everything that was assumed.
"""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORES = 64
"""vCPUs of the node."""
NODE = "c7i.16xlarge"
"""A node with the CPU generation that the rates were measured on."""
USD_AN_HOUR = 2.856
"""On demand, us-east-1, 2026-08-22; skypilot-org/skypilot-catalog@f2624ac catalogs/v7/aws/vms.csv.

The catalog of Seatrial has nodes with GPUs only.
"""
SHARE_OF_A_CORE = 0.65
"""What a vCPU does while its sibling on the same core is busy too, beside a core alone."""
NETWORK = 10e9 / 8
"""Bytes a second to and from the object store: less than half of what the node is sold with."""
PASSES = 4
"""How often the output is moved: as parts, twice while it is assembled, and to be verified."""
FINISHING = ("assembling", "verifying")
"""Phases that work on several files at a time, but on each in one thread."""
FINISHING_THREADS = 8
"""How many files at a time (seatrial.dataprep.output.assemble); the benchmark has only one."""


@dataclass(frozen=True, slots=True)
class Target:
    """A corpus to project for."""

    name: str
    """What it is."""
    tokens: float
    """Tokens."""
    jsonl_bytes: float
    """Bytes of JSON lines."""
    stored_bytes: float
    """Bytes as stored."""
    token_bytes: int
    """Bytes of a token."""

    @property
    def moved_bytes(self) -> float:
        """Bytes over the network."""
        return self.stored_bytes + PASSES * self.tokens * self.token_bytes


# 895 GB in 59,166 files and 627 B tokens are the data set's own statement; 2.8 TB is assumed from
# the compression that such text has.
SLIM_PAJAMA = Target("SlimPajama-627B", 627e9, 2.8e12, 895e9, 2)
_SCALE = 15e12 / SLIM_PAJAMA.tokens
FIFTEEN_T = Target(
    "15T tokens, vocabulary above 65,500",
    15e12,
    SLIM_PAJAMA.jsonl_bytes * _SCALE,
    SLIM_PAJAMA.stored_bytes * _SCALE,
    4,
)


@dataclass(frozen=True, slots=True)
class Rates:
    """What was measured, in seconds for each byte of JSON lines."""

    cpu: float
    """CPU-seconds of everything, after start-up."""
    finishing: float
    """Wall-seconds of assembling and verifying one file."""
    baseline: float
    """CPU-seconds of the baseline."""
    megabytes: float
    """MB that were measured on."""
    is_short: bool
    """Measured on a slice only."""


def rates(measured: Mapping[str, Any]) -> Rates:
    """The rates of a benchmark."""
    values = {row["key"]: float(row["value"]) for row in measured["figures"] if row["key"]}
    megabytes = values["english.mb"]

    def finishing_of(name: str) -> float:
        phases = [run["found"]["phases"] for run in measured["runs"][name]]
        return min(sum(float(times[phase]) for phase in FINISHING) for times in phases)

    finishing = finishing_of("local x2 english") - finishing_of("local x2 english-tiny")
    return Rates(
        cpu=1e-6 / values["english.rate"],
        finishing=max(0.0, finishing) / (megabytes * 1e6),
        baseline=1e-6 / values["english.baseline_rate"],
        megabytes=megabytes,
        is_short=bool(measured["short"]),
    )


def compute_seconds(target: Target, measured: Rates) -> float:
    """Wall time on one node if reading and writing took none."""
    finishing = target.jsonl_bytes * measured.finishing
    tasks = max(0.0, target.jsonl_bytes * measured.cpu - finishing)
    return (tasks / CORES + finishing / FINISHING_THREADS) / SHARE_OF_A_CORE


def row(target: Target, measured: Rates, nodes: int) -> str:
    """A line of the table."""
    cpu_hours = target.jsonl_bytes * measured.cpu / 3600
    compute = compute_seconds(target, measured) / nodes
    network = target.moved_bytes / NETWORK / nodes
    wall = max(compute, network)
    usd = nodes * wall / 3600 * USD_AN_HOUR
    limit = "network" if network > compute else "compute"
    baseline_hours = target.jsonl_bytes * measured.baseline / 3600
    cells = [
        target.name,
        str(nodes),
        f"{target.stored_bytes / 1e12:.2f} TB",
        f"{target.tokens * target.token_bytes / 1e12:.2f} TB",
        f"{cpu_hours:,.0f}",
        f"{baseline_hours:,.0f}",
        duration(compute),
        duration(network),
        f"{duration(wall)} ({limit})",
        f"${usd:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def duration(seconds: float) -> str:
    """Seconds for a person."""
    if seconds < 5400:
        return f"{math.ceil(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} d"


HEADER = (
    "| corpus | nodes | read | written | core-hours | of the baseline | compute | network | wall | "
    "cost |\n|---|---|---|---|---|---|---|---|---|---|"
)


def projection(result: Mapping[str, Any]) -> str:
    """The table, and what was assumed."""
    measured = rates(result)
    rows = [row(SLIM_PAJAMA, measured, 1), row(FIFTEEN_T, measured, 1)]
    rows.append(row(FIFTEEN_T, measured, 16))
    text = "\n".join([HEADER, *rows, ""])
    if max(compute_seconds(SLIM_PAJAMA, measured), SLIM_PAJAMA.moved_bytes / NETWORK) < 86400:
        text += (
            f"\nOne node of {CORES} cores is enough for SlimPajama-627B: no cluster is needed.\n"
        )
    short = ", a short run: for a first idea only" if measured.is_short else ""
    return text + (
        f"\nFrom {1e-6 / measured.cpu:.0f} MB of JSON lines a CPU-second after start-up (baseline "
        f"{1e-6 / measured.baseline:.2f}), measured on {measured.megabytes:.0f} MB{short}. "
        f"Assumed: a node {NODE} with {CORES} vCPUs at ${USD_AN_HOUR} an hour (us-east-1, on "
        f"demand, August 2026), each vCPU doing {SHARE_OF_A_CORE:.0%} of what was measured, "
        f"because two share a core; {NETWORK * 8 / 1e9:.0f} Gbit/s to the store; the output moved "
        f"{PASSES} times (written as parts, read and written while it is assembled, read to be "
        f"verified); assembling and verifying in {FINISHING_THREADS} threads, the rest on all "
        "cores; nodes share the work evenly. SlimPajama is 59,166 files and taken to be 2.8 TB of "
        "JSON lines; 15T tokens are taken to be of the same text, in a vocabulary of 4 bytes a "
        "token. Storage and its requests are not in the cost."
    )


def main() -> int:
    """Print the projection."""
    root = Path(__file__).parents[1]
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "build/bench-data.json"
    if not file.exists():
        raise SystemExit(f"project_data_cost: there is no {file}. Run: make bench")
    print(projection(json.loads(file.read_text(encoding="utf-8"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
