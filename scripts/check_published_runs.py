# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs that somebody measured, turned into specs and checked: how often is there a false alarm?

    python -m scripts.check_published_runs [--listed] [--every N]

Taken are the rows of the published runs that were measured outside Megatron's CI and state layers,
hidden size, sequence length, tp, pp, dp, micro and global batch. Left out, and listed one by one
with `--listed`, are rows with FSDP, rows that lack a field that a spec needs, and rows that break a
rule of Megatron itself. A recomputation that a row does not state is left to the planner.
`--every N` checks only every Nth of the rest, for a look in a minute.
"""

import csv
import json
import sys
from collections import Counter
from math import gcd
from typing import Any

from scripts.backtest.record_split import RUNS
from scripts.backtest.rows import MEMORY_ONLY, Row, timed_rows
from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.findings import Severity
from seatrial.planning.codes import PlanCode
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Sharding

NEEDED = ("layers", "hidden", "seq_len", "tp", "pp", "dp", "micro_batch", "global_batch")
MEASURED = (
    "measured_tflops_per_gpu",
    "measured_step_time_s",
    "measured_tokens_per_s_per_gpu",
    "measured_mem_gb",
)
NODES = {
    "a100-40gb": ("eks", "p4d.24xlarge"),
    "a100-80gb": ("aks", "Standard_ND96amsr_A100_v4"),
    "h100-80gb": ("aks", "Standard_ND96isr_H100_v5"),
    "h200-141gb": ("aks", "Standard_ND96isr_H200_v5"),
    "b200": ("eks", "p6-b200.48xlarge"),
    "b300": ("eks", "p6-b300.48xlarge"),
    "gb200": ("aks", "Standard_ND128isr_NDR_GB200_v6"),
    "gb300": ("aks", "Standard_ND128isr_GB300_v6"),
}
"""A profile and a node type of the catalog for each accelerator."""
MEMORY = (PlanCode.NO_FIT, PlanCode.RISKY, PlanCode.STATE)
SHOWN = 12


def main() -> None:
    """Print how many rows were taken, left out and warned of, and which errors there were."""
    with RUNS.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if _is_taken(row)]
    known, catalog = {row.id: row for row in timed_rows()}, Catalog()
    left_out: dict[str, str] = {}
    errors: dict[str, list[str]] = {}
    memory: dict[str, Severity] = {}
    for row in rows:
        reason = _reason(row, known.get(row["id"]))
        if reason:
            left_out[row["id"]] = reason
    kept = [row for row in rows if row["id"] not in left_out][:: _every()]
    for row in kept:
        text = json.dumps(_spec(row, known[row["id"]].workload))
        findings = check(text, f"row {row['id']}", catalog).findings
        worst = [f.severity for f in findings if f.code in MEMORY]
        if worst:
            memory[row["id"]] = Severity.ERROR if Severity.ERROR in worst else Severity.WARNING
        for finding in findings:
            if finding.severity is Severity.ERROR and finding.code not in MEMORY:
                errors.setdefault(f"{finding.code} {finding.rule}", []).append(row["id"])
    checked = len(kept)
    if "--listed" in sys.argv:
        for number, reason in left_out.items():
            _say(f"row {number}: {reason}")
    _say(f"{len(rows):,} rows; left out {len(left_out):,} = {len(left_out) / len(rows):.1%}:")
    for reason, count in Counter(left_out.values()).most_common():
        _say(f"  {count:>5}  {reason}")
    _say(f"checked {checked:,}")
    with_errors = {number for numbers in errors.values() for number in numbers}
    _say(f"errors other than memory: {len(with_errors)} = {len(with_errors) / checked:.2%}")
    for said, numbers in sorted(errors.items(), key=lambda item: -len(item[1]))[:SHOWN]:
        _say(f"  {len(numbers):>5}  {said}  (rows {', '.join(numbers[:4])})")
    for severity in (Severity.ERROR, Severity.WARNING):
        numbers = [number for number, worst_ in memory.items() if worst_ is severity]
        sources = Counter(row["source"] for row in kept if row["id"] in numbers)
        _say(f"memory {severity}s: {len(numbers)} = {len(numbers) / checked:.2%} {dict(sources)}")


def _every() -> int:
    """Of how many rows one is checked."""
    words = sys.argv
    return int(words[words.index("--every") + 1]) if "--every" in words else 1


def _is_taken(row: dict[str, str]) -> bool:
    """Whether a row was measured outside CI and states what a layout needs."""
    measured = any(row[name] for name in MEASURED)
    return row["source"] != MEMORY_ONLY and measured and all(row[name] for name in NEEDED)


def _reason(row: dict[str, str], known: Row | None) -> str:
    """Why a row cannot become a spec that Megatron would take; empty when it can."""
    if "fsdp" in row["sharding"].lower() or "hsdp" in row["sharding"].lower():
        return "FSDP of another engine"
    if known is None:
        return "a field that a spec needs is not stated (dimensions of the model, chunks, degrees)"
    return _broken_rule(row, known.workload)


def _broken_rule(row: dict[str, str], run: Workload) -> str:
    """The rule of Megatron that a row breaks, by its own source; empty when it keeps all."""
    layout, model = run.layout, run.model
    batch, micro = int(row["global_batch"]), run.micro_batch_size
    length = run.sequence_length
    rules = {
        "layers do not divide by pp": model.layers % layout.pp_size,
        "layers of a stage do not divide by vp": (model.layers // layout.pp_size) % layout.vp_size,
        "the global batch does not divide by micro batch × dp": batch % (micro * layout.dp_size),
        "heads do not divide by tp": model.heads % layout.tp_size,
        "an interleaved schedule needs more than one stage": layout.vp_size > 1
        and layout.pp_size == 1,
        "interleaved micro batches do not divide by pp": layout.vp_size > 1
        and (batch // (micro * layout.dp_size)) % layout.pp_size,
        "the sequence does not divide by 2 × cp": layout.cp_size > 1
        and length % (2 * layout.cp_size),
        "experts do not divide by ep": model.moe is not None and model.moe.experts % layout.ep_size,
        "experts and tensor parallelism without sequence parallelism": model.moe is not None
        and layout.tp_size > 1
        and not run.sequence_parallel,
        "ranks of a stage do not divide by the experts' grid": model.moe is not None
        and layout.world_size % (layout.etp_size * layout.ep_size * layout.pp_size),
    }
    return next(
        (f"breaks a rule of Megatron: {name}" for name, broken in rules.items() if broken), ""
    )


def _spec(row: dict[str, str], run: Workload) -> dict[str, Any]:
    """The run as a spec."""
    layout = run.layout
    profile, node_type = NODES[run.hardware.accelerator]
    # As many whole nodes as can be: a run of 12 GPUs is one of 3 nodes with 4 processes.
    each = gcd(layout.world_size, run.hardware.gpus_per_node)
    recompute = str(run.recompute) if row["recompute"] else "auto"
    sharding = Sharding.OPTIMIZER if run.sharding is Sharding.FSDP else run.sharding
    parallelism: dict[str, Any] = {
        "tp_size": layout.tp_size,
        "pp_size": layout.pp_size,
        "vp_size": layout.vp_size,
        "cp_size": layout.cp_size,
        "ep_size": layout.ep_size,
        "etp_size": layout.etp_size,
        "sequence_parallel": run.sequence_parallel,
        "sharding": str(sharding),
        "recompute": recompute,
    }
    if run.recompute_modules and recompute != "auto":
        parallelism["recompute_modules"] = sorted(str(module) for module in run.recompute_modules)
    return {
        "apiVersion": "seatrial.dev/v1alpha1",
        "name": f"row-{row['id']}",
        "model": {"dimensions": _dimensions(run)},
        "data": {"mock": True},
        "training": {
            "steps": 10_000,
            "sequence_length": run.sequence_length,
            "micro_batch_size": run.micro_batch_size,
            "global_batch_size": int(row["global_batch"]),
            "precision": str(run.precision),
        },
        "parallelism": parallelism,
        "cluster": {
            "profile": profile,
            "node_type": node_type,
            "nodes": layout.world_size // each,
            "processes_per_node": each,
        },
        "checkpoints": {"every_steps": 1000},
    }


def _dimensions(run: Workload) -> dict[str, Any]:
    """The model, with positions for its sequence."""
    data = run.model.model_dump(mode="json", by_alias=True, exclude_none=True)
    data["max_positions"] = max(data["max_positions"], run.sequence_length)
    return data


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
