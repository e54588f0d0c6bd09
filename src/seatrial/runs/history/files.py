# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Histories in files: runs on this host, rehearsals, and logs from elsewhere."""

import itertools
import time
from dataclasses import dataclass, replace
from pathlib import Path

from seatrial.catalog.catalog import Catalog
from seatrial.errors import UsageError
from seatrial.monitoring.event_log import EventKind
from seatrial.monitoring.logs.reading import read_stream
from seatrial.runs.history.history import AttemptHistory, RankLog, RunHistory, attempts_of, planned
from seatrial.runs.history.sources import FileSource, file_lines
from seatrial.runs.history.text_guard import BEGINNING, refuse_no_text
from seatrial.runs.ledger.host import ATTEMPTS, WORK, LocalRun
from seatrial.storage.state_files import DamagedError, open_regular, read_json

EVENT_LOG = "events.jsonl"
"""The name of a run's event log in its directory."""
EVENT_LOGS = ".events.jsonl"
"""The suffix of a rehearsal's event logs."""
TEXT_LOGS = (".log", ".out", ".err", ".txt", ".jsonl")
"""Suffixes of files that may contain the output of an engine."""
STALE_SECONDS = 120.0
"""A log that has reported its end and has not grown for this long is complete."""
MOST_FILES = 100_000
_FIRST_EVENTS = 200
_CHAIN = ("killed", "resumed")
"""The training runs of a rehearsal that count as attempts of one run: the kill-and-resume drill."""
_STRAIGHT = "straight"
"""The uninterrupted training run of a rehearsal, shown until there is another one."""


def local_history(run: LocalRun, catalog: Catalog) -> RunHistory:
    """Return the history of a run on this host."""
    records = run.read().attempts
    newest = records[-1].number
    source = FileSource(_event_log(run, newest))
    spec = run.file(newest, "spec")
    known = planned(spec, run.directory.parents[2], catalog) if spec.is_file() else None

    def look() -> tuple[AttemptHistory, ...]:
        return attempts_of(run.read().attempts, source, lambda number: _printed(run, number))

    def is_live() -> bool:
        last = run.read().newest
        return last is not None and run.supervisor(last.number) != 0

    return RunHistory(
        run.name,
        f"on this host, {run.directory}",
        look,
        known.plan if known else None,
        known.forecast if known else None,
        is_live,
    )


def _event_log(run: LocalRun, number: int) -> Path:
    """Return the event log path that the run's processes received."""
    try:
        task = read_json(run.file(number, "task"))
        return Path(task["environment"]["SEATRIAL_EVENTS"])
    except (OSError, DamagedError, KeyError, TypeError):
        return run.directory / EVENT_LOG


def _printed(run: LocalRun, number: int) -> tuple[RankLog, ...]:
    return (_log(run.file(number, "log")),)


def _log(path: Path) -> RankLog:
    return RankLog(str(path), lambda: file_lines(path))


def is_to_come(path: Path) -> bool:
    """True if the path can be the event log of a run that has not written it yet.

    The run also creates the directory.
    """
    return path.name == EVENT_LOG and path.absolute().parents[1].is_dir()


def file_history(path: Path) -> RunHistory:
    """Return the history in one file: an event log, which may not exist yet, or engine output."""
    try:
        with open_regular(path) as stream:
            refuse_no_text(str(path), stream.read(BEGINNING))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from None
    attempt = AttemptHistory(1, FileSource(path), logs=_beside(path), name=path.name)

    def is_live() -> bool:
        return not path.exists() or _grows([path])

    return RunHistory(_stem(path), str(path), lambda: (attempt,), is_live=is_live, only_words=True)


def _beside(events: Path) -> tuple[RankLog, ...]:
    """Return the text logs that belong to an event log. A text log is its own log."""
    if not events.name.endswith(".jsonl"):
        return (_log(events),)
    printed = events.with_name(f"{_stem(events)}.log")
    return (_log(printed),) if printed.is_file() else ()


def _stem(path: Path) -> str:
    """Return the name of a file without its suffixes."""
    if path.name == EVENT_LOG:
        return path.resolve().parent.name
    if path.name.endswith(EVENT_LOGS):
        return path.name.removesuffix(EVENT_LOGS)
    return path.stem


def _grows(paths: list[Path]) -> bool:
    """True if one of the files was written recently."""
    newest = max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)
    return time.time() - newest < STALE_SECONDS


def directory_history(directory: Path, catalog: Catalog) -> RunHistory:
    """Return the history in a directory: a run, a rehearsal, an event log, or arbitrary logs."""
    kept = LocalRun(directory / ATTEMPTS)
    if kept.numbers():
        return local_history(kept, catalog)
    rehearsed = newest_rehearsal(directory)
    if rehearsed is not None:
        return rehearsed
    if any(directory.glob(f"*{EVENT_LOGS}")):
        return _trainings(directory)
    if (directory / EVENT_LOG).is_file():
        found = file_history(directory / EVENT_LOG)
        (attempt,) = found.attempts
        logs = tuple(_log(path) for path in _texts(directory) if path.name != EVENT_LOG)
        whole = AttemptHistory(1, attempt.source, logs=logs, name=EVENT_LOG)
        return replace(found, place=str(directory), look=lambda: (whole,))
    runs = sorted(path.name for path in (directory / WORK).glob("*") if path.is_dir())
    if len(runs) == 1:
        return directory_history(directory / WORK / runs[0], catalog)
    if runs:
        raise UsageError(
            f"{directory} contains several runs: {', '.join(runs[:20])}. "
            f"Pass one of them, such as {directory / WORK / runs[0]}."
        )
    texts = _texts(directory)
    if texts:
        return _texts_history(directory, texts)
    raise UsageError(
        f"{directory} contains no event log and no engine log. Pass the directory of a run "
        f"(with {EVENT_LOG}) or of a rehearsal, or a directory with files that end in "
        f"{', '.join(TEXT_LOGS)}."
    )


def newest_rehearsal(directory: Path) -> RunHistory | None:
    """Return the newest rehearsal of a run, or None."""
    if directory.name.startswith("rehearsal-"):
        found = [directory]
    else:
        found = sorted(path for path in directory.glob("rehearsal-*") if path.is_dir())
    twins = [twin for path in found[-1:] for twin in sorted(path.glob("twin-*")) if _logs_in(twin)]
    if not twins:
        return None
    newest = max(twins, key=lambda twin: max(path.stat().st_mtime for path in _logs_in(twin)))
    return _trainings(newest, over=found[-1].with_suffix(".json"), name=found[-1].parent.name)


def _logs_in(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{EVENT_LOGS}"))


def _trainings(directory: Path, over: Path | None = None, name: str = "") -> RunHistory:
    """Return the training runs in a directory. For a rehearsal: the killed and the resumed one."""

    def look() -> tuple[AttemptHistory, ...]:
        chain = [directory / f"{one}{EVENT_LOGS}" for one in _CHAIN]
        first = [directory / f"{_STRAIGHT}{EVENT_LOGS}", *_logs_in(directory)]
        files = [path for path in chain if path.is_file()]
        files = files or [path for path in first if path.is_file()][:1]
        return tuple(
            AttemptHistory(
                number,
                FileSource(path),
                logs=_beside(path),
                name=path.name.removesuffix(EVENT_LOGS),
            )
            for number, path in enumerate(files, start=1)
        )

    def is_live() -> bool:
        return not (over is not None and over.exists()) and _grows(_logs_in(directory))

    words = " and ".join(attempt.name for attempt in look())
    label = name or directory.resolve().name
    return RunHistory(label, f"{directory}, {words}", look, is_live=is_live)


def _texts(directory: Path) -> list[Path]:
    """Return the files of a directory that may be logs."""
    walked = itertools.islice(directory.rglob("*"), MOST_FILES)
    return sorted(path for path in walked if path.suffix in TEXT_LOGS and path.is_file())


@dataclass(frozen=True, slots=True)
class _Text:
    """A file with training events."""

    path: Path
    begins: float
    """The time of its first event."""
    starts: bool
    """True if it contains the start of the training, which Megatron-LM prints on the first rank."""
    steps: bool
    """True if it contains steps, which Megatron-LM prints on the last rank."""


def _texts_history(directory: Path, texts: list[Path]) -> RunHistory:
    """Return a history of arbitrary logs. Each file with training events is an attempt."""
    telling = [text for text in map(_telling, texts) if text is not None]
    paths = [text.path for text in telling]
    # The other files may belong to any attempt: ranks without training events, the kernel log.
    others = [path for path in texts if path not in paths]
    name = directory.resolve().name
    if not telling:
        logs = tuple(map(_log, texts))
        silent = AttemptHistory(1, FileSource(texts[0]), logs=logs, name=texts[0].name)
        return RunHistory(name, str(directory), lambda: (silent,))
    attempts = tuple(
        AttemptHistory(
            number,
            FileSource(files[-1]),
            logs=tuple(map(_log, [*files, *others])),
            name=files[-1].name,
        )
        for number, files in enumerate(_attempts(telling), start=1)
    )
    return RunHistory(
        name, str(directory), lambda: attempts, is_live=lambda: _grows(paths), only_words=True
    )


def _attempts(telling: list[_Text]) -> list[list[Path]]:
    """Group the files by attempt, with the file that contains its steps last.

    With several nodes, the first node prints the start and the last one prints the steps.
    """
    found: list[list[Path]] = []
    waiting = False
    for text in sorted(telling, key=lambda text: (text.begins, text.path)):
        if waiting and text.steps and not text.starts:
            found[-1].append(text.path)
        else:
            found.append([text.path])
        waiting = not text.steps
    return found


def _telling(path: Path) -> _Text | None:
    """Return the file if its first events are training events, otherwise None."""
    try:
        with open_regular(path) as stream:
            first = list(itertools.islice(read_stream(stream), _FIRST_EVENTS))
    except OSError:
        return None
    kinds = {event.kind for event in first}
    starts, steps = EventKind.START in kinds, EventKind.STEP in kinds
    return _Text(path, first[0].time, starts, steps) if starts or steps else None
