# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A whole rehearsal: the twins of a plan, the drills on each, and the report."""

import json
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.engines.megatron.environment import engine_environment
from seatrial.engines.megatron.flags import engine_arguments
from seatrial.engines.registry import ENGINES
from seatrial.errors import UsageError
from seatrial.planning.plan import Plan
from seatrial.rehearsal.drills import (
    Announce,
    DrillName,
    Full,
    Rehearsal,
    Result,
    check_arguments,
    production_arguments,
)
from seatrial.rehearsal.twin import Twin, twins
from seatrial.spec.engine import EngineName
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.parallelism import Sharding

NOT_PROVEN = (
    "kernels (Transformer Engine, flash attention)",
    "NCCL and the fabric",
    "memory",
    "speed",
)
"""What a CPU cannot show of any plan."""
KEPT = "layout rules, flags, schedule, precision policy, checkpoint format"


@dataclass(frozen=True, slots=True)
class Report:
    """What a rehearsal found."""

    run: str
    """Name of the run."""
    plan_digest: str
    """The plan that was rehearsed."""
    engine: str
    """Engine and version."""
    twins: tuple[Twin, ...]
    """The twins."""
    results: tuple[Result, ...]
    """The drills, in order."""
    seed: int
    """From which the kills were drawn."""
    not_proven: tuple[str, ...] = field(default=NOT_PROVEN)
    """What is still to be shown on GPUs."""

    @property
    def ok(self) -> bool:
        """Whether every drill held."""
        return all(result.ok for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return {
            "run": self.run,
            "plan_digest": self.plan_digest,
            "engine": self.engine,
            "ok": self.ok,
            "seed": self.seed,
            "results": [asdict(result) for result in self.results],
            "twins": [
                {
                    "degrees": asdict(twin.degrees),
                    "real_data": twin.real_data,
                    "replaced": list(twin.replaced),
                    "plan": twin.plan.to_dict(),
                }
                for twin in self.twins
            ],
            "not_proven": list(self.not_proven),
        }


@dataclass(frozen=True, slots=True)
class Request:
    """What to rehearse, and how."""

    loaded: LoadedSpec
    """The spec with its places."""
    plan: Plan
    """Its plan."""
    catalog: Catalog
    """The facts it was resolved with."""
    directory: Path
    """Where the drills work; what they print stays there."""
    seed: int
    """From which kills are drawn."""
    drills: tuple[DrillName, ...] = tuple(DrillName)
    """The drills to run."""


def require_megatron(plan: Plan) -> None:
    """Refuse a plan of an engine that cannot be rehearsed yet."""
    if plan.spec.engine.name is not EngineName.MEGATRON:
        raise UsageError(
            f"Runs of {plan.spec.engine.name} cannot be rehearsed in this version; "
            "those of megatron can."
        )


def make_twins(request: Request) -> list[Twin]:
    """The twins of a plan, or the reason why it cannot be rehearsed."""
    plan = request.plan
    if plan.sharding is Sharding.FSDP:
        raise UsageError(
            "Megatron's FSDP needs a GPU and cannot be rehearsed on a CPU. "
            "Rehearse with parallelism.sharding=optimizer."
        )
    real = has_data(plan)
    return twins(request.loaded, plan, request.catalog, real_data=real)


def has_data(plan: Plan) -> bool:
    """Whether all data of the spec are prepared and can be read on this host."""
    sources = plan.spec.data.sources or ()
    prefixes = [source.prepared for source in sources]
    return bool(prefixes) and all(
        prefix is not None and all(Path(f"{prefix}.{end}").is_file() for end in ("bin", "idx"))
        for prefix in prefixes
    )


def run_drills(request: Request, found: Iterable[Twin], announce: Announce) -> Iterator[Result]:
    """The drills, one result after the other."""
    if DrillName.ARGUMENTS in request.drills:
        announce(DrillName.ARGUMENTS, "asking the engine", 0)
        yield arguments_result(request.plan)
    for number, twin in enumerate(found, start=1):
        directory = request.directory / f"twin-{number}"
        rehearsal = Rehearsal(twin, directory, request.seed, announce)
        for drill in request.drills:
            if drill is not DrillName.ARGUMENTS:
                yield rehearsal.run(drill)
        # Logs and events stay for a reader; checkpoints are large and have served.
        for name in ("straight", "killed", "index-cache"):
            shutil.rmtree(directory / name, ignore_errors=True)


def arguments_result(plan: Plan) -> Result:
    """The engine's verdict on the production arguments, with three stages built and counted."""
    last = plan.layout.pp_size - 1
    stages = sorted({0, last // 2, last})
    full = Full(
        production_arguments(engine_arguments(plan)),
        plan.layout.world_size,
        plan.stage_parameters,
        engine_environment(plan),
    )
    began = time.monotonic()
    result = check_arguments(full, stages)
    return Result(result.drill, result.ok, result.said, time.monotonic() - began)


def report_of(request: Request, found: Iterable[Twin], results: Iterable[Result]) -> Report:
    """The report of drills that have run."""
    engine = ENGINES[request.plan.spec.engine.name]
    return Report(
        request.plan.spec.name,
        request.plan.digest,
        f"{engine.name} {engine.version}",
        tuple(found),
        tuple(results),
        request.seed,
    )


def write_report(report: Report, file: Path) -> None:
    """Write the report as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(report.to_dict(), indent=2, ensure_ascii=False) + "\n")
