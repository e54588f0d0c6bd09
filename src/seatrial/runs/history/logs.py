# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the processes of a run print: all ranks merged, or one."""

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
"""Pods that are followed at a time: each takes a connection."""
_BLOCK = 1 << 16
_PAUSE_SECONDS = 0.05
_PIECE = 1 << 20
_LONGEST_PART = 2 * LONGEST_LINE
"""Bytes of a line that are kept while no place to cut it is found."""
LOOK_SECONDS = 5.0
"""How often it is looked for new pods."""
_RANK = re.compile(r"^\[[a-z_]+(\d+)\]:")
"""How torchrun marks the lines of a process when it repeats them (--tee)."""
_CONTAINERS = ("containers", "initContainers")
_REPLICA = "training.kubeflow.org/replica-index"
_ROLE = "training.kubeflow.org/replica-type"
_COMPLETION = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True)
class RankLine:
    """One line of one process."""

    time: str
    """When it was written, in UTC."""
    node: int
    """The node's number in the run."""
    rank: int | None
    """The process; nothing for a line of torchrun itself."""
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """Which lines are wanted."""

    rank: int | None = None
    """Of one process only."""
    follow: bool = False
    """Whether lines to come are given too, until the run is over."""
    tail: int | None = None
    """Only so many lines of each pod, to begin with."""
    container: str = ""
    """Of an init container, such as `preflight`; the training container when empty."""


def node_number(pod: Json) -> int:
    """The number of the node that a pod is, as its operator labels it."""
    labels = pod["metadata"].get("labels") or {}
    if _REPLICA in labels:
        return int(labels[_REPLICA]) + (1 if labels.get(_ROLE) == "worker" else 0)
    if _COMPLETION in labels:
        return int(labels[_COMPLETION])
    last = str(pod["metadata"]["name"]).rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def ranked(line: PodLogLine, node: int, processes: int) -> RankLine:
    """A line with the process that printed it."""
    match = _RANK.match(line.text)
    if match is None:
        return RankLine(line.time, node, None, line.text)
    return RankLine(line.time, node, node * processes + int(match[1]), line.text[match.end() :])


def seek_tail(stream: BinaryIO, lines: int) -> None:
    """Move to where the last lines of a file begin, without reading what is before them."""
    end = place = stream.seek(0, os.SEEK_END)
    if lines == 0:
        return
    while place > 0:
        size = min(_BLOCK, place)
        place -= size
        stream.seek(place)
        block = stream.read(size)
        # The last character of the file ends its last line, and begins none.
        at = size - 1 if place + size == end else size
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            lines -= 1
            if lines == 0:
                stream.seek(place + at + 1)
                return
    stream.seek(0)


def processes_per_node(job: Json) -> int:
    """How many processes each pod of a job has."""
    spec = job.get("spec") or {}
    given = spec.get("nprocPerNode") or (spec.get("trainer") or {}).get("numProcPerNode") or 1
    return int(given) if str(given).isdigit() else 1


def read_logs(site: Site, run: str, asked: Asked) -> Iterator[RankLine]:
    """The lines of a run's newest attempt, in the order of their times; of `follow`, as they come.

    Raises FindingsError when there is no job to read from.
    """
    observed = observe(site.api, site.namespace, run)
    if observed.job is None:
        raise FindingsError([no_run(site.namespace, run)])
    job = observed.job
    processes = processes_per_node(job.object)
    # Of the job, for pods may not be there yet.
    ranks = processes * max(1, wanted_and_running(observed)[0], len(observed.pods))
    if asked.rank is not None and asked.rank >= ranks:
        raise UsageError(f"--rank {asked.rank}: the run has ranks 0 to {ranks - 1}.")
    lines = _followed(site, job, asked) if asked.follow else _merged(site, job, asked)
    for line in lines:
        if asked.rank is None or line.rank == asked.rank:
            yield line


def _merged(site: Site, job: FoundJob, asked: Asked) -> Iterator[RankLine]:
    """What there is, all pods at once, by time."""
    pods = _wanted(training_pods(site.api, site.namespace, job), job, asked)
    streams = [_lines(site, pod, job, asked) for pod in pods]
    yield from heapq.merge(*streams, key=lambda line: line.time)


def _followed(site: Site, job: FoundJob, asked: Asked) -> Iterator[RankLine]:
    """Lines as they come, from a thread for each pod; pods that come later join."""
    arrived: queue.Queue[RankLine | SeatrialError | None] = queue.Queue(10_000)
    known: dict[str, threading.Thread] = {}
    name, told = job.name, False
    while True:
        pods = _wanted(training_pods(site.api, site.namespace, job), job, asked)
        if len(pods) > MOST_FOLLOWED and not told:
            told = True
            site.tell(
                f"only the first {MOST_FOLLOWED} of {len(pods)} pods are followed at a time. "
                "Of the others: --rank N, or without --follow."
            )
        for pod in pods[:MOST_FOLLOWED]:
            if pod["metadata"]["uid"] not in known:
                words = (_lines(site, pod, job, asked), arrived)
                # A thread that waits for a server must not keep the command from ending.
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
    """The lines that come until it is time to look for new pods, or a pod is over."""
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
    """Pass on the lines of one pod, then nothing, or the error that ended them."""
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
        raise UsageError(f"--container {container}: the pods have {', '.join(names)}.")
    log = ContainerLog(site.api, site.namespace, head["name"], head["uid"], container)
    node, processes = node_number(pod), processes_per_node(job.object)
    redact = LineRedactor()
    for line in log.lines(follow=asked.follow, tail=asked.tail):
        yield ranked(PodLogLine(line.time, redact(line.text)), node, processes)


def _wanted(pods: list[Json], job: FoundJob, asked: Asked) -> list[Json]:
    """The pods that have the rank that is asked for, in the order of the nodes."""
    ordered = sorted(pods, key=node_number)
    if asked.rank is None:
        return ordered
    node = asked.rank // processes_per_node(job.object)
    return [pod for pod in ordered if node_number(pod) == node]


def lines_here(run: LocalRun, asked: Asked) -> Iterator[RankLine]:
    """What the newest attempt has printed; with `follow`, until it is over."""
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
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
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
    """A line of a log, or a part of one that is too long."""

    data: bytes
    is_continued: bool = False
    """True if it does not begin a line."""


def _raw_lines(log: BufferedReader, is_growing: Callable[[], bool]) -> Iterator[_LinePart]:
    """The lines of a log, piece by piece; while it grows, those to come as well.

    A line that is too long comes in parts, cut where redaction finds the same in the parts as in
    the whole. Of one that has no such place, nothing is shown.
    """
    rest, dropping, is_continued = b"", False, False
    while True:
        # Asked before reading, so that what is written last is not missed.
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
    """Return how many bytes of a line can be shown before the rest is known; 0 if none can."""
    text = line.decode(errors="surrogateescape")
    return len(text[: safe_cut(text)].encode(errors="surrogateescape"))
