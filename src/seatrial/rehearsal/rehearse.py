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
from seatrial.engine_process.process import tokenizer_trouble
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
)
from seatrial.rehearsal.twin import Twin, TwinData, degrees_of, twins
from seatrial.secrets.redaction import redact_tree
from seatrial.spec.loader import LoadedSpec
from seatrial.storage.state_files import DamagedError, read_json, write_state

NOT_PROVEN = (
    "kernels (Transformer Engine, flash attention)",
    "NCCL and the fabric",
    "memory",
    "speed",
)
"""What a CPU cannot show of any plan."""
KEPT = "layout rules, flags, schedule, precision policy, checkpoint format"


@dataclass(frozen=True, slots=True)
class RehearsalReport:
    """What a rehearsal found."""

    run: str
    plan_digest: str
    """The plan that was rehearsed."""
    engine: str
    twins: tuple[Twin, ...]
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
                    "degrees": degrees_of(twin.plan.layout),
                    "data": list(twin.data.files) or "mock",
                    "replaced": list(twin.replaced),
                    "plan": twin.plan.to_dict(),
                }
                for twin in self.twins
            ],
            "not_proven": list(self.not_proven),
        }


@dataclass(frozen=True, slots=True)
class RehearsalRequest:
    """What to rehearse, and how."""

    loaded: LoadedSpec
    """The spec with its places."""
    plan: Plan
    catalog: Catalog
    """The facts it was resolved with."""
    directory: Path
    """Where the drills work; what they print stays there."""
    seed: int
    """From which kills are drawn."""
    drills: tuple[DrillName, ...] = tuple(DrillName)
    """The drills to run."""


def make_twins(request: RehearsalRequest) -> list[Twin]:
    """The twins of a plan, or the reason why it cannot be rehearsed."""
    plan = request.plan
    refusal = ENGINES[plan.spec.engine.name].no_rehearsal(plan)
    if refusal:
        raise UsageError(refusal)
    files = prepared_files(plan)
    trouble = _tokenizer_trouble(plan) if files else ""
    return twins(request.loaded, plan, request.catalog, TwinData(files, trouble))


def prepared_files(plan: Plan) -> tuple[str, ...]:
    """The data of the spec when all of them are prepared and can be read on this host."""
    sources, engine = plan.spec.data.sources or (), ENGINES[plan.spec.engine.name]
    prefixes = [source.prepared for source in sources if source.prepared is not None]
    places = engine.source_places(plan)
    if places:
        prefixes = list(places)
    elif len(prefixes) < len(sources):
        # Raw text: what `seatrial data prepare` has written, if it has.
        blend = Path(plan.data_location) / "blend.txt"
        words = blend.read_text().split() if blend.is_file() else []
        prefixes = [word for word in words if not _is_weight(word)]
    there = all(Path(file).is_file() for prefix in prefixes for file in engine.data_files(prefix))
    return tuple(prefixes) if there else ()


def _is_weight(word: str) -> bool:
    """Whether a word of a blend is a weight and not a path."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _tokenizer_trouble(plan: Plan) -> str:
    """Why the plan's tokenizer cannot be loaded here."""
    engine = ENGINES[plan.spec.engine.name]
    wanted = engine.hub_tokenizer(plan)
    if wanted is None:
        name = plan.model.tokenizer
        return "" if not name or Path(name).is_file() else "there is no such file"
    return tokenizer_trouble(*wanted, engine=engine)


def run_drills(
    request: RehearsalRequest, found: Iterable[Twin], announce: Announce
) -> Iterator[Result]:
    """The drills, one result after the other."""
    if DrillName.ARGUMENTS in request.drills:
        announce(DrillName.ARGUMENTS, "asking the engine", 0)
        yield arguments_result(request.plan)
    for number, twin in enumerate(found, start=1):
        directory = request.directory / f"twin-{number}"
        rehearsal = Rehearsal(twin, directory, request.seed, announce)
        try:
            for drill in request.drills:
                if drill is not DrillName.ARGUMENTS:
                    yield rehearsal.run(drill)
        finally:
            # Logs and events are files and stay for a reader. Directories hold checkpoints, exports
            # and caches, which are large and have served.
            for path in directory.glob("*/"):
                shutil.rmtree(path, ignore_errors=True)


def arguments_result(plan: Plan) -> Result:
    """The engine's verdict on the production arguments, with three stages built and counted."""
    last = plan.layout.pp_size - 1
    stages = sorted({0, last // 2, last})
    engine = ENGINES[plan.spec.engine.name]
    full = Full(
        engine.verdict_arguments(plan),
        plan.layout.world_size,
        plan.stage_parameters,
        engine.environment(plan),
        engine,
    )
    began = time.monotonic()
    result = check_arguments(full, stages)
    return Result(result.drill, result.ok, result.said, time.monotonic() - began)


def report_of(
    request: RehearsalRequest, found: Iterable[Twin], results: Iterable[Result]
) -> RehearsalReport:
    """The report of drills that have run."""
    engine = ENGINES[request.plan.spec.engine.name]
    return RehearsalReport(
        request.plan.spec.name,
        request.plan.digest,
        f"{engine.name} {engine.version}",
        tuple(found),
        tuple(results),
        request.seed,
    )


def write_report(report: RehearsalReport, file: Path) -> None:
    """Write the report as JSON."""
    plain = redact_tree(report.to_dict())
    write_state(file, json.dumps(plain, indent=2, ensure_ascii=False) + "\n")


def was_rehearsed(directory: Path) -> bool:
    """Whether a rehearsal of a run has held, by the reports in the directory of the run."""
    return any(_held(file) for file in directory.glob("rehearsal-*.json"))


def _held(file: Path) -> bool:
    try:
        return read_json(file)["ok"] is True
    except (OSError, DamagedError, KeyError, TypeError):
        # Half of a report, of a rehearsal that did not come to its end.
        return False
