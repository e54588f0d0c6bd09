# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Predict published runs that the planner has not seen, each from its own run.yaml.

    python -m backtest.unseen_runs                 # print the predictions
    python -m backtest.unseen_runs --record NAME   # and keep them in data/prequential

Each row of `data/unseen_runs.csv` becomes a spec with the layout of the run, planned as `seatrial
plan` plans it, with the measured machines as a catalog of one's own. One thing differs from a plan:
GPUs of an NVL72 rack share one link, as they did when the runs were measured. Pods on most clusters
do not get that link between nodes.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from backtest.machines import DOMAIN_OF_SUPERCHIPS, SUPERCHIPS
from backtest.prequential import print_and_record
from backtest.rows import DATA
from seatrial.catalog.catalog import Catalog
from seatrial.errors import FindingsError
from seatrial.planning.memory.breakdown import Memory
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.timing.error_bars import expected_error
from seatrial.planning.timing.step_time import step_time
from seatrial.spec.loader import loads

RUNS = DATA / "unseen_runs.csv"
MACHINES = DATA / "measured_machines"
DEGREES = ("tp", "pp", "vp", "cp", "ep")
SHOWN = ("model", "gpus", "precision", "seq", "gbs", "mbs", "tp", "pp", "cp", "ep", "vp")
YAML_VALUES = {"true": True, "false": False, "1": 1}
MIB = 2**20

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the planner says of a run; without times if it rejects the run."""

    row: Row
    seconds: float | None = None
    nine_of_ten: float | None = None
    memory: Memory | None = None
    accelerator: str = ""
    reason: str = ""
    """Why the planner rejected the run."""

    @property
    def error(self) -> float | None:
        """Predicted over measured step time, less one."""
        return None if self.seconds is None else self.seconds / measured_seconds(self.row) - 1

    @property
    def memory_mib(self) -> float | None:
        """Predicted peak of memory on the fullest rank, of the kind that was measured."""
        if self.memory is None:
            return None
        stage = self.memory.fullest
        return (stage.total if self.row["memory_kind"] == "nvidia-smi" else stage.allocated) / MIB

    @property
    def memory_error(self) -> float | None:
        """Predicted over measured peak of memory, less one; None if not published."""
        if self.memory_mib is None or not self.row["memory_mib"]:
            return None
        return self.memory_mib / float(self.row["memory_mib"]) - 1


@cache
def rows() -> tuple[Row, ...]:
    with RUNS.open(newline="") as stream:
        return tuple(csv.DictReader(stream))


@cache
def catalog() -> Catalog:
    return Catalog([MACHINES])


def measured_seconds(row: Row) -> float:
    """Return the time of a step, from the step time or the tokens per second and GPU."""
    # The conversion is its own inverse.
    return _in_metric(row, float(row["value"]))


def _in_metric(row: Row, seconds: float) -> float:
    """Return a step time in the unit of the published value."""
    if row["metric"] == "step_s":
        return seconds
    return int(row["gbs"]) * int(row["seq"]) / (seconds * int(row["gpus"]))


def run_yaml(row: Row) -> str:
    """Return the spec of a run; JSON is YAML too."""
    node, gpus = catalog().node_type(row["machine"]), int(row["gpus"])
    kind, _, modules = row["recompute"].partition(":")
    parallelism: dict[str, Any] = {f"{name}_size": int(row[name]) for name in DEGREES}
    parallelism |= {
        "sequence_parallel": int(row["tp"]) > 1,
        "sharding": "optimizer",
        "recompute": kind,
    }
    if modules:
        parallelism["recompute_modules"] = modules.split("+")
    if row["stages"] == "ends":
        parallelism |= {"embedding_as_layer": True, "loss_as_layer": True}
    elif "=" in row["stages"]:
        stage, _, layers = row["stages"].partition("=")
        parallelism[f"{stage}_stage_layers"] = int(layers)
    elif row["stages"]:
        parallelism["pipeline_layout"] = row["stages"]
    spec = {
        "apiVersion": "seatrial.dev/v1alpha1",
        "name": "unseen",
        "model": {"preset": row["model"]},
        "data": {"mock": True},
        "training": {
            "steps": 100,
            "sequence_length": int(row["seq"]),
            "micro_batch_size": int(row["mbs"]),
            "global_batch_size": int(row["gbs"]),
            "precision": row["precision"],
        },
        "parallelism": parallelism,
        "performance": {
            name: YAML_VALUES.get(value, value)
            for name, _, value in (option.partition("=") for option in row["options"].split())
        },
        "cluster": {
            "profile": "onprem",
            "node_type": row["machine"],
            "nodes": max(1, gpus // node.gpus),
            "processes_per_node": min(gpus, node.gpus),
            "storage": {"claim": "shared"},
        },
    }
    return json.dumps(spec, indent=2)


def planned(row: Row) -> PlannedRun:
    return plan_run(resolve_basis(loads(run_yaml(row), "run.yaml"), catalog()))


def forecast(row: Row) -> Forecast:
    try:
        run = planned(row)
    except FindingsError as error:
        return Forecast(row, reason="; ".join(finding.rule for finding in error.findings))
    chosen, constants = run.chosen, run.constants
    if chosen is None or constants is None:
        raise ValueError(f"{row['machine']} has no GPUs.")
    workload, hardware = chosen.workload, chosen.workload.hardware
    if hardware.accelerator in SUPERCHIPS:
        hardware = replace(hardware, link_domain_gpus=DOMAIN_OF_SUPERCHIPS)
        workload = replace(workload, hardware=hardware)
    return Forecast(
        row,
        step_time(workload, constants).total,
        expected_error(workload, constants).nine_of_ten,
        chosen.memory,
        hardware.accelerator,
    )


def record(found: Forecast) -> dict[str, Any]:
    """Return a line of the record, in the format of the other records."""
    row, error = found.row, found.error
    return {
        "source": row["source"],
        "repo_path_commit": row["where"],
        "model": row["model"],
        "gpu": found.accelerator or catalog().node_type(row["machine"]).accelerator,
        **{name: row[name] for name in SHOWN[1:]},
        "published_metric": row["metric"],
        "published_value": row["value"],
        "predicted": "" if found.seconds is None else f"{_in_metric(row, found.seconds):.4g}",
        "error": "" if error is None else f"{error:+.3f}",
        "memory_verdict": "" if found.memory is None else str(found.memory.verdict),
        "note": "; ".join(_notes(found)),
    }


def _notes(found: Forecast) -> Iterator[str]:
    row = found.row
    yield row["note"]
    if row["engine"] != "Megatron":
        yield f"measured with {row['engine']}"
    yield f"recompute {row['recompute']}"
    if row["options"]:
        yield f"options {row['options']}"
    if found.nine_of_ten is not None:
        yield f"stated nine of ten ±{found.nine_of_ten:.0%}"
    if found.memory_error is not None and found.memory is not None:
        yield (
            f"{row['memory_kind']} {found.memory_mib:.0f} MiB predicted, "
            f"{row['memory_mib']} MiB measured ({found.memory_error:+.1%})"
        )
        if row["memory_kind"] == "nvidia-smi":
            yield f"stated memory ±{found.memory.error:.0%}"
    if found.reason:
        yield f"rejected: {found.reason}"
    yield "error is of step time, predicted over measured less one"


def main() -> None:
    print_and_record([record(forecast(row)) for row in rows()], __doc__)


if __name__ == "__main__":
    main()
