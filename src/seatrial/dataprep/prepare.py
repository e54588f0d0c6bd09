# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The whole preparation: list, freeze, run the tasks, assemble, verify, record, remove the work.

Every step leaves what it has done in the store, and a start begins by looking at what is there. So
starting again after any end, a kill included, goes on where the last start was.
"""

import time
from collections.abc import Sequence
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
from seatrial.dataprep.drivers.local import LocalDriver
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
from seatrial.dataprep.output.dataset import RECORD_FILE, DatasetRecord, summarize
from seatrial.dataprep.output.mds_splits import Cut, cut, require_samples
from seatrial.dataprep.output.quarantine import (
    collect_quarantine,
    refuse_bad_sources,
    refuse_bad_tasks,
)
from seatrial.dataprep.progress import PreparationPhase, Progress, Tell, Tracker
from seatrial.dataprep.tasks.frozen import forget, freeze_into, load_records, remove_orphans
from seatrial.dataprep.tasks.records import PartRecord, tasks_file
from seatrial.dataprep.tasks.task_list import (
    TaskList,
    Tokenizer,
    TokenizerKind,
    bundle,
    freeze,
    thaw,
)
from seatrial.dataprep.tokenizers.identity import describe
from seatrial.dataprep.tokenizers.locations import tokenizer_path
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
"""How often tasks are done again because their parts were damaged before they were assembled."""


@dataclass
class PreparationOutcome:
    """What a preparation came to."""

    record: DatasetRecord
    """The data set."""
    address: str
    """Where the data are."""
    location: str
    """Where the run will look for them."""
    findings: list[Finding] = field(default_factory=list)
    """What the run should know of them: splits that are too short, data read more than once."""
    is_new: bool = True
    """False when the data set was there already and no text was read."""
    cut: tuple[str, ...] = ()
    """Directories below the address into which this start has written samples."""
    tasks: int = 0
    """Tasks that this start has done."""
    seconds: float = 0.0
    """Wall time of this start."""
    cpu_seconds: float = 0.0
    """CPU time of the tasks that this start has done."""
    input_bytes: int = 0
    """Bytes of raw text, as stored, of the tasks that this start has done."""
    again: list[Again] = field(default_factory=list)
    """Tasks that were lost and tried again."""


def prepare(
    plan: Plan, driver: Driver, *, to: str | None = None, tell: Tell | None = None
) -> PreparationOutcome:
    """Prepare the data of a plan; goes on where an earlier start has ended.

    Args:
        plan: The plan, whose sources are prepared.
        driver: Where tasks run.
        to: Where the data go, when not to where the run will look for them.
        tell: Told how far it has come.

    Raises:
        FindingsError: An input, a part or the result is not as it should be.
        OtherDataError: Where the data should go are others already.
    """
    began = time.monotonic()
    tell = tell or (lambda _: None)
    store = store_at(to or plan.data_location)
    tell(Progress(PreparationPhase.LISTING))
    frozen, tokenizer = list_tasks(plan, to)
    work = _Preparation(plan, driver, tell, store, thaw(frozen))
    outcome = work.finished()
    if outcome is None:
        try:
            freeze_into(store, frozen, tokenizer)
            outcome = work.run()
        except (SeatrialError, OSError):
            # A rival that has finished the same data set has removed the work under our hands; one
            # that has finished another has made our work useless.
            outcome = work.finished(begun=True)
            if outcome is None:
                raise
    outcome.seconds = time.monotonic() - began
    return outcome


def driver_of(name: str, workers: int | None) -> Driver:
    """The driver of a name, with as many processes at a time as there are cores if not told."""
    if name not in tuple(DriverName):
        raise UsageError(f"there is no driver {name!r}. Use one of: {', '.join(DriverName)}.")
    count = workers or usable_cores()
    return RayDriver(count) if name == DriverName.RAY else LocalDriver(count)


def wanted_cuts(plan: Plan) -> list[Cut]:
    """What is cut into samples for a plan: each source of raw text by itself."""
    length, shares = plan.model.sequence_length, plan.spec.data.split
    directory = ENGINES[plan.spec.engine.name].sample_directory
    return [Cut(directory(plan, name), name, length, shares) for name, _ in raw_sources(plan)]


def list_tasks(plan: Plan, to: str | None = None) -> tuple[bytes, bytes]:
    """The task list of a plan as it is frozen, and the tokenizer's file.

    Args:
        plan: The plan.
        to: Where the data go, when not to where the run will look for them.
    """
    sources = raw_sources(plan)
    output = to or plan.data_location
    for _, source in sources:
        # Before the tokenizer, which may have to be fetched.
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
    """What lets this start put files into the root."""

    def finished(self, *, begun: bool = False) -> PreparationOutcome | None:
        """The outcome when the data set is there; what a kill has left of the work is removed.

        Once this start has begun, its own work on another list goes too.
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
        """Refuse a data set that is there and is not the one that is wanted."""
        if record is not None and record.list_digest != self.tasks.digest:
            raise OtherDataError(_differs(self.store, record, self.tasks))

    def run(self) -> PreparationOutcome:
        """Do all that is not done yet."""
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
            # A rival was first. If it has prepared the same, that is as good.
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
        """Let nobody else put files into the root from now on."""
        self.claim = take_claim(self.store, self.tasks)
        if self.claim.is_new:
            # Since an earlier start put files there, those of another list may have replaced them.
            forget_assembled(self.store, self.tasks)

    def _refuse_lost_claim(self) -> None:
        """Fail if somebody has removed the claim while files were written under it."""
        held = self.claim is not None and is_held(self.store, self.claim)
        if not held and finished_record(self.store) is None:
            raise OtherDataError(
                f"{self.store.address}/{CLAIM_FILE} was removed or replaced meanwhile, so another "
                "preparation may have written to the same files. Start again when no other is at "
                "work there: tasks that are done are kept."
            )

    def _refuse_nothing(self, records: dict[int, PartRecord]) -> None:
        """Fail when there is nothing that a run could be trained on."""
        if any(file.tokens for record in records.values() for file in record.files):
            return
        inputs = sum(len(task.inputs) for task in self.tasks.tasks)
        lines = sum(record.counts.lines for record in records.values())
        rule = f"{inputs:,} files with {lines:,} lines gave no token at all."
        fix = "Check from, files, format and text_field of the sources: do they find the text?"
        where = Where(field="data.sources")
        raise FindingsError(
            [Finding(InputCode.NOTHING, Severity.ERROR, where, rule, str(lines), fix)]
        )

    def _run_tasks(self, records: dict[int, PartRecord]) -> Sequence[Again]:
        """Run the tasks that have no record, and add their records."""
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
            # What that backend has written is in doubt, all of it.
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
        progress = Progress(PreparationPhase.ASSEMBLING)

        def moved(count: int) -> None:
            # Of the phase that is under way: assembling, then verifying.
            progress.share += count / size
            self.tell(progress)

        self.tell(progress)
        files = assemble(self.tasks, records.values(), self.store, moved, begin=self._take_claim)
        record = DatasetRecord(
            self.tasks.digest,
            self.tasks.settings,
            files,
            summarize(self.tasks, records.values()),
            *collect_quarantine(self.store, self.tasks, records),
        )
        progress = Progress(PreparationPhase.VERIFYING)
        self.tell(progress)
        file = tokenizer_path(self.store, self.tasks)
        findings = check_conserved(self.tasks, records.values(), files)
        findings += verify(self.store, record, tokenizer_file=file, progress=moved)
        if has_errors(findings):
            # Else the next start would take the damaged files for finished.
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
        """Cut what was prepared into samples, for an engine that wants them so; what was new."""
        if ENGINES[self.plan.spec.engine.name].data_format is not DataFormat.MDS:
            return ()
        cuts = wanted_cuts(self.plan)
        evaluates = self.plan.spec.training.evaluation.batches > 0
        for wanted in cuts:
            require_samples(record, wanted, evaluates=evaluates)
        return tuple(each.directory for each in cuts if cut(self.store, record, each))

    def _blend(self, record: DatasetRecord) -> list[Finding]:
        """Write the blend of this plan, unless it is there, and give what is to be known of it."""
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
    """Why the data that are there are not those that are wanted."""
    before, now = record.settings, tasks.settings
    reasons = []
    if _without_place(before.tokenizer) != _without_place(now.tokenizer):
        reasons.append(f"another tokenizer ({before.tokenizer.address})")
    if before.sources != now.sources:
        reasons.append(f"other sources ({', '.join(source.name for source in before.sources)})")
    if before.empty_documents != now.empty_documents:
        reasons.append(f"empty_documents {before.empty_documents}")
    if before.end_token_in_text != now.end_token_in_text:
        reasons.append(f"end_token_in_text {before.end_token_in_text}")
    if not reasons:
        reasons.append("other input files, or other versions of them, or by an older Seatrial")
    return (
        f"{store.address} holds a data set that was prepared with {' and '.join(reasons)}. "
        "Give data.location (or --to) another directory, or remove this one to prepare it anew."
    )


def _without_place(tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer by what it does: only of a file of ranks the name says how text is split."""
    if tokenizer.kind is TokenizerKind.TIKTOKEN:
        return tokenizer
    return replace(tokenizer, address="")


@dataclass(frozen=True, slots=True)
class FrozenList:
    """A task list that is ready to be worked on."""

    address: str
    """The file `tasks.jsonl`, for `--list` of whoever does a task."""
    tasks: int
    """How many tasks it has; their numbers begin with 0."""
    done: int
    """How many of them have their record already."""
    backend: str
    """The tokenizer backend that has proved exact."""


def freeze_list(plan: Plan, to: str | None = None) -> FrozenList:
    """List the inputs of a plan, freeze them into tasks, choose the tokenizer, and do no task.

    Args:
        plan: The plan.
        to: Where the data go, when not to where the run will look for them.
    """
    store = store_at(to or plan.data_location)
    frozen, tokenizer = list_tasks(plan)
    if finished_record(store) is not None:
        raise UsageError(
            f"{store.address} holds a data set already, so there are no tasks to do. Verify it "
            "with: seatrial data verify; or give data.location (or --to) another directory."
        )
    tasks = freeze_into(store, frozen, tokenizer)
    done = load_records(store, thaw(frozen))
    return FrozenList(
        f"{store.address}/{tasks_file(tasks.name)}",
        len(tasks.tasks),
        len(done),
        chosen_backend(store, tasks),
    )
