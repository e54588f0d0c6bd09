# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs that somebody measured, turned into specs and checked: how often is there a false alarm?

    python -m backtest.checks.published_runs [--write]

Taken are the rows of the published runs that were measured outside Megatron's CI and state layers,
hidden size, sequence length, tp, pp, dp, micro and global batch. Left out, and listed one by one
in backtest/checks/left_out_rows.csv, are rows with FSDP, rows that lack a field that a spec needs,
and rows that break a rule of Megatron itself. A recomputation that a row does not state is left to
the planner. `--write` puts the figures into docs/check-figures.md. Takes some minutes.
"""

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any

from backtest.rows import MEMORY_ONLY, Row, published, timed_rows
from docs.tools.page_parts import ROOT, put, table
from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.codes.planning import PlanCode
from seatrial.findings import Severity
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Sharding

PAGE = ROOT / "docs/check-figures.md"
LEFT_OUT = Path(__file__).parent / "left_out_rows.csv"
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
BARS = {"left out": 0.25, "errors": 0.0, "memory errors": 0.01, "memory warnings": 0.03}
"""The largest share of each: of all rows, and of those that are checked."""


@dataclass(frozen=True, slots=True)
class Checked:
    row: str
    source: str
    errors: tuple[str, ...]
    memory: str
    """The worst that is said of memory; empty when nothing is."""


def main() -> int:
    rows, known = taken_rows(), {row.id: row for row in timed_rows()}
    reasons = {row["id"]: _reason(row, known.get(row["id"])) for row in rows}
    left_out = {number: reason for number, reason in reasons.items() if reason}
    found = checked_rows(1)
    figures = _figures(len(rows), left_out, found)
    parts = _tables(left_out, figures)
    print(*parts.values(), *_alarms(found), sep="\n")
    if "--write" in sys.argv[1:]:
        put(PAGE, parts)
        with LEFT_OUT.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("row", "reason"), *left_out.items()])
    return 0 if all(share <= BARS.get(name, 1.0) for name, _, share in figures) else 1


def taken_rows() -> list[dict[str, str]]:
    """The published rows that were measured outside CI and state what a layout needs."""
    return [row for row in published() if _is_taken(row)]


def checked_rows(every: int) -> list[Checked]:
    """What the check says of every so many rows, anew."""
    known, catalog = {row.id: row for row in timed_rows()}, Catalog()
    rows = [row for row in taken_rows() if not _reason(row, known.get(row["id"]))]
    return [_check(row, known[row["id"]].workload, catalog) for row in rows[::every]]


def _check(row: dict[str, str], run: Workload, catalog: Catalog) -> Checked:
    text = json.dumps(_spec(row, run))
    findings = check(text, f"row {row['id']}", catalog).findings
    worst = [finding.severity for finding in findings if finding.code in MEMORY]
    memory = ""
    if worst:
        memory = str(Severity.ERROR if Severity.ERROR in worst else Severity.WARNING)
    errors = (
        f"{finding.code} {finding.rule}"
        for finding in findings
        if finding.severity is Severity.ERROR and finding.code not in MEMORY
    )
    return Checked(row["id"], row["source"], tuple(errors), memory)


def _figures(
    rows: int, left_out: dict[str, str], checked: list[Checked]
) -> list[tuple[str, int, float]]:
    """What was counted: its name, the number and its share."""
    counts = {
        "errors": sum(bool(one.errors) for one in checked),
        "memory errors": sum(one.memory == Severity.ERROR for one in checked),
        "memory warnings": sum(one.memory == Severity.WARNING for one in checked),
    }
    return [
        ("rows", rows, 1.0),
        ("left out", len(left_out), len(left_out) / rows),
        ("checked", len(checked), len(checked) / rows),
        *((name, count, count / max(1, len(checked))) for name, count in counts.items()),
    ]


def _tables(left_out: dict[str, str], figures: list[tuple[str, int, float]]) -> dict[str, str]:
    """What was counted, and why rows were left out, for the documentation."""
    rows = [
        (name, f"{count:,}", f"{share:.2%}", f"{BARS[name]:.0%}" if name in BARS else "")
        for name, count, share in figures
    ]
    reasons = [(reason, f"{n:,}") for reason, n in Counter(left_out.values()).most_common()]
    return {
        "published": table(("rows", "number", "share", "limit"), rows),
        "left-out": table(("left out because", "rows"), reasons),
    }


def _alarms(checked: list[Checked]) -> Iterator[str]:
    """The most frequent errors, and the sources with findings about memory."""
    errors = Counter(said for one in checked for said in one.errors)
    yield from (f"{count:>5}  {said}" for said, count in errors.most_common(SHOWN))
    for memory in (Severity.ERROR, Severity.WARNING):
        sources = Counter(one.source for one in checked if one.memory == memory)
        yield f"memory {memory}s by source: {dict(sources)}"


def _is_taken(row: dict[str, str]) -> bool:
    """Whether a row was measured outside CI and states what a layout needs."""
    measured = any(row[name] for name in MEASURED)
    return row["source"] != MEMORY_ONLY and measured and all(row[name] for name in NEEDED)


def _reason(row: dict[str, str], known: Row | None) -> str:
    """Why a row cannot become a spec that Megatron would take; empty when it can."""
    if "fsdp" in row["sharding"].lower() or "hsdp" in row["sharding"].lower():
        return "uses FSDP of a different engine"
    if known is None:
        return "a field that a spec needs is not stated (model dimensions, chunks, parallel sizes)"
    return _broken_rule(row, known.workload)


def _broken_rule(row: dict[str, str], run: Workload) -> str:
    """The rule of Megatron that a row breaks, by its own source; empty when it keeps all."""
    layout, model = run.layout, run.model
    batch, micro = int(row["global_batch"]), run.micro_batch_size
    length = run.sequence_length
    rules = {
        "the number of layers is not divisible by pp": model.layers % layout.pp_size,
        "the layers of a stage are not divisible by vp": (model.layers // layout.pp_size)
        % layout.vp_size,
        "the global batch is not divisible by micro-batch × dp": batch % (micro * layout.dp_size),
        "the number of heads is not divisible by tp": model.heads % layout.tp_size,
        "an interleaved schedule needs more than one stage": layout.vp_size > 1
        and layout.pp_size == 1,
        "the interleaved micro-batches are not divisible by pp": layout.vp_size > 1
        and (batch // (micro * layout.dp_size)) % layout.pp_size,
        "the sequence is not divisible by 2 × cp": layout.cp_size > 1
        and length % (2 * layout.cp_size),
        "the number of experts is not divisible by ep": model.moe is not None
        and model.moe.experts % layout.ep_size,
        "experts and tensor parallelism without sequence parallelism": model.moe is not None
        and layout.tp_size > 1
        and not run.sequence_parallel,
        "the ranks of a stage are not divisible by the expert grid": model.moe is not None
        and layout.world_size % (layout.etp_size * layout.ep_size * layout.pp_size),
    }
    return next(
        (f"violates a Megatron rule: {name}" for name, broken in rules.items() if broken), ""
    )


def _spec(row: dict[str, str], run: Workload) -> dict[str, Any]:
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
        # With one tensor-parallel rank Megatron switches it off by itself (validate_args).
        "sequence_parallel": run.sequence_parallel and layout.tp_size > 1,
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
    data = run.model.model_dump(mode="json", by_alias=True, exclude_none=True)
    data["max_positions"] = max(data["max_positions"], run.sequence_length)
    return data


if __name__ == "__main__":
    sys.exit(main())
