# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a run has done: its history, found by any name of it, its report, its diagnosis."""

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
"""Bytes at the beginning of a file among which the mark is."""


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """Where a history is looked for besides this host, and how."""

    namespace: str = ""
    """The namespace; that of the spec, else of the context, when empty."""
    kubeconfig: str = ""
    """The kubeconfig; KUBECONFIG, else ~/.kube/config, when empty."""
    context: str = ""
    """The context in it; the current one when empty."""
    live: bool = False
    """Whether a run is followed, so that an outage is waited for and standard input read once."""
    stdin: ByteStream | None = None
    """What stands for standard input, where that is not the process's own."""
    tell: Tell | None = None
    """Told what takes long."""

    def site(self, of_spec: str) -> Site:
        """The namespace of a cluster; that of a spec where none is given."""
        chosen = self.namespace or of_spec
        if not self.live:
            return connect_to_look(chosen, self.kubeconfig, self.context, self.tell)
        return connect.connect(
            chosen, kubeconfig=self.kubeconfig, context=self.context, tell=self.tell
        )

    @property
    def is_named(self) -> bool:
        """Whether a cluster is named, so that this host is not meant."""
        return bool(self.namespace or self.kubeconfig or self.context)


def history(run: str, place: HistoryPlace | None = None) -> RunHistory:
    """The history that a word means: a run's name or spec, a directory, a file, - for stdin."""
    place = place or HistoryPlace()
    return find_history(run, _places(run, place))


def _places(run: str, place: HistoryPlace) -> Places:
    """Where to look for a run: in the cluster of `place`, and here too if none is named."""
    return Places(
        default_catalog(),
        place.stdin or _standard_input(run),
        place.site,
        only_cluster=place.is_named,
        live=place.live,
    )


def _standard_input(run: str) -> ByteStream:
    """Standard input where a command line means it; nothing else looks at it, closed or not."""
    if run != STDIN:
        return io.BytesIO()
    # Python has none where a command was started with a closed one.
    if sys.stdin is None:
        raise UsageError("- is standard input, which is closed. Give a file, or pipe the log in.")
    return cast("ByteStream", sys.stdin.buffer)


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """Why a run stopped, hangs or is slow."""

    run: str
    """The run's name, as far as its history tells it."""
    attempt: int
    """The attempt that was looked at."""
    diagnosis: Diagnosis
    """Causes with the lines that prove them, and what only followed."""


def diagnose(
    run: str, *, attempt: int | None = None, place: HistoryPlace | None = None
) -> Diagnosed:
    """Why a run stopped, hangs or is slow: causes with the lines that prove them.

    Args:
        run: The name of a run, its spec, a log, a directory of logs, or - for standard input.
        attempt: This attempt; the newest when absent.
        place: Where it is looked for besides this host.
    """
    place = place or HistoryPlace()
    # What is diagnosed is read to its end, and not followed.
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
    """A page that was written, and what is in it."""

    page: Path
    """The file."""
    chapters: tuple[Chapter, ...]
    """One for each run."""


def report(
    runs: str | Sequence[str],
    output: PathOrText | None = None,
    *,
    place: HistoryPlace | None = None,
) -> Report:
    """Write what a run was like, or several side by side, into one HTML file.

    Args:
        runs: A run, or several: name, spec, directory, file, or - for standard input.
        output: The page; NAME-report.html when absent. Only a page of a report is replaced.
        place: Where they are looked for besides this host.
    """
    # Before what takes long.
    plotting_library()
    if output is not None:
        refuse_other_file(Path(output))
    given = [runs] if isinstance(runs, str) else list(runs)
    histories = [history(run, place) for run in given]
    names = [each.name for each in histories]
    # Runs of one name are told apart by what they were called by.
    chapters = tuple(
        read_chapter(each, run if names.count(each.name) > 1 else "")
        for each, run in zip(histories, given, strict=True)
    )
    usual = f"{'-'.join(chapter.name.replace(' ', '-') for chapter in chapters)}-report.html"
    target = Path(output or usual)
    refuse_other_file(target)
    write_new(target, report_page(chapters), force=True)
    return Report(target, chapters)


def refuse_other_file(path: Path) -> None:
    """Refuse to replace a file that is no report, the event log for one."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as stream:
            beginning = stream.read(MARKED_WITHIN)
    except OSError as error:
        raise UsageError(f"--output {path} cannot be read: {error.strerror}.") from None
    if beginning and MARK.encode() not in beginning:
        raise UsageError(
            f"{path} exists and is not a page of seatrial report, which alone is replaced. "
            "Choose another name with --output, or remove the file."
        )


def calibrate(
    path: PathOrText, measured: PathOrText | Sequence[float], overrides: Overrides = ()
) -> Calibrated:
    """Calibrate the planner: measured steps of a run set one factor for its machines.

    Args:
        path: The spec; the factor is kept beside it, and used by its plans from then on.
        measured: The run's event log, or times of steps in seconds.
        overrides: Fields to set differently.
    """
    texts = override_texts(overrides)
    steps = Path(measured) if isinstance(measured, str | PathLike) else measured
    loaded = load(Path(path), texts)
    return calibrate_run(loaded, default_catalog(), Path(path), steps, is_overridden=bool(texts))


def export_mlflow(events: PathOrText, run: str, tracking_uri: str, experiment: str) -> "Sent":
    """Send an event log to MLflow: what is not there yet, to the one run of that name."""
    if find_spec("mlflow") is None:
        raise MissingExtraError(
            "Sending to MLflow needs its client, which this installation does not have. "
            "Install it with: pip install '.[mlflow]' in a checkout of Seatrial."
        )
    from seatrial.monitoring.mlflow_export import export  # noqa: PLC0415

    path = Path(events)
    if not path.is_file():
        raise UsageError(f"{path} is no file. Give a run's event log, events.jsonl.")
    return export(read_events(path), run, tracking_uri, experiment)
