# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run's history: find it, report on it, diagnose it, calibrate from it."""

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, cast

from seatrial.catalog.catalog import default_catalog
from seatrial.errors import MissingExtraError, UsageError
from seatrial.monitoring.diagnosis.diagnosis import Diagnosis
from seatrial.monitoring.diagnosis.diagnosis import diagnose as diagnose_evidence
from seatrial.monitoring.event_log import read_events
from seatrial.monitoring.logs.reading import ByteStream
from seatrial.naming import is_dns_label
from seatrial.reports.run_page.chapter import Chapter, read_chapter
from seatrial.reports.run_page.page import MARK, plotting_library, report_page
from seatrial.runs.calibrate import Calibrated, calibrate_run
from seatrial.runs.history.diagnose import evidence_of
from seatrial.runs.history.history import RunHistory
from seatrial.runs.history.locate import STDIN, Places, find_history
from seatrial.runs.launch import connect
from seatrial.runs.ledger.host import local_runs
from seatrial.runs.namespace import Site, Tell
from seatrial.runs.status.observe import Observed, observe
from seatrial.sdk.output_files import write_new
from seatrial.sdk.plan import Overrides, PathOrText, override_texts
from seatrial.sdk.runs import connect_to_look
from seatrial.spec.loader import load

if TYPE_CHECKING:
    from seatrial.monitoring.mlflow_export import Sent

MARKED_WITHIN = 4096
"""The mark is within this many bytes from the start of a report."""


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """The cluster in which to look for a history in addition to this host, and how."""

    namespace: str = ""
    """Default: the namespace of the spec, else of the context."""
    kubeconfig: str = ""
    """Default: KUBECONFIG, else ~/.kube/config."""
    context: str = ""
    """Default: the current context."""
    live: bool = False
    """True to follow a run: wait through outages, and read standard input once."""
    stdin: ByteStream | None = None
    """Replaces the process's standard input."""
    tell: Tell | None = None
    """Receives progress messages."""

    def site(self, of_spec: str) -> Site:
        """Connect to the namespace, or to the spec's namespace if none is set."""
        chosen = self.namespace or of_spec
        if not self.live:
            return connect_to_look(chosen, self.kubeconfig, self.context, self.tell)
        return connect.connect(
            chosen, kubeconfig=self.kubeconfig, context=self.context, tell=self.tell
        )

    @property
    def is_named(self) -> bool:
        """True if a cluster is set, so that this host is skipped."""
        return bool(self.namespace or self.kubeconfig or self.context)


def history(run: str, place: HistoryPlace | None = None) -> RunHistory:
    """Find a history by a run's name or spec, a directory, a file, or - for standard input."""
    place = place or HistoryPlace()
    return find_history(run, _places(run, place))


def _places(run: str, place: HistoryPlace) -> Places:
    """Return where to look: in the cluster of `place`, and on this host if none is set."""
    return Places(
        default_catalog(),
        place.stdin or _standard_input(run),
        place.site,
        only_cluster=place.is_named,
        live=place.live,
    )


def _standard_input(run: str) -> ByteStream:
    """Return standard input if `run` is -, otherwise an empty stream."""
    if run != STDIN:
        return io.BytesIO()
    # `sys.stdin` is None if the command was started with a closed standard input.
    if sys.stdin is None:
        raise UsageError("- means standard input, which is closed. Pass a file or pipe the log.")
    return cast("ByteStream", sys.stdin.buffer)


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """Why a run stopped, hangs or is slow."""

    run: str
    """The run's name, if its history contains it."""
    attempt: int
    """The diagnosed attempt."""
    diagnosis: Diagnosis
    """Causes with the lines that prove them, and their consequences."""


def diagnose(
    run: str, *, attempt: int | None = None, place: HistoryPlace | None = None
) -> Diagnosed:
    """Find why a run stopped, hangs or is slow: causes with the lines that prove them.

    Args:
        run: The name of a run, its spec, a log, a directory of logs, or - for standard input.
        attempt: The attempt to diagnose. Default: the newest.
        place: The cluster to search in addition to this host.
    """
    place = place or HistoryPlace()
    # A diagnosis reads the history to its end and does not follow it.
    found = find_history(run, replace(_places(run, place), live=False))
    observed: Observed | None = None
    if found.site is not None:
        observed = observe(found.site.api, found.site.namespace, found.name)
    path = Path(run)
    named = is_dns_label(run) and run in local_runs(Path())
    chosen, evidence = evidence_of(
        found,
        attempt,
        observed=observed,
        directory=path if path.is_dir() and not named else None,
        names_from=path.parent if path.is_file() else None,
    )
    return Diagnosed(found.name, chosen.number, diagnose_evidence(evidence))


@dataclass(frozen=True, slots=True)
class Report:
    """A written report page."""

    page: Path
    """The HTML file."""
    chapters: tuple[Chapter, ...]
    """One per run."""


def report(
    runs: str | Sequence[str],
    output: PathOrText | None = None,
    *,
    place: HistoryPlace | None = None,
) -> Report:
    """Write the report of a run, or of several runs side by side, to one HTML file.

    Args:
        runs: One or more of: name, spec, directory, file, or - for standard input.
        output: The page. Default: NAME-report.html. Only an earlier report is overwritten.
        place: The cluster to search in addition to this host.
    """
    # Fail before the slow part.
    plotting_library()
    if output is not None:
        refuse_other_file(Path(output))
    given = [runs] if isinstance(runs, str) else list(runs)
    histories = [history(run, place) for run in given]
    names = [each.name for each in histories]
    # Runs with the same name are labelled with the argument that named them.
    chapters = [
        read_chapter(each, run if names.count(each.name) > 1 else "")
        for each, run in zip(histories, given, strict=True)
    ]
    usual = f"{'-'.join(chapter.name.replace(' ', '-') for chapter in chapters)}-report.html"
    return write_report(chapters, Path(output or usual))


def write_report(chapters: Sequence[Chapter], target: Path) -> Report:
    """Write the page of runs that are already read."""
    refuse_other_file(target)
    write_new(target, report_page(chapters), force=True)
    return Report(target, tuple(chapters))


def refuse_other_file(path: Path) -> None:
    """Refuse to overwrite a file that is not a report, such as an event log."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as stream:
            beginning = stream.read(MARKED_WITHIN)
    except OSError as error:
        raise UsageError(f"cannot read --output {path}: {error.strerror}.") from None
    if beginning and MARK.encode() not in beginning:
        raise UsageError(
            f"{path} exists and was not written by seatrial report, so it is not overwritten. "
            "Choose a different name with --output, or remove the file."
        )


def calibrate(
    path: PathOrText, measured: PathOrText | Sequence[float], overrides: Overrides = ()
) -> Calibrated:
    """Calibrate the planner with measured steps of a run: one factor for its machines.

    Args:
        path: The spec. The factor is stored next to it, and later plans use it.
        measured: The run's event log, or step times in seconds.
        overrides: Fields to override.
    """
    texts = override_texts(overrides)
    steps = Path(measured) if isinstance(measured, str | PathLike) else measured
    loaded = load(Path(path), texts)
    return calibrate_run(loaded, default_catalog(), Path(path), steps, is_overridden=bool(texts))


def export_mlflow(events: PathOrText, run: str, tracking_uri: str, experiment: str) -> "Sent":
    """Send the new events in an event log to the MLflow run with that name."""
    if find_spec("mlflow") is None:
        raise MissingExtraError(
            "sending to MLflow needs its client, which is not installed. "
            "To install it, in a Seatrial checkout, run: pip install '.[mlflow]'"
        )
    from seatrial.monitoring.mlflow_export import export  # noqa: PLC0415

    path = Path(events)
    if not path.is_file():
        raise UsageError(f"{path} is not a file. Pass a run's event log, events.jsonl.")
    return export(read_events(path), run, tracking_uri, experiment)
