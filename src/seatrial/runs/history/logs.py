# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The output of a run's processes: all ranks merged, or one."""

import heapq
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import BinaryIO, NamedTuple

from seatrial.cluster.pod_logs import ContainerLog, PodLogLine
from seatrial.cluster.transport import Json
from seatrial.errors import FindingsError, SeatrialError, UsageError
from seatrial.monitoring.logs.reading import LONGEST_LINE
from seatrial.runs.ledger.host import LocalRun
from seatrial.runs.namespace import Site
from seatrial.runs.status.observe import FoundJob, find_job, observe, training_pods
from seatrial.runs.status.pending_reasons import wanted_and_running
from seatrial.runs.status.status import no_run, status
from seatrial.secrets.redaction import REDACTED, LineRedactor, safe_cut
from seatrial.storage.state_files import open_regular

MOST_FOLLOWED = 64
"""The maximum number of pods to follow. Each needs a connection."""
_BLOCK = 1 << 16
_PAUSE_SECONDS = 0.05
_PIECE = 1 << 20
_LONGEST_PART = 2 * LONGEST_LINE
"""How many bytes of a line to buffer while searching for a position to cut it at."""
LOOK_SECONDS = 5.0
"""How often to look for new pods."""
_RANK = re.compile(r"^\[[a-z_]+(\d+)\]:")
"""The prefix that torchrun adds to the lines of a process (--tee)."""
_CONTAINERS = ("containers", "initContainers")
_REPLICA = "training.kubeflow.org/replica-index"
_ROLE = "training.kubeflow.org/replica-type"
_COMPLETION = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True)
class RankLine:
    """One line of output."""

    time: str
    """When it was written, in UTC."""
    node: int
    """The index of the node in the run."""
    rank: int | None
    """The rank. None for a line from torchrun itself."""
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The requested lines."""

    rank: int | None = None
    """Only this rank."""
    follow: bool = False
    """True to continue until the run finishes."""
    tail: int | None = None
    """Start with this many lines of each pod."""
    container: str = ""
    """An init container, such as `preflight`. Empty for the training container."""


def node_number(pod: Json) -> int:
    """Return the node index of a pod from its operator's labels."""
    labels = pod["metadata"].get("labels") or {}
    if _REPLICA in labels:
        return int(labels[_REPLICA]) + (1 if labels.get(_ROLE) == "worker" else 0)
    if _COMPLETION in labels:
        return int(labels[_COMPLETION])
    last = str(pod["metadata"]["name"]).rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def ranked(line: PodLogLine, node: int, processes: int) -> RankLine:
    """Add the rank that printed a line."""
    match = _RANK.match(line.text)
    if match is None:
        return RankLine(line.time, node, None, line.text)
    return RankLine(line.time, node, node * processes + int(match[1]), line.text[match.end() :])


def seek_tail(stream: BinaryIO, lines: int) -> None:
    """Seek to the last lines of a file without reading the rest."""
    end = place = stream.seek(0, os.SEEK_END)
    if lines == 0:
        return
    while place > 0:
        size = min(_BLOCK, place)
        place -= size
        stream.seek(place)
        block = stream.read(size)
        # The last newline of the file ends its last line, and does not start another.
        at = size - 1 if place + size == end else size
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            lines -= 1
            if lines == 0:
                stream.seek(place + at + 1)
                return
    stream.seek(0)


def processes_per_node(job: Json) -> int:
    """Return the number of processes in each pod of a job."""
    spec = job.get("spec") or {}
    given = spec.get("nprocPerNode") or (spec.get("trainer") or {}).get("numProcPerNode") or 1
    return int(given) if str(given).isdigit() else 1


def read_logs(site: Site, run: str, asked: Asked) -> Iterator[RankLine]:
    """Yield the lines of a run's newest attempt, sorted by time. With `follow`, as they arrive.

    Raises FindingsError if there is no job.
    """
    observed = observe(site.api, site.namespace, run)
    if observed.job is None:
        raise FindingsError([no_run(site.namespace, run)])
    job = observed.job
    processes = processes_per_node(job.object)
    # From the job, because pods may not exist yet.
    ranks = processes * max(1, wanted_and_running(observed)[0], len(observed.pods))
    if asked.rank is not None and asked.rank >= ranks:
        raise UsageError(f"--rank {asked.rank}: the run has ranks 0 to {ranks - 1}.")
    lines = _followed(site, job, asked) if asked.follow else _merged(site, job, asked)
    for line in lines:
        if asked.rank is None or line.rank == asked.rank:
            yield line


def _merged(site: Site, job: FoundJob, asked: Asked) -> Iterator[RankLine]:
    """Yield the existing lines of all pods, merged by time."""
    pods = _wanted(training_pods(site.api, site.namespace, job), job, asked)
    streams = [_lines(site, pod, job, asked) for pod in pods]
    yield from heapq.merge(*streams, key=lambda line: line.time)


def _followed(site: Site, job: FoundJob, asked: Asked) -> Iterator[RankLine]:
    """Yield lines as they arrive, from one thread per pod. New pods join."""
    arrived: queue.Queue[RankLine | SeatrialError | None] = queue.Queue(10_000)
    known: dict[str, threading.Thread] = {}
    name, told = job.name, False
    while True:
        pods = _wanted(training_pods(site.api, site.namespace, job), job, asked)
        if len(pods) > MOST_FOLLOWED and not told:
            told = True
            site.tell(
                f"following only the first {MOST_FOLLOWED} of {len(pods)} pods. "
                "For the others, use --rank N or omit --follow."
            )
        for pod in pods[:MOST_FOLLOWED]:
            if pod["metadata"]["uid"] not in known:
                words = (_lines(site, pod, job, asked), arrived)
                # A thread that waits for a server must not block the exit of the command.
                thread = threading.Thread(target=_pump, args=words, daemon=True)
                known[pod["metadata"]["uid"]] = thread
                thread.start()
        yield from _until_look(arrived)
        if not any(thread.is_alive() for thread in known.values()):
            there = find_job(site.api, site.namespace, name)
            if there is None or there.uid != job.uid or status(site, name).is_over:
                yield from _rest(arrived)
                return


def _until_look(arrived: "queue.Queue[RankLine | SeatrialError | None]") -> Iterator[RankLine]:
    """Yield lines until it is time to look for new pods, or a pod has finished."""
    while True:
        try:
            item = arrived.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            return
        if item is None:
            return
        if isinstance(item, SeatrialError):
            raise item
        yield item


def _rest(arrived: "queue.Queue[RankLine | SeatrialError | None]") -> Iterator[RankLine]:
    while not arrived.empty():
        item = arrived.get()
        if isinstance(item, RankLine):
            yield item


def _pump(
    lines: Iterable[RankLine], arrived: "queue.Queue[RankLine | SeatrialError | None]"
) -> None:
    """Forward the lines of one pod, then None or the error that ended them."""
    try:
        for line in lines:
            arrived.put(line)
    except SeatrialError as error:
        arrived.put(error)
    else:
        arrived.put(None)


def _lines(site: Site, pod: Json, job: FoundJob, asked: Asked) -> Iterator[RankLine]:
    head = pod["metadata"]
    container = asked.container or str(pod["spec"]["containers"][0]["name"])
    names = [str(each["name"]) for key in _CONTAINERS for each in pod["spec"].get(key) or ()]
    if container not in names:
        raise UsageError(f"--container {container}: use one of {', '.join(names)}.")
    log = ContainerLog(site.api, site.namespace, head["name"], head["uid"], container)
    node, processes = node_number(pod), processes_per_node(job.object)
    redact = LineRedactor()
    for line in log.lines(follow=asked.follow, tail=asked.tail):
        yield ranked(PodLogLine(line.time, redact(line.text)), node, processes)


def _wanted(pods: list[Json], job: FoundJob, asked: Asked) -> list[Json]:
    """Return the pods with the requested rank, in the order of the nodes."""
    ordered = sorted(pods, key=node_number)
    if asked.rank is None:
        return ordered
    node = asked.rank // processes_per_node(job.object)
    return [pod for pod in ordered if node_number(pod) == node]


def lines_here(run: LocalRun, asked: Asked) -> Iterator[RankLine]:
    """Yield the output of the newest attempt. With `follow`, until it finishes."""
    if asked.container:
        raise UsageError(f"--container {asked.container}: a run on this host has no containers.")
    newest = run.read().newest
    if newest is None:
        raise FindingsError([no_run(str(run.directory), run.name)])
    while asked.follow and run.is_starting(newest):
        time.sleep(_PAUSE_SECONDS)
    path = run.file(newest.number, "log")
    try:
        opened = open_regular(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from None
    redact = LineRedactor()
    with opened as log:
        if asked.tail is not None:
            seek_tail(log, asked.tail)
        rank: int | None = None
        for part in _raw_lines(log, lambda: asked.follow and run.supervisor(newest.number) != 0):
            text = redact(part.data.decode(errors="replace"))
            if part.is_continued:
                line = RankLine("", 0, rank, text)
            else:
                line = ranked(PodLogLine("", text), 0, 0)
            rank = line.rank
            if asked.rank is None or rank == asked.rank:
                yield line


class _LinePart(NamedTuple):
    """A line of a log, or a part of a line that is too long."""

    data: bytes
    is_continued: bool = False
    """True if it continues a line."""


def _raw_lines(log: BufferedReader, is_growing: Callable[[], bool]) -> Iterator[_LinePart]:
    """Yield the lines of a log in pieces, including new ones while it grows.

    A line that is too long is split at a position that does not affect redaction. If there is no
    such position, the line is not shown.
    """
    rest, dropping, is_continued = b"", False, False
    while True:
        # Checked before reading, so that the last lines are not missed.
        goes_on = is_growing()
        piece = log.read1(_PIECE)
        *whole, rest = (rest + piece).split(b"\n")
        if dropping and whole:
            dropping, whole = False, whole[1:]
        for line in whole:
            yield _LinePart(line, is_continued)
            is_continued = False
        if dropping:
            rest = b""
        while len(rest) > LONGEST_LINE:
            cut = _cut_of(rest[:_LONGEST_PART])
            if cut:
                yield _LinePart(rest[:cut], is_continued)
                rest, is_continued = rest[cut:], True
            elif len(rest) < _LONGEST_PART:
                break
            else:
                yield _LinePart(REDACTED.encode(), is_continued)
                rest, dropping, is_continued = b"", True, False
        if rest and not piece and not goes_on:
            yield _LinePart(rest, is_continued)
            rest = b""
        if not piece:
            if not goes_on:
                return
            time.sleep(_PAUSE_SECONDS)


def _cut_of(line: bytes) -> int:
    """Return how many bytes of a line are safe to show before the rest is known, or 0."""
    text = line.decode(errors="surrogateescape")
    return len(text[: safe_cut(text)].encode(errors="surrogateescape"))
