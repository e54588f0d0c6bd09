# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The output of `seatrial data`: tokens, lengths, bad lines, cost and location of a dataset."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from seatrial.cli.data_progress import format_core_time, format_rate, format_seconds
from seatrial.dataprep.excerpts import Piece
from seatrial.findings import has_errors
from seatrial.reports import tables
from seatrial.reports.terminal import counted, say, say_following, say_text
from seatrial.units import format_bytes, format_count

if TYPE_CHECKING:
    from seatrial.dataprep.estimate import Estimate, Range
    from seatrial.dataprep.output.dataset import DatasetRecord
    from seatrial.dataprep.prepare import FrozenList, PreparationOutcome


@dataclass(frozen=True, slots=True)
class TokenizerSummary:
    """The tokenizer of a dataset."""

    address: str
    sha256: str
    vocab_size: int


@dataclass(frozen=True, slots=True)
class FileSummary:
    """A pair of `.bin` and `.idx`."""

    name: str
    source: str
    domain: str
    tokens: int
    documents: int
    empty: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SourceTotals:
    """A source of a dataset and the lines that were read from it."""

    name: str
    inputs: int
    tasks: int
    lines: int
    documents: int
    dropped: int
    bad: dict[str, int]
    text_bytes: int
    input_bytes: int
    audited: int
    lengths: tuple[int, ...]
    backends: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """A prepared dataset. The fields are its JSON."""

    address: str
    list_digest: str
    tokens: int
    documents: int
    tokenizer: TokenizerSummary
    files: tuple[FileSummary, ...]
    sources: tuple[SourceTotals, ...]
    quarantine_file: str | None


_BLOCKS = "▁▂▃▄▅▆▇█"


def histogram(lengths: Sequence[int]) -> str:
    """Draw a one-line histogram; entry i counts the documents of 2^(i-1) to 2^i - 1 tokens."""
    filled = [i for i, number in enumerate(lengths) if number and i]
    empty = lengths[0] if lengths else 0
    notes = [f"{counted(empty, 'document')} without text"] if empty else []
    if not filled:
        return ", ".join(notes) or "no documents"
    first, last = filled[0], filled[-1]
    most = max(lengths[1:])
    # Every bin with documents has a bar, so that a single long document is visible.
    bars = "".join(
        _BLOCKS[(number * (len(_BLOCKS) - 1) + most - 1) // most] if number else " "
        for number in lengths[first : last + 1]
    )
    half = (sum(lengths) + 1) // 2
    middle = next(i for i, seen in enumerate(accumulate(lengths)) if seen >= half)
    notes.insert(0, f"half of the documents have fewer than {2**middle:,}")
    return f"{2 ** (first - 1):,} ▕{bars}▏ {2**last:,} tokens; {', '.join(notes)}"


def rows(data: DatasetSummary) -> list[tuple[str, str, str, str]]:
    """Return source, tokens, documents and files of each source and its domains."""
    found = []
    for source in data.sources:
        domains = dict.fromkeys(f.domain for f in data.files if f.source == source.name)
        split = any(domains)
        if split or not domains:
            found.append(_row(data, source.name, source.name, None))
        for domain in domains:
            label = f"  {domain or '(none)'}" if split else source.name
            found.append(_row(data, label, source.name, domain))
    return found


def _row(
    data: DatasetSummary, label: str, source: str, domain: str | None
) -> tuple[str, str, str, str]:
    """Return a row of the table. Without a domain, it covers the whole source."""
    files = [file for file in data.files if file.source == source and domain in (None, file.domain)]
    return (
        label,
        format_count(sum(file.tokens for file in files)),
        f"{sum(file.documents for file in files):,}",
        f"{len(files):,}",
    )


def say_summary(name: str, data: DatasetSummary) -> None:
    """Print the content of a dataset."""
    size = sum(file.bytes for file in data.files)
    say_text(
        f"{name}   {format_count(data.tokens)} tokens, {counted(data.documents, 'document')}, "
        f"{format_bytes(size)} in {counted(len(data.files), '.bin/.idx pair')}",
        rest="  ",
    )
    columns = (
        tables.name("source"),
        tables.number("tokens"),
        tables.number("documents"),
        tables.number("files", rank=1),
    )
    tables.say_table(columns, rows(data))
    lengths = [source.lengths for source in data.sources]
    total = [sum(column) for column in _columns(lengths)]
    say_text(histogram(total), "lengths   ")
    say_text(_bad(data), "bad       ")


def say_pieces(pieces: Sequence[Piece]) -> None:
    """Print the meaning of bytes in a file."""
    for piece in pieces:
        say_text(piece.meaning, f"{piece.start:>12,}  {piece.shown:<24}  ")


def _columns(lengths: Sequence[Sequence[int]]) -> list[list[int]]:
    """Group the counts of all sources by histogram bin."""
    longest = max(map(len, lengths), default=0)
    return [[each[i] for each in lengths if i < len(each)] for i in range(longest)]


def _bad(data: DatasetSummary) -> str:
    """Describe the unusable lines by reason, and the file that lists them."""
    reasons: dict[str, int] = {}
    for source in data.sources:
        for reason, number in source.bad.items():
            reasons[reason] = reasons.get(reason, 0) + number
    lines = sum(source.lines for source in data.sources)
    dropped = sum(source.dropped for source in data.sources)
    left_out = f"; {counted(dropped, 'empty document')} skipped" if dropped else ""
    if not reasons:
        return f"none of {counted(lines, 'line')}{left_out}"
    words = ", ".join(f"{number:,} {reason}" for reason, number in reasons.items())
    place = f": {data.address}/{data.quarantine_file}" if data.quarantine_file else ""
    return f"{sum(reasons.values()):,} of {counted(lines, 'line')} ({words}){place}{left_out}"


def outcome_as_json(outcome: "PreparationOutcome", cache: str) -> dict[str, Any]:
    """Return the result of a preparation for `--json`."""
    return asdict(summary_of(outcome.record, outcome.address)) | {
        "index_cache": cache,
        "is_new": outcome.is_new,
        "tasks": outcome.tasks,
        "seconds": round(outcome.seconds, 3),
        "cpu_seconds": round(outcome.cpu_seconds, 3),
        "findings": [finding.to_dict() for finding in outcome.findings],
    }


def say_outcome(name: str, outcome: "PreparationOutcome", cache: str, spec: str) -> None:
    """Print the result of a preparation."""
    if not outcome.is_new:
        done = f"; wrote samples to {', '.join(outcome.cut)}" if outcome.cut else ""
        say_text(f"{name} is already prepared{done}.", rest="  ")
    say_summary(name, summary_of(outcome.record, outcome.address))
    if outcome.is_new:
        say_text(_work(outcome), "work      ")
    place = outcome.address
    if outcome.location != outcome.address:
        place += f"; copy it to {outcome.location}, where the run expects it"
    say_text(f"{place} (blend.txt, dataset.json)", "data      ")
    say_text(cache, "cache     ")
    if has_errors(outcome.findings):
        say_text("fix the errors above and rerun; the prepared data is complete", "next      ")
    else:
        say_following(f"seatrial rehearse {spec}", "next      ")


def say_frozen(frozen: "FrozenList", spec: str, overrides: Sequence[str], to: str | None) -> None:
    """Print a task list, how to run one of its tasks, and the next step."""
    say(f"list      {frozen.address}")
    say(f"tasks     {frozen.tasks:,} (0 to {frozen.tasks - 1:,}), {frozen.done:,} done")
    say(f"backend   {frozen.backend}")
    say(f"task N    python -m seatrial.dataprep.drivers.single --list {frozen.address} --task N")
    words = [spec, *overrides, *(("--to", to) if to else ())]
    say(f"next      seatrial data prepare {shlex.join(words)}")


def _work(outcome: "PreparationOutcome") -> str:
    """Describe the work of this call and its cost."""
    if not outcome.tasks:
        return (
            f"all tasks were already done; assembled and verified in "
            f"{format_seconds(outcome.seconds)}"
        )
    rate = outcome.input_bytes / outcome.seconds if outcome.seconds else 0.0
    backends = sorted({b for source in outcome.record.sources for b in source.backends})
    audited = sum(source.counts.audited for source in outcome.record.sources)
    words = [
        f"{_tasks(outcome)} in {format_seconds(outcome.seconds)}",
        f"{format_rate(rate)} of input",
        format_core_time(outcome.cpu_seconds),
        f"{', '.join(backends)} ({counted(audited, 'document')} compared with the reference)",
    ]
    if outcome.again:
        words.append(f"{counted(len(outcome.again), 'task')} retried")
    return ", ".join(words)


def _tasks(outcome: "PreparationOutcome") -> str:
    """Describe the tasks of this call, and the total if an earlier call ran the others."""
    total = sum(source.tasks for source in outcome.record.sources)
    own = counted(outcome.tasks, "task")
    return own if outcome.tasks >= total else f"{own} (of {total:,}; the others were done earlier)"


def summary_of(record: "DatasetRecord", address: str) -> DatasetSummary:
    """Summarise the record of a dataset."""
    tokenizer = record.settings.tokenizer
    return DatasetSummary(
        address,
        record.list_digest,
        record.tokens,
        record.documents,
        TokenizerSummary(tokenizer.address, tokenizer.sha256, tokenizer.vocab_size),
        tuple(
            FileSummary(
                file.name,
                file.source,
                file.domain,
                file.tokens,
                file.documents,
                file.empty,
                file.tokens_size + file.header.size,
            )
            for file in record.files
        ),
        tuple(
            SourceTotals(
                source.name,
                source.inputs,
                source.tasks,
                source.counts.lines,
                source.counts.documents,
                source.counts.dropped,
                source.counts.bad,
                source.counts.text_bytes,
                source.counts.input_bytes,
                source.counts.audited,
                tuple(source.lengths),
                tuple(source.backends),
            )
            for source in record.sources
        ),
        record.quarantine_file,
    )


def spread(found: "Range") -> str:
    """Format the spread relative to the midpoint: `± 3 %`, or both bounds if it is large."""
    if found.middle <= 0 or found.high == found.low:
        return ""
    above = (found.high - found.middle) / found.middle
    below = (found.middle - found.low) / found.middle
    if max(above, below) >= 0.495:
        return f" (−{below:.0%}, +{above:.0%})".replace("%", " %")
    return f" ± {max(1, round(100 * max(above, below)))} %"


MANY_EPOCHS = 4
"""Up to this many epochs, repeated data train about as well as new (Muennighoff et al., 2023)."""


def epochs_line(found: "Estimate") -> str:
    """Describe how often the run reads the corpus. Empty if the number of epochs is unknown."""
    known = [(source.name, source.epochs) for source in found.sources if source.epochs]
    if not known:
        return ""
    wanted = format_count(found.wanted_tokens)
    if len({epochs.middle for _, epochs in known}) == 1:
        held = format_count(round(found.training_share * found.tokens.middle))
        line = (
            f"{_epochs(known[0][1])}: the run reads {wanted} tokens, and the training split has"
            f" {held}"
        )
    else:
        each = ", ".join(f"{name} {_epochs(epochs)}" for name, epochs in known)
        line = f"{each}: the run reads {wanted} tokens, split by weight"
    if any(epochs.middle > MANY_EPOCHS for _, epochs in known):
        line += f". Above {MANY_EPOCHS} epochs, repeated data train much worse than new"
    return line


def _epochs(found: "Range") -> str:
    middle = found.middle
    shown = f"{middle:,.0f}" if middle >= 10 else f"{middle:.1f}" if middle >= 0.1 else "below 0.1"
    return shown + spread(found)


def say_estimate(found: "Estimate", spec: str) -> None:
    """Print the estimated size, duration and cost of a preparation."""
    columns = (
        tables.name("source"),
        tables.number("files"),
        tables.number("stored"),
        tables.number("sampled", rank=2),
        tables.number("tokens"),
        tables.number("documents", rank=1),
        tables.number("work"),
    )
    rows = [
        (
            source.name,
            f"{source.files:,}",
            format_bytes(source.input_bytes),
            format_bytes(source.sampled_bytes),
            format_count(round(source.tokens.middle)) + spread(source.tokens),
            format_count(round(source.documents.middle)),
            format_core_time(source.core_seconds.middle) + spread(source.core_seconds),
        )
        for source in found.sources
    ]
    tables.say_table(columns, rows)
    say()
    say_text(format_count(round(found.tokens.middle)) + spread(found.tokens), "tokens    ")
    if epochs := epochs_line(found):
        say_text(epochs, "epochs    ")
    disk, peak = round(found.disk_bytes.middle), round(found.peak_bytes.middle)
    say_text(f"{format_bytes(disk)}, {format_bytes(peak)} during the preparation", "disk      ")
    work = format_core_time(found.core_seconds.middle) + spread(found.core_seconds)
    wall = format_seconds(found.wall_seconds.middle)
    say_text(
        f"{work}: {wall} on {counted(found.cores, 'core')}, if reading and writing keep up "
        f"({found.backend})",
        "time      ",
    )
    for source in found.sources:
        if source.largest_file > found.task_bytes:
            say_text(
                f"{source.name} has a file of {format_bytes(source.largest_file)}, and files"
                f" are never split: one core needs {format_seconds(source.largest_seconds)} for"
                " this file, regardless of the number of cores, and starts it over after a failure."
                " Split the file first.",
                "large     ",
            )
    bad = [source for source in found.sources if source.bad_share]
    for source in bad:
        say_text(f"{source.bad_share:.2g} of the sampled lines in {source.name}", "bad       ")
    say(f"next      seatrial data prepare {spec}")
