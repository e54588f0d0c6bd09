# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The output of `seatrial checkpoints`."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from seatrial.checkpoints.by_engine import format_of
from seatrial.checkpoints.inventory import Checkpoint, State
from seatrial.checkpoints.retention import RetentionDecision
from seatrial.checkpoints.setup import Setup
from seatrial.checkpoints.verdict import Resume, ResumeVerdict
from seatrial.cli.data_progress import QUIET_SECONDS, REDRAW_SECONDS, format_rate, format_seconds
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.findings import Finding, has_errors
from seatrial.reports.tables import Column, name, number, say_table, text
from seatrial.reports.terminal import counted, say, say_error, say_following, say_text
from seatrial.sdk.checkpoints import Inventory, ReportBytes, VerifiedCheckpoint
from seatrial.units import format_bytes

COLUMNS: tuple[Column, ...] = (
    number("step"),
    text("saved"),
    number("size"),
    number("files", rank=4),
    text("verified"),
    text("layout"),
    text("resumes to", rank=3),
    number("loss", rank=1),
    number("val loss", rank=2),
    text("note"),
)


def since(moment: str) -> str:
    """Format a time as an age: `12 min ago`."""
    then = datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return f"{format_seconds(max(0.0, (datetime.now(UTC) - then).total_seconds()))} ago"


def resumes_to(setup: Setup) -> str:
    """Describe the layouts that can load a checkpoint."""
    if format_of(setup).is_reshardable:
        # ep and tp decide if the experts have a separate optimizer.
        return "any pp, dp" if setup.model.experts else "any layout"
    return f"tp {setup.layout.tp_size}, pp {setup.layout.pp_size}, any dp"


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """A checkpoint in the list. The fields are the JSON of a checkpoint."""

    step: int
    directory: str
    state: State
    verified: bool
    verified_at: str | None
    pinned: str | None
    findings: tuple[Finding, ...]
    saved_at: str | None
    bytes: int | None
    files: int | None
    consumed_samples: int | None
    training_loss: float | None
    validation_loss: float | None
    incarnation: int | None
    layout: str | None
    resumes_to: str | None
    data_order: str | None
    verified_files: int | None
    """Files that the last verification read; fewer than `files` if it was interrupted."""
    verification_errors: int | None


def line_of(one: Checkpoint, losses: Mapping[int, float]) -> CheckpointLine:
    """Describe a checkpoint. `losses` are the training losses by step."""
    record, seen = one.record, one.verification
    return CheckpointLine(
        one.step,
        one.directory,
        one.state,
        one.verified,
        seen.at if seen else None,
        one.pinned,
        one.findings,
        record.saved_at if record else None,
        record.shards.size if record else None,
        record.shards.files if record else None,
        record.consumed_samples if record else None,
        losses.get(one.step),
        record.validation_loss if record else None,
        record.incarnation if record else None,
        str(record.setup.layout) if record else None,
        resumes_to(record.setup) if record else None,
        record.setup.data_order.fingerprint if record else None,
        seen.files if seen else None,
        seen.wrong if seen else None,
    )


@dataclass(frozen=True, slots=True)
class CheckpointList:
    """The checkpoints of a run, newest first. The fields are the JSON of the list."""

    checkpoints: tuple[CheckpointLine, ...]
    set_aside: tuple[str, ...]
    """The directories of checkpoints whose step was saved again."""


def list_of(found: Inventory) -> CheckpointList:
    """Describe the checkpoints at one location."""
    lines = tuple(line_of(one, found.losses) for one in found.checkpoints)
    return CheckpointList(lines, found.set_aside)


def verified(line: CheckpointLine) -> str:
    """Describe the state of a checkpoint's verification."""
    if line.verified_at is None or line.files is None:
        return "no"
    if line.verification_errors:
        return f"damaged: {counted(line.verification_errors, 'finding')}"
    if (line.verified_files or 0) < line.files:
        return f"{(line.verified_files or 0) / line.files:.0%}, interrupted"
    return since(line.verified_at)


@dataclass(frozen=True, slots=True)
class VerifiedLine:
    """The result of verifying a checkpoint. The fields are its JSON."""

    step: int
    state: State
    """The state before the verification."""
    bytes: int | None
    """None if the record is missing or damaged."""
    skipped: bool
    """True if it was already verified and its files were not read again."""
    verified_at: str | None
    """The time of the previous verification."""
    findings: tuple[Finding, ...]

    @property
    def text(self) -> str:
        """The result in one line."""
        if self.bytes is None:
            result = _without_record(self.state, self.findings, "incomplete", "damaged")
            return f"step {self.step:,}  {result}"
        result = "damaged" if has_errors(self.findings) else "ok"
        if self.skipped and not self.findings:
            ago = since(self.verified_at or "")
            result = f"verified {ago}, skipped; use --again to verify it again"
        return f"step {self.step:,}  {format_bytes(self.bytes)}  {result}"


def _without_record(state: State, findings: Sequence[Finding], torn: str, damaged: str) -> str:
    """Describe a checkpoint whose record is missing or damaged."""
    if _is_foreign(findings):
        return "not saved by Seatrial"
    return torn if state is State.TORN else damaged


def _is_foreign(findings: Sequence[Finding]) -> bool:
    return any(finding.code == CheckpointCode.UNRECORDED for finding in findings)


def verified_line(found: VerifiedCheckpoint) -> VerifiedLine:
    """Describe the result of a verification."""
    one = found.checkpoint
    return VerifiedLine(
        one.step,
        one.state,
        one.record.shards.size if one.record else None,
        found.is_skipped,
        one.verification.at if one.verification else None,
        found.findings,
    )


def rows(there: Iterable[CheckpointLine]) -> Iterator[tuple[str, ...]]:
    """Yield one row per checkpoint."""
    for one in there:
        if one.saved_at is None:
            note = _without_record(
                one.state, one.findings, "incomplete: no record", "the record is damaged"
            )
            yield (f"{one.step:,}", "", "", "", "no", "", "-", "", "", note)
            continue
        yield (
            f"{one.step:,}",
            since(one.saved_at),
            format_bytes(one.bytes or 0),
            f"{one.files or 0:,}",
            verified(one),
            one.layout or "",
            one.resumes_to or "" if one.state is State.COMMITTED else "-",
            _loss(one.training_loss),
            _loss(one.validation_loss),
            "" if one.pinned is None else f"pinned: {one.pinned}".rstrip(": "),
        )


def _loss(loss: float | None) -> str:
    return "" if loss is None else f"{loss:.4g}"


def say_list(address: str, found: CheckpointList, options: str = "") -> None:
    """Print the checkpoints of a run, without columns that would be empty.

    `options` are those that the next command needs.
    """
    there = found.checkpoints
    table = list(rows(there))
    filled = [i for i, column in enumerate(COLUMNS) if any(r[i] for r in table) or not column.rank]
    say_table([COLUMNS[i] for i in filled], [[row[i] for i in filled] for row in table])
    for directory in found.set_aside:
        say_text(
            f"{directory}: superseded by a later save of the same step; prune deletes it.",
            rest="  ",
        )
    say()
    say_following(_following(address, there, options))


def _following(address: str, there: Sequence[CheckpointLine], options: str) -> str:
    """Return the next command: one that works with what is there."""
    committed = [one for one in there if one.state is State.COMMITTED]
    if not all(one.verified for one in committed):
        return f"seatrial checkpoints verify {address}{options}"
    if committed:
        return f"seatrial checkpoints export {address} --to DIR{options}"
    foreign = all(_is_foreign(one.findings) for one in there)
    code = CheckpointCode.UNRECORDED if foreign else CheckpointCode.NONE_GOOD
    return f"seatrial explain {code}"


def say_decisions(decisions: Sequence[RetentionDecision], *, certain: bool) -> None:
    """Print what prune deletes, or would delete."""
    words = ("delete" if certain else "would delete", "keep")
    columns = (number("step"), text("action"), text("reason"), number("size"))
    table = [
        (
            f"{one.step:,}" if one.step >= 0 else one.directory,
            words[one.kept],
            one.why,
            format_bytes(one.size) if one.size else "",
        )
        for one in decisions
    ]
    say_table((name(columns[0].header), *columns[1:]), table)


def say_pruned(decisions: Sequence[RetentionDecision], *, done: bool, following: str = "") -> None:
    """Print how much was or would be deleted, and the next step."""
    gone = [one for one in decisions if not one.kept]
    size = format_bytes(sum(one.size for one in gone))
    say(f"\n{counted(len(gone), 'checkpoint')} {'deleted' if done else 'to delete'}, {size}.")
    if gone and not done:
        say_following("rerun this command with --yes")
    elif following:
        say_following(following)


_MEANINGS = {
    Resume.SAFE: "The run continues exactly as if it had not been interrupted.",
    Resume.RESHARDED: "The state is resharded for the new layout; losses agree up to rounding.",
    Resume.DATA_CHANGES: "The checkpoint loads, but the run then reads different samples.",
    Resume.MODEL_CHANGES: "The checkpoint loads, but the model then computes different results.",
    Resume.IMPOSSIBLE: "The engine cannot load this checkpoint into the run.",
}


def say_verdict(step: int, answer: ResumeVerdict) -> None:
    """Print whether a run can resume, then the reasons."""
    say(f"step {step:,}: {answer.outcome}. {_MEANINGS[answer.outcome]}")
    for reason in answer.reasons:
        change = f"{reason.saved} → {reason.wanted}"
        say_text(f"{reason.what}: {change}: {reason.meaning}", f"  {reason.outcome:<20}  ")


def is_quiet(*, as_json: bool) -> bool:
    """True if no progress is shown: with --json, only a log receives it, not a terminal."""
    return as_json and sys.stderr.isatty()


@contextmanager
def shown(what: str, total: int, *, quiet: bool) -> Iterator[ReportBytes]:
    """Show progress in bytes, unless quiet. Yield the progress callback."""
    if quiet:
        yield lambda files, size: None
    elif sys.stderr.isatty():
        with _bar(what, total) as tell:
            yield tell
    else:
        yield _lines(what, total)


def _rest(files: int, size: int, total: int, seconds: float) -> str:
    """Describe files, rate and time left."""
    rate = size / max(seconds, 1e-6)
    words = [f"{files:,} files"] if files else []
    words.append(format_rate(rate))
    if rate > 0 and size < total:
        words.append(f"{format_seconds((total - size) / rate)} left")
    return ", ".join(words)


def _lines(what: str, total: int) -> ReportBytes:
    began = printed = time.monotonic()

    def tell(files: int, size: int) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= QUIET_SECONDS:
            printed = now
            share = size / total if total else 1.0
            say_error(f"  {what} {share:.0%}, {_rest(files, size, total, now - began)}")

    return tell


@contextmanager
def _bar(what: str, total: int) -> Iterator[ReportBytes]:
    # Imported here because it takes 80 ms.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn  # noqa: PLC0415

    columns = (
        TextColumn("  {task.description}"),
        BarColumn(20),
        TaskProgressColumn(),
        TextColumn("{task.fields[rest]}"),
    )
    with Progress(
        *columns, console=Console(stderr=True), transient=True, auto_refresh=False
    ) as bars:
        task = bars.add_task(what, total=total, rest="")
        began = drawn = time.monotonic()

        def tell(files: int, size: int) -> None:
            nonlocal drawn
            now = time.monotonic()
            if now - drawn >= REDRAW_SECONDS:
                drawn = now
                rest = _rest(files, size, total, now - began)
                bars.update(task, completed=size, rest=rest)
                bars.refresh()

        yield tell
