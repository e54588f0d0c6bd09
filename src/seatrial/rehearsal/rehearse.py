# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run a rehearsal: make a plan's twins, run the drills, and write the report."""

import json
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.dataprep.output.tokenizer_copy import TokenizerCopy, copied_path, verified_copy
from seatrial.engine_process.process import tokenizer_trouble
from seatrial.engines.registry import ENGINES
from seatrial.errors import UsageError
from seatrial.planning.plan import Plan, dataset_location
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.search.choose import LayoutChooser
from seatrial.rehearsal.drills import (
    USUAL_DRILLS,
    WITHOUT_TWIN,
    Announce,
    DrillName,
    Full,
    Rehearsal,
    Result,
    check_arguments,
)
from seatrial.rehearsal.full_size import DIRECTORY, FullSize, FullSizeDrill, FullSizeError
from seatrial.rehearsal.twin import Twin, TwinData, degrees_of, twins
from seatrial.secrets.redaction import redact_tree
from seatrial.spec.loader import LoadedSpec
from seatrial.storage.state_files import DamagedError, read_json, write_state

MEMORY = "memory"
"""Not verified, except by the full-size drill."""
NOT_PROVEN = (
    "kernels (Transformer Engine, flash attention)",
    "NCCL and the fabric",
    MEMORY,
    "speed",
)
"""Properties that a rehearsal on CPU cannot verify for any plan."""
KEPT = "layout rules, flags, schedule, precision policy, checkpoint format"


def not_proven(plan: Plan) -> tuple[str, ...]:
    """Return the properties of a plan that only a run on GPUs can verify."""
    return (*NOT_PROVEN, *ENGINES[plan.spec.engine.name].not_proven(plan))


@dataclass(frozen=True, slots=True)
class RehearsalReport:
    """The content of a rehearsal's JSON report."""

    run: str
    plan_digest: str
    engine: str
    twins: tuple[Twin, ...]
    results: tuple[Result, ...]
    seed: int
    """Seed for choosing the killed ranks and steps."""
    not_proven: tuple[str, ...] = field(default=NOT_PROVEN)
    """Properties that only a run on GPUs can verify."""

    @property
    def ok(self) -> bool:
        """True if every drill passed."""
        return all(result.ok for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-compatible data."""
        return {
            "run": self.run,
            "plan_digest": self.plan_digest,
            "engine": self.engine,
            "ok": self.ok,
            "seed": self.seed,
            "results": [_plain(result) for result in self.results],
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
            **self._full_size(),
        }

    def _full_size(self) -> dict[str, Any]:
        """Return what the full-size drill counted, if it ran."""
        counted = next((each.counted for each in self.results if each.counted is not None), None)
        return {} if counted is None else {"full_size": counted.to_dict()}


def _plain(result: Result) -> dict[str, Any]:
    plain = asdict(replace(result, counted=None))
    del plain["counted"]
    return plain


@dataclass(frozen=True, slots=True)
class RehearsalRequest:
    """The parameters of a rehearsal."""

    loaded: LoadedSpec
    """The spec with line numbers."""
    plan: Plan
    catalog: Catalog
    directory: Path
    """The working directory of the drills. Their logs stay there."""
    seed: int
    """Seed for choosing the killed ranks and steps."""
    drills: tuple[DrillName, ...] = USUAL_DRILLS


def make_twins(request: RehearsalRequest) -> list[Twin]:
    """Return a plan's twins. Raises UsageError if the plan cannot be rehearsed."""
    plan = request.plan
    refusal = ENGINES[plan.spec.engine.name].no_rehearsal(plan)
    if refusal:
        raise UsageError(refusal)
    files = prepared_files(plan)
    dataset = dataset_location(plan) if files else ""
    copy = verified_copy(dataset, request.directory) if dataset else None
    trouble = _tokenizer_trouble(plan, copy) if files else ""
    return twins(request.loaded, plan, request.catalog, TwinData(files, trouble, copy))


def prepared_files(plan: Plan) -> tuple[str, ...]:
    """Return the spec's prepared data; empty unless all of it is available on this host."""
    sources, engine = plan.spec.data.sources or (), ENGINES[plan.spec.engine.name]
    prefixes = [source.prepared for source in sources if source.prepared is not None]
    places = engine.source_places(plan)
    if places:
        prefixes = list(places)
    elif len(prefixes) < len(sources):
        # The sources are raw text: use the output of `seatrial data prepare`, if it exists.
        blend = Path(plan.data_location) / "blend.txt"
        words = blend.read_text().split() if blend.is_file() else []
        prefixes = [word for word in words if not _is_weight(word)]
    there = all(Path(file).is_file() for prefix in prefixes for file in engine.data_files(prefix))
    return tuple(prefixes) if there else ()


def _is_weight(word: str) -> bool:
    """True if an item in a blend is a weight, False if it is a path."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _tokenizer_trouble(plan: Plan, copy: TokenizerCopy | None) -> str:
    """Return why this host cannot load the plan's tokenizer; empty if it can."""
    engine = ENGINES[plan.spec.engine.name]
    wanted = engine.hub_tokenizer(plan)
    if copy is not None and plan.model.tokenizer:
        path = copied_path(copy.directory, plan.model.tokenizer)
        return tokenizer_trouble(path, "", engine=engine) if wanted is not None else ""
    if wanted is None:
        name = plan.model.tokenizer
        return "" if not name or Path(name).is_file() else "the file does not exist"
    return tokenizer_trouble(*wanted, engine=engine)


def run_drills(
    request: RehearsalRequest, found: Iterable[Twin], announce: Announce
) -> Iterator[Result]:
    """Run the drills, and yield the result of each."""
    if DrillName.ARGUMENTS in request.drills:
        announce(DrillName.ARGUMENTS, "validating with the engine", 0)
        yield arguments_result(request.plan)
    if DrillName.FULL_SIZE in request.drills:
        yield full_size_result(request, announce)
    for number, twin in enumerate(found, start=1):
        directory = request.directory / f"twin-{number}"
        rehearsal = Rehearsal(twin, directory, request.seed, announce)
        try:
            for drill in request.drills:
                if drill not in WITHOUT_TWIN:
                    yield rehearsal.run(drill)
        finally:
            # Keep the files, which are logs and events. The directories contain checkpoints,
            # exports and caches, which are large and no longer needed.
            for path in directory.glob("*/"):
                shutil.rmtree(path, ignore_errors=True)


def arguments_result(plan: Plan) -> Result:
    """Validate the production arguments. The engine builds three stages and counts parameters."""
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
    return replace(result, seconds=time.monotonic() - began)


def full_size_result(request: RehearsalRequest, announce: Announce) -> Result:
    """Count every distinct rank of the real run with the engine, and compare it with the plan."""

    def counting(done: int, of: int, name: str) -> None:
        words = f"{done} of {of} ranks, {name}"
        announce(DrillName.FULL_SIZE, words, round(100 * done / of))

    began = time.monotonic()
    priced = LayoutChooser(resolve_basis(request.loaded, request.catalog)).price(request.plan)
    known = None if priced is None else (priced.workload, priced.memory)
    directory = request.directory.parent / DIRECTORY
    drill = FullSizeDrill(request.plan, directory, known, counting)
    try:
        counted = drill.run()
    except FullSizeError as error:
        said = f"the engine cannot count {error}"
        return Result(DrillName.FULL_SIZE, False, said, time.monotonic() - began)
    return Result(
        DrillName.FULL_SIZE,
        counted.fits,
        _counted_words(counted),
        time.monotonic() - began,
        counted=counted,
    )


def _counted_words(counted: FullSize) -> str:
    """Return the result of the full-size drill on one line."""
    fullest, gib = counted.fullest, 1 << 30
    need = (fullest.count.peak + fullest.outside) / gib
    ranks = sum(each.distinct.represents for each in counted.ranks)
    words = f"{ranks:,} ranks of {len(counted.ranks)} kinds counted by the engine"
    stage = f"stage {fullest.distinct.stage} needs the most: {need:.1f}"
    if fullest.verdict is None:
        return f"{words}; {stage} GiB"
    verdict = fullest.verdict.replace("-", " ")
    return f"{words}; {stage} of {counted.room / gib:.1f} GiB, {verdict}"


def report_of(
    request: RehearsalRequest, found: Iterable[Twin], results: Iterable[Result]
) -> RehearsalReport:
    """Build a rehearsal's report."""
    engine, results = ENGINES[request.plan.spec.engine.name], tuple(results)
    is_counted = any(result.counted is not None for result in results)
    return RehearsalReport(
        request.plan.spec.name,
        request.plan.digest,
        f"{engine.name} {engine.version}",
        tuple(found),
        results,
        request.seed,
        tuple(each for each in not_proven(request.plan) if not (is_counted and each == MEMORY)),
    )


def write_report(report: RehearsalReport, file: Path) -> None:
    plain = redact_tree(report.to_dict())
    write_state(file, json.dumps(plain, indent=2, ensure_ascii=False) + "\n")


def was_rehearsed(directory: Path) -> bool:
    """True if the run's directory contains the report of a rehearsal that passed."""
    return any(_held(file) for file in directory.glob("rehearsal-*.json"))


def _held(file: Path) -> bool:
    try:
        return read_json(file)["ok"] is True
    except (OSError, DamagedError, KeyError, TypeError):
        # The report is incomplete, because the rehearsal was interrupted.
        return False
