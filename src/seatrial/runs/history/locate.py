# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Find a history by a run's name, its spec, a directory, a file, or standard input."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from seatrial.catalog.catalog import Catalog
from seatrial.cluster.errors import ClusterError
from seatrial.codes.cluster import ClusterCode
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError, SeatrialError, UsageError
from seatrial.findings import Finding, Severity, Where
from seatrial.monitoring.logs.reading import ByteStream
from seatrial.naming import is_dns_label
from seatrial.rendering.reader_pod import VolumeCommand
from seatrial.runs.data.reader_pod import read_inside
from seatrial.runs.history.files import (
    EVENT_LOG,
    directory_history,
    file_history,
    is_to_come,
    local_history,
    newest_rehearsal,
)
from seatrial.runs.history.history import (
    AttemptHistory,
    Planned,
    RankLog,
    RunHistory,
    attempts_of,
    planned,
)
from seatrial.runs.history.logs import Asked, RankLine, read_logs
from seatrial.runs.history.sources import (
    PodSource,
    PutAside,
    StreamSource,
    VolumeSource,
    line_bytes,
)
from seatrial.runs.history.text_guard import OnlyText
from seatrial.runs.ledger.host import WORK, local_runs
from seatrial.runs.namespace import Site
from seatrial.runs.status.observe import observe
from seatrial.runs.status.status import status
from seatrial.spec.loader import load

STDIN = "-"
"""Means standard input."""
ASK_SECONDS = 10.0
"""How often to query a cluster for the attempts and the state of a watched run."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look for a run."""

    catalog: Catalog
    """The catalog with which plans are resolved."""
    stdin: ByteStream
    site: Callable[[str], Site] | None = None
    """Connects to a namespace; the context's if the text is empty. None to skip the cluster."""
    directory: Path = Path()
    """The directory of the specs."""
    only_cluster: bool = False
    """True if the command line names a cluster, so that this host is skipped."""
    live: bool = False
    """True to read standard input as it arrives, and only once."""


def find_history(run: str, places: Places) -> RunHistory:
    """Find the history of a run. Raises with a hint if there is none."""
    if run == STDIN:
        return _of_stream(places.stdin, live=places.live)
    path = Path(run)
    if path.suffix in (".yaml", ".yml"):
        return _of_spec(path, places)
    if path.is_dir() and not (is_dns_label(run) and run in local_runs(places.directory)):
        return directory_history(path, places.catalog)
    if path.is_file() or (places.live and is_to_come(path)):
        return file_history(path)
    if not is_dns_label(run):
        raise UsageError(f"{run!r} is not a file, a directory or the name of a run.")
    return _of_name(run, places)


def _of_stream(stream: ByteStream, *, live: bool) -> RunHistory:
    """Return the history on standard input, buffered unless it is watched, to be read twice."""
    text = OnlyText(stream, "standard input")
    if live:
        source = StreamSource(text)
        attempt = AttemptHistory(1, source, name="standard input")
        return RunHistory(
            "standard input",
            "a pipe",
            lambda: (attempt,),
            is_live=lambda: not source.over.is_set(),
        )
    kept = PutAside(text)
    log = RankLog("standard input", kept.lines)
    attempt = AttemptHistory(1, kept, logs=(log,), name="standard input")
    return RunHistory("standard input", "a pipe", lambda: (attempt,))


def _of_spec(path: Path, places: Places) -> RunHistory:
    """Find the run of a spec: on this host, in its cluster, or its newest rehearsal."""
    spec = load(path, ()).spec
    here = None if places.only_cluster else local_runs(path.parent).get(spec.name)
    if here is not None:
        return local_history(here, places.catalog)
    known = planned(path, path.parent, places.catalog)
    return _elsewhere(spec.name, path.parent, places, spec.cluster.namespace, known)


def _of_name(run: str, places: Places) -> RunHistory:
    """Find a run by name: on this host, in a cluster, or its newest rehearsal."""
    here = None if places.only_cluster else local_runs(places.directory).get(run)
    if here is not None:
        return local_history(here, places.catalog)
    return _elsewhere(run, places.directory, places, "", None)


def _elsewhere(
    run: str, directory: Path, places: Places, namespace: str, known: Planned | None
) -> RunHistory:
    """Return a run in a cluster, or its newest rehearsal if there is none."""
    rehearsed = None if places.only_cluster else newest_rehearsal(directory / WORK / run)
    if places.site is not None:
        try:
            return cluster_history(places.site(namespace), run, places.catalog, known)
        except ClusterError as error:
            # A laptop without a cluster still has its rehearsals.
            if rehearsed is None:
                if not places.only_cluster and error.code == ClusterCode.CONFIG:
                    error.findings = (*error.findings, _nothing(run, directory))
                raise
        except SeatrialError:
            if rehearsed is None:
                raise
    if rehearsed is not None:
        return rehearsed
    raise FindingsError([_nothing(run, directory)])


def _nothing(run: str, directory: Path) -> Finding:
    return Finding(
        RunCode.NO_RUN,
        Severity.ERROR,
        Where(field=run),
        f"no run or rehearsal named {run} in {directory / WORK}.",
        run,
        "To list runs: seatrial list. Or pass a file, a directory, or - for standard input.",
    )


class Remembered[T]:
    """Caches an answer for a while, because a view queries it four times a second."""

    def __init__(self, ask: Callable[[], T], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._known: tuple[float, T] | None = None

    def __call__(self) -> T:
        """Return the answer, at most ASK_SECONDS old."""
        now = self._clock()
        if self._known is None or now - self._known[0] >= ASK_SECONDS:
            self._known = (now, self._ask())
        return self._known[1]


def cluster_history(
    site: Site, run: str, catalog: Catalog, known: Planned | None = None
) -> RunHistory:
    """Return the history of a run in a cluster.

    If the plan is known, all attempts, through a pod that reads the run's volume. Otherwise the
    newest attempt, through its pods' logs.
    """
    observed = observe(site.api, site.namespace, run)
    if not observed.exists:
        raise FindingsError([_not_there(site, run)])

    def lines(follow: bool) -> Iterator[RankLine]:
        return read_logs(site, run, Asked(follow=follow))

    def printed(number: int) -> tuple[RankLog, ...]:
        # Only the newest attempt has pods.
        newest = observed.ledger.newest
        if newest is not None and number != newest.number:
            return ()
        return (RankLog(f"pods of {run}", lambda: map(line_bytes, lines(False))),)

    def inside(follow: bool, say: Callable[[str], None]) -> int:
        if known is None:
            raise ValueError("reading the volume needs the plan")
        home = f"{known.plan.spec.cluster.storage.mount.rstrip('/')}/{run}"
        # When followed, the event log may not exist yet.
        words = (f"{home}/{EVENT_LOG}", "--json") if follow else (home, "--json", "--once")
        return read_inside(site, known.plan, catalog, VolumeCommand(("watch", *words)), say)

    live = Remembered(lambda: not status(site, run).is_over, site.clock)
    source = PodSource(lines) if known is None else VolumeSource(inside, live)

    def look() -> tuple[AttemptHistory, ...]:
        records = site.ledgers.read(run).attempts
        if known is None:
            records = records[-1:]
        if not records:
            return (AttemptHistory(1, source, logs=printed(1)),)
        return attempts_of(records, source, printed)

    return RunHistory(
        run,
        f"in {site.namespace}, {'its pods' if known is None else 'its volume'}",
        Remembered(look, site.clock),
        known.plan if known else None,
        known.forecast if known else None,
        live,
        site.sleep,
        site=site,
    )


def _not_there(site: Site, run: str) -> Finding:
    return Finding(
        RunCode.NO_RUN,
        Severity.ERROR,
        Where(field=f"{site.namespace}/{run}"),
        f"no run named {run} in {site.namespace} or on this host.",
        run,
        "Check seatrial list, --namespace and --context. Or pass a file, a directory, or -.",
    )
