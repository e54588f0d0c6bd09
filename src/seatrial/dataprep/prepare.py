# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The whole preparation: list, freeze, run the tasks, assemble, verify, record, clean up.

Every step stores its results, and each start first checks which results exist. Starting again
after an error, an interrupt or a kill therefore continues where the last start stopped.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from seatrial.codes.data import InputCode
from seatrial.dataprep.blends.blend import BLEND_FILE, run_blend
from seatrial.dataprep.drivers.driver import (
    Again,
    Driver,
    DriverName,
    Job,
    PendingJob,
    usable_cores,
)
from seatrial.dataprep.drivers.local import LocalDriver, PodsDriver
from seatrial.dataprep.drivers.ray import RayDriver
from seatrial.dataprep.inputs.access import list_inputs
from seatrial.dataprep.inputs.local import require_local
from seatrial.dataprep.inputs.sources import raw_sources, settings_of
from seatrial.dataprep.output.assemble import (
    DamagedPartsError,
    assemble,
    check_conserved,
    damaged_parts,
    forget_assembled,
)
from seatrial.dataprep.output.completion import (
    CLAIM_FILE,
    Claim,
    OtherDataError,
    finished_record,
    is_held,
    remove_work,
    take_claim,
)
from seatrial.dataprep.output.dataset import DatasetRecord, summarize
from seatrial.dataprep.output.mds_splits import Cut, cut, require_samples
from seatrial.dataprep.output.quarantine import (
    collect_quarantine,
    refuse_bad_sources,
    refuse_bad_tasks,
)
from seatrial.dataprep.output.tokenizer_copy import write_copy
from seatrial.dataprep.progress import PreparationPhase, Progress, Tell, Tracker
from seatrial.dataprep.tasks.frozen import forget, freeze_into, load_records, remove_orphans
from seatrial.dataprep.tasks.records import RECORD_FILE, PartRecord, tasks_file
from seatrial.dataprep.tasks.task_list import (
    TaskList,
    Tokenizer,
    TokenizerKind,
    bundle,
    freeze,
    thaw,
)
from seatrial.dataprep.tokenizers.identity import describe
from seatrial.dataprep.tokenizers.locations import tokenizer_files, tokenizer_path
from seatrial.dataprep.tokenizers.selection import chosen_backend, distrust
from seatrial.dataprep.tokenizers.unstated_end import end_findings
from seatrial.dataprep.verification.verify import verify
from seatrial.engines.engine import DataFormat
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError, SeatrialError, UsageError
from seatrial.findings import Finding, Severity, Where, has_errors
from seatrial.planning.plan import Plan
from seatrial.storage.access import store_at
from seatrial.storage.store import Store

ROUNDS = 3
"""How often tasks run again because their parts were damaged before assembly."""


@dataclass
class PreparationOutcome:
    """The result of a preparation."""

    record: DatasetRecord
    """The data set."""
    address: str
    """Location of the data."""
    location: str
    """Location where the run will look for them."""
    findings: list[Finding] = field(default_factory=list)
    """Findings for the run: splits that are too short, data that are read more than once."""
    is_new: bool = True
    """False if the data set already existed and no text was read."""
    cut: tuple[str, ...] = ()
    """Directories below the address where this start wrote samples."""
    tasks: int = 0
    """Tasks that this start ran."""
    seconds: float = 0.0
    """Wall-clock time of this start."""
    cpu_seconds: float = 0.0
    """CPU time of the tasks that this start ran."""
    input_bytes: int = 0
    """Stored bytes of raw text of the tasks that this start ran."""
    again: list[Again] = field(default_factory=list)
    """Tasks that failed and were retried."""


def prepare(
    plan: Plan, driver: Driver, *, to: str | None = None, tell: Tell | None = None
) -> PreparationOutcome:
    """Prepare the data of a plan; continues where an earlier start stopped.

    Args:
        plan: The plan whose sources to prepare.
        driver: Runs the tasks.
        to: Output location, if not the location where the run will look for the data.
        tell: Receives the progress.

    Raises:
        FindingsError: An input, a part or the result is invalid.
        OtherDataError: The output location already contains different data.
    """
    began = time.monotonic()
    tell = tell or (lambda _: None)
    store = store_at(to or plan.data_location)
    tell(Progress(PreparationPhase.LISTING))
    frozen, tokenizer = list_tasks(plan, to)
    work = _Preparation(plan, driver, tell, store, thaw(frozen))
    outcome = work.finished()
    if outcome is None:
        # The tokenizer's host may no longer respond when the tasks are done.
        work.tokenizer_files = tokenizer_files(work.tasks.settings.tokenizer)
        try:
            freeze_into(store, frozen, tokenizer)
            outcome = work.run()
        except (SeatrialError, OSError):
            # If another process has finished the same data set, it has deleted the work. If it has
            # finished a different one, this work is useless.
            outcome = work.finished(begun=True)
            if outcome is None:
                raise
    outcome.seconds = time.monotonic() - began
    return outcome


def driver_of(name: str, workers: int | None) -> Driver:
    """Return the driver of that name; by default it runs one process per usable core."""
    if name not in tuple(DriverName):
        raise UsageError(f"there is no driver {name!r}. Use one of: {', '.join(DriverName)}.")
    count = workers or usable_cores()
    match DriverName(name):
        case DriverName.RAY:
            return RayDriver(count)
        case DriverName.PODS:
            return PodsDriver(count)
        case DriverName.LOCAL:
            return LocalDriver(count)


def wanted_cuts(plan: Plan) -> list[Cut]:
    """Return the cuts into samples for a plan: one per source of raw text."""
    length, shares = plan.model.sequence_length, plan.spec.data.split
    directory = ENGINES[plan.spec.engine.name].sample_directory
    return [Cut(directory(plan, name), name, length, shares) for name, _ in raw_sources(plan)]


def list_tasks(plan: Plan, to: str | None = None) -> tuple[bytes, bytes]:
    """Return the frozen task list of a plan, and the tokenizer file.

    Args:
        plan: The plan.
        to: Output location, if not the location where the run will look for the data.
    """
    sources = raw_sources(plan)
    output = to or plan.data_location
    for _, source in sources:
        # Check this before the tokenizer, which may need a download.
        if source.from_ is not None and "://" not in source.from_:
            require_local(source.from_)
    tokenizer, data = describe(plan.model.tokenizer)
    tasks = bundle([(name, list_inputs(source, output=output)) for name, source in sources])
    return freeze(settings_of(plan, tokenizer), tasks), data


@dataclass
class _Preparation:
    """One start of a preparation."""

    plan: Plan
    driver: Driver
    tell: Tell
    store: Store
    tasks: TaskList
    claim: Claim | None = None
    """The right of this start to write files to the root."""
    tokenizer_files: Mapping[str, bytes] = field(default_factory=dict)
    """The tokenizer's files, which become part of the data set."""

    def finished(self, *, begun: bool = False) -> PreparationOutcome | None:
        """Return the outcome if the data set exists, and delete leftover work.

        Once this start works on tasks, its own work on a different list is deleted too.
        """
        record = finished_record(self.store)
        if record is None:
            return None
        if begun:
            remove_work(self.store, record)
        self._refuse_other(record)
        refuse_bad_sources(record, self.tasks.settings.largest_bad_share)
        findings = self._blend(record)
        cut_now = self._cut(record)
        remove_work(self.store, record)
        place = self.plan.data_location
        return PreparationOutcome(
            record, self.store.address, place, findings, is_new=False, cut=cut_now
        )

    def _refuse_other(self, record: DatasetRecord | None) -> None:
        """Reject an existing data set that is not the wanted one."""
        if record is not None and record.list_digest != self.tasks.digest:
            raise OtherDataError(_differs(self.store, record, self.tasks))

    def run(self) -> PreparationOutcome:
        """Do everything that is not done yet."""
        records = load_records(self.store, self.tasks)
        refuse_bad_tasks(self.tasks, records.values())
        remove_orphans(self.store, self.tasks, records)
        before = {number: record.attempt for number, record in records.items()}
        again: list[Again] = []
        for last in (False,) * (ROUNDS - 1) + (True,):
            again += self._run_tasks(records)
            self._refuse_nothing(records)
            try:
                record = self._assembled(records)
                break
            except DamagedPartsError as error:
                if last or finished_record(self.store) is not None:
                    raise
                forget(self.store, self.tasks, [records.pop(task) for task in error.tasks])
        findings = self._blend(record)
        cut_now = self._cut(record)
        self._refuse_lost_claim()
        self.store.sync()
        if not self.store.create(RECORD_FILE, record.to_json()):
            # Another process was first. Accept its data set if it is the same.
            self._refuse_other(finished_record(self.store))
        remove_work(self.store, record)
        place = self.plan.data_location
        outcome = PreparationOutcome(record, self.store.address, place, findings, cut=cut_now)
        own = [part for part in records.values() if before.get(part.task) != part.attempt]
        outcome.tasks, outcome.again = len(own), again
        outcome.cpu_seconds = sum(part.cpu_seconds for part in own)
        outcome.input_bytes = sum(part.counts.input_bytes for part in own)
        return outcome

    def _take_claim(self) -> None:
        """Keep all others from writing files to the root from now on."""
        self.claim = take_claim(self.store, self.tasks)
        if self.claim.is_new:
            # A different list may have replaced files that an earlier start put there.
            forget_assembled(self.store, self.tasks)

    def _refuse_lost_claim(self) -> None:
        """Raise an error if the claim was deleted while files were written under it."""
        held = self.claim is not None and is_held(self.store, self.claim)
        if not held and finished_record(self.store) is None:
            raise OtherDataError(
                f"{self.store.address}/{CLAIM_FILE} was deleted or replaced in the meantime, so "
                "another preparation may have written the same files. Rerun the command when no "
                "other preparation uses this location: finished tasks are kept."
            )

    def _refuse_nothing(self, records: dict[int, PartRecord]) -> None:
        """Raise an error if there are no tokens to train on."""
        if any(file.tokens for record in records.values() for file in record.files):
            return
        inputs = sum(len(task.inputs) for task in self.tasks.tasks)
        lines = sum(record.counts.lines for record in records.values())
        rule = f"{inputs:,} files with {lines:,} lines produced no tokens."
        fix = "Check from, files, format and text_field of the sources."
        where = Where(field="data.sources")
        raise FindingsError(
            [Finding(InputCode.NOTHING, Severity.ERROR, where, rule, str(lines), fix)]
        )

    def _run_tasks(self, records: dict[int, PartRecord]) -> Sequence[Again]:
        """Run the tasks without a record, and add their records."""
        wanted = [task for task in self.tasks.tasks if task.number not in records]
        tracker = Tracker(self.tasks, records.values())
        if not wanted:
            return ()
        backend = ""

        def choose() -> str:
            nonlocal backend
            self.tell(Progress(PreparationPhase.CHOOSING))
            backend = chosen_backend(self.store, self.tasks)
            tracker.progress.began = time.monotonic()
            self.tell(tracker.progress)
            return backend

        job = PendingJob(Job.of(self.tasks, self.store.address), choose)
        try:
            for event in self.driver.run(job, self.tasks, wanted):
                tracker.hear(event)
                self.tell(tracker.progress)
        except FindingsError as error:
            if not any(finding.code == InputCode.AUDIT for finding in error.findings):
                raise
            # All output of that backend is in doubt.
            distrust(self.store, self.tasks, backend)
            done = load_records(self.store, self.tasks)
            doubted = [r for r in done.values() if r.backend.split()[0] == backend]
            forget(self.store, self.tasks, doubted)
            for record in doubted:
                records.pop(record.task, None)
            again = Again(-1, str(error))
            self.tell(tracker.progress)
            return [again, *self._run_tasks(records)]
        records.update(load_records(self.store, self.tasks))
        return tracker.progress.again

    def _assembled(self, records: dict[int, PartRecord]) -> DatasetRecord:
        """Assemble the parts and verify the result."""
        total = sum(file.tokens for part in records.values() for file in part.files)
        size = max(1, total * self.tasks.settings.tokenizer.token_bytes)
        tasks = len(self.tasks.tasks)
        progress = Progress(PreparationPhase.ASSEMBLING, tasks=tasks, tasks_done=tasks)

        def moved(count: int) -> None:
            # `progress` is that of the current phase: assembling, then verifying.
            progress.share += count / size
            self.tell(progress)

        self.tell(progress)
        files = assemble(self.tasks, records.values(), self.store, moved, begin=self._take_claim)
        bad_lines, digest = collect_quarantine(self.store, self.tasks, records)
        record = DatasetRecord(
            self.tasks.digest,
            self.tasks.settings,
            files,
            summarize(self.tasks, records.values()),
            bad_lines,
            digest,
            write_copy(self.store, self.tokenizer_files),
        )
        progress = Progress(PreparationPhase.VERIFYING, tasks=tasks, tasks_done=tasks)
        self.tell(progress)
        file = tokenizer_path(self.store, self.tasks)
        findings = check_conserved(self.tasks, records.values(), files)
        findings += verify(self.store, record, tokenizer_file=file, progress=moved)
        if has_errors(findings):
            # Otherwise the next start would treat the damaged files as finished.
            forget_assembled(self.store, self.tasks)
            damaged = damaged_parts(
                self.tasks,
                records.values(),
                self.store,
                {f.where.file.removesuffix(".bin").removesuffix(".idx") for f in findings},
            )
            raise damaged or FindingsError(findings)
        return record

    def _cut(self, record: DatasetRecord) -> tuple[str, ...]:
        """Cut the data into samples if the engine needs them; return the new directories."""
        if ENGINES[self.plan.spec.engine.name].data_format is not DataFormat.MDS:
            return ()
        cuts = wanted_cuts(self.plan)
        evaluates = self.plan.spec.training.evaluation.batches > 0
        for wanted in cuts:
            require_samples(record, wanted, evaluates=evaluates)
        return tuple(each.directory for each in cuts if cut(self.store, record, each))

    def _blend(self, record: DatasetRecord) -> list[Finding]:
        """Write the blend of this plan if it has changed, and return the findings about it."""
        blend = run_blend(self.store, record, self.plan)
        data = blend.to_bytes()
        try:
            is_there = self.store.read(BLEND_FILE) == data
        except FileNotFoundError:
            is_there = False
        if not is_there:
            with self.store.open_writer(BLEND_FILE) as stream:
                stream.write(data)
        engine = ENGINES[self.plan.spec.engine.name]
        tokenizer = self.plan.model.tokenizer
        said = end_findings(tokenizer, engine.title if engine.needs_tokenizer_class else "")
        return [*blend.findings, *said]


def _differs(store: Store, record: DatasetRecord, tasks: TaskList) -> str:
    """Explain how the existing data differ from the wanted ones."""
    before, now = record.settings, tasks.settings
    reasons = []
    if _without_place(before.tokenizer) != _without_place(now.tokenizer):
        reasons.append(f"a different tokenizer ({before.tokenizer.address})")
    if before.sources != now.sources:
        reasons.append(f"different sources ({', '.join(source.name for source in before.sources)})")
    if before.empty_documents != now.empty_documents:
        reasons.append(f"empty_documents {before.empty_documents}")
    if before.end_token_in_text != now.end_token_in_text:
        reasons.append(f"end_token_in_text {before.end_token_in_text}")
    if not reasons:
        reasons.append(
            "different input files, different versions of these files, or an older version of "
            "Seatrial"
        )
    return (
        f"{store.address} contains a data set that was prepared with {' and '.join(reasons)}. "
        "Set data.location (or --to) to a different directory, or delete this one to prepare it "
        "again."
    )


def _without_place(tokenizer: Tokenizer) -> Tokenizer:
    """Drop the address, unless it is a rank file, whose name determines how text is split."""
    if tokenizer.kind is TokenizerKind.TIKTOKEN:
        return tokenizer
    return replace(tokenizer, address="")


@dataclass(frozen=True, slots=True)
class FrozenList:
    """A task list that is ready to run."""

    address: str
    """Address of `tasks.jsonl`, for the `--list` option of a worker."""
    tasks: int
    """Number of tasks; they are numbered from 0."""
    done: int
    """Number of tasks that already have a record."""
    backend: str
    """The verified tokenizer backend."""


def freeze_list(plan: Plan, to: str | None = None) -> FrozenList:
    """List the inputs of a plan, freeze them into tasks and choose the tokenizer; run no task.

    Args:
        plan: The plan.
        to: Output location, if not the location where the run will look for the data.
    """
    store = store_at(to or plan.data_location)
    frozen, tokenizer = list_tasks(plan)
    if finished_record(store) is not None:
        raise UsageError(
            f"{store.address} already contains a data set, so there are no tasks to run. Verify it "
            "with: seatrial data verify. Or set data.location (or --to) to a different directory."
        )
    tasks = freeze_into(store, frozen, tokenizer)
    done = load_records(store, thaw(frozen))
    return FrozenList(
        f"{store.address}/{tasks_file(tasks.name)}",
        len(tasks.tasks),
        len(done),
        chosen_backend(store, tasks),
    )
