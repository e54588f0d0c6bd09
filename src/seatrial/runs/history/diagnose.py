# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Collect the evidence of a run's failure."""

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from seatrial.cluster.transport import Json
from seatrial.errors import SeatrialError, UsageError
from seatrial.monitoring.anomalies.detector import AnomalyPhase
from seatrial.monitoring.anomalies.monitor import AnomalyMonitor
from seatrial.monitoring.diagnosis.evidence import (
    Evidence,
    EvidenceFile,
    EvidenceKind,
    PlannedValues,
    kind_of,
)
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.rendering.environment import DUMP
from seatrial.runs.history.history import AttemptHistory, RankLog, RunHistory
from seatrial.runs.history.sources import FileSource
from seatrial.runs.ledger.ledger import AttemptOutcome
from seatrial.runs.status.container_reasons import container_statuses, end_lines, pod_name
from seatrial.runs.status.observe import Observed
from seatrial.storage.state_files import DamagedError, read_state

DUMPS = ("*nccl_trace*", "*flight*recorder*", "*fr_trace*", "*trace_rank*")
"""File name patterns of torch's flight recorder dumps."""
LARGEST_DUMP = 64 * 2**20
"""The maximum size of a dump in bytes. Larger files are skipped."""
_STATES = ("state", "lastState")


def evidence_of(
    history: RunHistory,
    number: int | None = None,
    *,
    observed: Observed | None = None,
    directory: Path | None = None,
    names_from: Path | None = None,
) -> tuple[AttemptHistory, Evidence]:
    """Return the attempt to diagnose and all evidence about it.

    `directory` is the requested directory, if any: dumps are searched below it, and file names are
    relative to it or to `names_from`. Dumps next to a single file may belong to another run.
    """
    attempt = _chosen(history, number)
    files = [_log(log, names_from or directory) for log in attempt.logs]
    files.append(_told("events", EvidenceKind.LOG, lambda: event_lines(attempt.events())))
    if attempt.reason and attempt.outcome is not AttemptOutcome.SUCCEEDED:
        words = f"attempt {attempt.number} {attempt.outcome or 'ended'}: {attempt.reason}"
        files.append(_told("ledger", EvidenceKind.POD_STATUS, lambda: [words]))
    if observed is not None:
        files.append(_told("pods", EvidenceKind.POD_STATUS, lambda: pod_lines(observed.pods)))
        files.append(
            _told("pod events", EvidenceKind.POD_EVENTS, lambda: cluster_lines(observed.events))
        )
    return attempt, Evidence(tuple(files), planned_of(history), tuple(_dumps(attempt, directory)))


def _chosen(history: RunHistory, number: int | None) -> AttemptHistory:
    """Return the attempt with this number, or the newest one with logs."""
    attempts = history.attempts
    if number is None:
        telling = [attempt for attempt in attempts if attempt.logs]
        return (telling or list(attempts))[-1]
    found = next((attempt for attempt in attempts if attempt.number == number), None)
    if found is None:
        raise UsageError(
            f"--attempt {number}: no such attempt. Attempts of {history.name}: {len(attempts)}."
        )
    return found


def planned_of(history: RunHistory) -> PlannedValues | None:
    """Return the plan's predictions for the run."""
    if history.plan is None:
        return None
    fabric = history.plan.machines.fabric
    if history.forecast is None:
        return PlannedValues(fabric=fabric)
    memory = history.forecast.memory
    return PlannedValues(memory.fullest.total, memory.error, fabric)


def _told(name: str, kind: EvidenceKind, lines: Callable[[], Iterable[str]]) -> EvidenceFile:
    return EvidenceFile(name, kind, lines)


def _log(log: RankLog, directory: Path | None) -> EvidenceFile:
    """Return a log as evidence, named relative to the directory. A read error ends the log."""
    name = log.name.removeprefix(f"{directory}/") if directory is not None else log.name

    def lines() -> Iterator[str]:
        try:
            for line in log.lines():
                yield line.decode("utf-8", "replace")
        except (SeatrialError, OSError) as error:
            yield f"{log.name} could not be read completely: {error}"

    return EvidenceFile(name, kind_of(name), lines)


def event_lines(events: Iterable[Event]) -> Iterator[str]:
    """Format anomalies and the end of an attempt as lines."""
    monitor = AnomalyMonitor()
    told: set[tuple[str, int]] = set()
    for event in events:
        found = [
            notice.finding
            for notice in monitor.observe(event)
            if notice.phase is AnomalyPhase.BEGAN
        ]
        lines = [(one.code, f"{one.code} {one.severity}", one.rule) for one in found]
        if event.kind is EventKind.FINDING:
            value = event.values
            code = str(value.get("code"))
            if value.get("phase", AnomalyPhase.BEGAN) == AnomalyPhase.BEGAN:
                lines.append((code, f"{code} {value.get('severity')}", str(value.get("rule"))))
        elif event.kind is EventKind.EXIT:
            yield from _exit_lines(event)
        for code, head, rule in lines:
            if (code, event.step) not in told:
                told.add((code, event.step))
                yield f"{head} step {event.step}: {rule}"


def _exit_lines(event: Event) -> Iterator[str]:
    """Format the end of an attempt. Empty if it succeeded."""
    error, code = str(event.values.get("error") or ""), event.values.get("code")
    if not error and not code:
        return
    yield f"exit at step {event.step}" + (f", exit code: {code}" if code else "")
    # On separate lines, as the process itself printed it.
    yield from error.splitlines()


def pod_lines(pods: Iterable[Json]) -> Iterator[str]:
    """Format the statuses of pods as lines."""
    for pod in pods:
        name, status = pod_name(pod), pod.get("status") or {}
        if status.get("reason"):
            yield f"pod {name} reason: {status['reason']} {status.get('message') or ''}"
        for condition in status.get("conditions") or ():
            if condition.get("status") == "False" or condition.get("type") == "DisruptionTarget":
                said = condition.get("message") or ""
                yield f"pod {name} {condition.get('type')}: {condition.get('reason')} {said}"
        for container in container_statuses(pod):
            for key in _STATES:
                yield from _state_lines(f"pod {name} {container['name']}", container.get(key) or {})


def _state_lines(where: str, state: dict[str, Any]) -> Iterator[str]:
    for kind in ("waiting", "terminated"):
        inner = state.get(kind) or {}
        if inner and inner.get("reason") != "Completed":
            code = f" exit code: {inner['exitCode']}" if "exitCode" in inner else ""
            # The message may be the end of the container's log.
            said = end_lines(inner.get("message")) or [""]
            yield f"{where} {kind} reason: {inner.get('reason')}{code} {said[0]}".rstrip()
            yield from said[1:]


def cluster_lines(events: Iterable[Json]) -> Iterator[str]:
    """Format Kubernetes events as lines."""
    for event in events:
        about = event.get("involvedObject") or {}
        said = " ".join(str(event.get("message") or "").split())
        yield f"{event.get('type')} {event.get('reason')} {about.get('name')}: {said}"


def _dumps(attempt: AttemptHistory, directory: Path | None) -> Iterator[tuple[str, bytes]]:
    """Yield the flight recorder dumps in the run's directory or in the requested one."""
    paths: set[Path] = set()
    if attempt.submitted is not None and isinstance(attempt.source, FileSource):
        paths |= set(attempt.source.path.parent.glob(f"{DUMP}*"))
    if directory is not None:
        paths |= {path for pattern in DUMPS for path in directory.rglob(pattern)}
    began, until = attempt.submitted or 0.0, attempt.until or math.inf
    for path in sorted(paths):
        try:
            # A later attempt may overwrite the dumps of an earlier one.
            is_own = path.is_file() and began <= path.stat().st_mtime < until
            if is_own and path.stat().st_size <= LARGEST_DUMP:
                yield path.name, read_state(path, LARGEST_DUMP)
        except (OSError, DamagedError):
            continue
