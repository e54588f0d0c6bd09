# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial data`: prepare, estimate, verify and inspect training data."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seatrial.cli.data_progress import kept_lines, shown_progress
from seatrial.cli.data_summary import (
    DatasetSummary,
    outcome_as_json,
    say_estimate,
    say_frozen,
    say_outcome,
    say_pieces,
    say_summary,
    summary_of,
)
from seatrial.cli.interrupts import on_interrupt, raise_lost_interrupt
from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, SpecFile, examples
from seatrial.cli.remote import ON_KUBERNETES, On, RemotePlace, Volume, prepare_in_pods
from seatrial.dataprep.drivers.driver import limit_threads
from seatrial.dataprep.excerpts import Document, Piece
from seatrial.errors import ExitCode, UsageError
from seatrial.findings import Finding, has_errors
from seatrial.reports.terminal import (
    count_line,
    say,
    say_error,
    say_findings,
    say_following,
    say_json,
    seatrial_words,
)
from seatrial.sdk.data import (
    build_index_cache,
    estimate_data,
    freeze_data,
    inspect_data,
    prepare_data,
    read_again,
    refuse_secret,
)
from seatrial.sdk.plan import load_spec
from seatrial.storage.state_files import decode

if TYPE_CHECKING:
    from seatrial.dataprep.inspection import Inspection
    from seatrial.dataprep.prepare import PreparationOutcome
    from seatrial.dataprep.progress import Progress

app = typer.Typer(
    help="Prepare, estimate, verify and inspect training data.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


class DriverChoice(StrEnum):
    """The programs that can run tasks."""

    LOCAL = "local"
    RAY = "ray"
    PODS = "pods"


Where = Annotated[
    str,
    typer.Argument(
        metavar="RUN.YAML|DIR", help="A run's spec, or the location of a prepared dataset."
    ),
]


@app.callback()
def begin() -> None:
    """Limit tokenizers to one thread per process."""
    limit_threads()


@app.command(
    epilog=examples(
        "seatrial data prepare run.yaml", "seatrial data prepare run.yaml --on kubernetes"
    )
)
def prepare(
    file: SpecFile,
    overrides: Overrides = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="The output directory. Default: data.location."),
    ] = None,
    driver: Annotated[
        DriverChoice, typer.Option(help="The program that runs the tasks.")
    ] = DriverChoice.LOCAL,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Parallel processes. Default: one per core.")
    ] = None,
    on: Annotated[
        RemotePlace, typer.Option(help="Run here, or in pods on the cluster.")
    ] = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    list_only: Annotated[
        bool,
        typer.Option("--list-only", help="Write the task list only, and print how to run a task."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Prepare a run's data: turn raw text into verified .bin and .idx files, and a blend.

    If it is interrupted, rerun it to continue. Needs the data extra.
    """
    refuse_secret(to)
    if on is RemotePlace.KUBERNETES:
        if to or list_only or driver is not DriverChoice.LOCAL or workers:
            raise UsageError(
                "--on kubernetes uses data.location and cluster.preparation of the spec. "
                "Omit --to, --driver, --workers and --list-only."
            )
        prepare_in_pods(file, overrides or (), kubeconfig, context, as_json=as_json)
        return
    if list_only:
        _freeze(file, overrides or (), to, as_json=as_json)
        return
    name = load_spec(file, overrides or ()).name
    outcome = _prepared(file, overrides or (), to, driver, workers, quiet=as_json)
    cache = build_index_cache(file, overrides or (), found_at=outcome.address)
    if as_json:
        say_json(outcome_as_json(outcome, cache))
    else:
        if outcome.findings:
            say_findings(outcome.findings, sys.stdout)
            say(f"\n{count_line(outcome.findings)}")
        say_outcome(name, outcome, cache, str(file))
    if has_errors(outcome.findings):
        raise typer.Exit(ExitCode.FINDINGS)


def _prepared(
    file: Path,
    overrides: Sequence[str],
    to: str | None,
    driver: DriverChoice,
    workers: int | None,
    *,
    quiet: bool,
) -> "PreparationOutcome":
    """Prepare the data and show the progress; after Ctrl-C, print how to continue."""
    latest: list[Progress] = []
    words: list[object] = ["data", "prepare", file, *overrides]
    words += ["--to", to] if to else []
    words += ["--driver", driver] if driver is not DriverChoice.LOCAL else []
    words += ["--workers", workers] if workers else []

    def kept() -> str:
        return kept_lines(latest[0] if latest else None, seatrial_words(*words))

    with on_interrupt(kept), shown_progress(quiet=quiet) as show:

        def tell(progress: "Progress") -> None:
            latest[:] = [progress]
            raise_lost_interrupt()
            show(progress)

        return prepare_data(file, overrides, to=to, driver=driver, workers=workers, tell=tell)


def _freeze(file: Path, overrides: Sequence[str], to: str | None, *, as_json: bool) -> None:
    """Write the task list, and print how to run a task."""
    frozen = freeze_data(file, overrides, to=to)
    if as_json:
        say_json(asdict(frozen))
    else:
        say_frozen(frozen, str(file), overrides, to)


@app.command(
    epilog=examples("seatrial data estimate run.yaml", "seatrial data estimate run.yaml --cores 96")
)
def estimate(
    file: SpecFile,
    overrides: Overrides = None,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores to assume. Default: the cores on this host.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimate the tokens, disk space, core-hours and time of a preparation from a sample.

    Reads small parts of some files in every source. Needs the data extra.
    """
    found = estimate_data(file, overrides or (), cores=cores)
    if as_json:
        say_json(asdict(found))
    else:
        say_estimate(found, str(file))


@app.command(
    epilog=examples(
        "seatrial data verify run.yaml", "seatrial data verify s3://bucket/prepared --json"
    )
)
def verify(
    where: Where,
    overrides: Overrides = None,
    on: On = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Read a prepared dataset completely and compare it with its record.

    Exit code 1 if anything differs. Needs the data extra, or the cluster extra with --on
    kubernetes.
    """
    refuse_secret(where)
    if on is RemotePlace.KUBERNETES:
        answer = Volume(where, overrides, kubeconfig, context).ask(
            lambda plan: ["data", "verify", plan.data_location], as_json=as_json
        )
        data, findings = answer.read(_verified)
        _say_verified(where, data, findings, ON_KUBERNETES)
        return
    found = read_again(where, overrides or ())
    data, findings = summary_of(found.record, found.address), found.findings
    if not as_json:
        _say_verified(where, data, findings)
        return
    say_json(asdict(data) | {"findings": [finding.to_dict() for finding in findings]})
    if has_errors(findings):
        raise typer.Exit(ExitCode.FINDINGS)


def _verified(answer: Any) -> tuple[DatasetSummary, tuple[Finding, ...]]:
    """Read the answer of `verify --json`."""
    findings = tuple(decode(Finding, each) for each in answer["findings"])
    return decode(DatasetSummary, answer), findings


def _say_verified(
    where: str, data: DatasetSummary, findings: Sequence[Finding], options: str = ""
) -> None:
    """Print the result of a verification. Exit code 1 if there are errors."""
    say_findings(findings)
    if findings:
        say_error(f"\n{count_line(findings)}")
    if has_errors(findings):
        raise typer.Exit(ExitCode.FINDINGS)
    say_summary(data.address, data)
    say("verified  sizes, digests, pointers, ids, document ends and counts are correct")
    if not findings:
        say("          sampled documents decode and encode to the same tokens")
    say_following(f"seatrial data inspect {where}{options}", "next      ")


@app.command(
    epilog=examples(
        "seatrial data inspect run.yaml --document 0", "seatrial data inspect run.yaml --bytes 0:34"
    )
)
def inspect(
    where: Where,
    overrides: Overrides = None,
    file: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A file in the dataset. Default: the first."),
    ] = None,
    document: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Show this document as text.")
    ] = None,
    byte_range: Annotated[
        str | None,
        typer.Option("--bytes", metavar="START:END", help="Explain these bytes in the file."),
    ] = None,
    on: On = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Show the content of a prepared dataset: documents as text, or the meaning of a byte range.

    --file accepts a name that ends in .bin or .idx; a name without a suffix means the .bin file.
    Needs the data extra, or the cluster extra with --on kubernetes.
    """
    refuse_secret(where)
    if document is not None and byte_range is not None:
        raise UsageError("--document and --bytes are mutually exclusive. Use one of them.")
    if on is RemotePlace.KUBERNETES:
        answer = Volume(where, overrides, kubeconfig, context).ask(
            lambda plan: ["data", "inspect", plan.data_location],
            {"--file": file, "--document": document, "--bytes": byte_range},
            as_json=as_json,
        )
        if byte_range is not None:
            say_pieces(answer.read(lambda data: [decode(Piece, each) for each in data]))
        elif document is not None:
            _say_document(answer.read(lambda data: decode(Document, data)))
        else:
            _say_overview(where, *answer.read(_overview), ON_KUBERNETES)
        return
    inspection = inspect_data(where, overrides or (), file=file)
    if byte_range is not None:
        pieces = inspection.explain(*_range(byte_range))
        say_json([asdict(piece) for piece in pieces]) if as_json else say_pieces(pieces)
    elif document is not None:
        found = inspection.document(document)
        say_json(asdict(found)) if as_json else _say_document(found)
    else:
        _inspect_all(where, inspection, as_json=as_json)


def _inspect_all(where: str, inspection: "Inspection", *, as_json: bool) -> None:
    """Print the content of a dataset and the start of its first document."""
    data = summary_of(inspection.record, inspection.address)
    preview = inspection.document(0).preview() if inspection.file.documents or not as_json else ""
    if as_json:
        say_json(asdict(data) | {"preview": preview})
    else:
        _say_overview(where, data, preview)


def _overview(answer: Any) -> tuple[DatasetSummary, str]:
    """Read the answer of `inspect --json`."""
    return decode(DatasetSummary, answer), str(answer["preview"])


def _say_overview(where: str, data: DatasetSummary, preview: str, options: str = "") -> None:
    say_summary(data.address, data)
    say()
    say(preview)
    say()
    say_following(f"seatrial data inspect {where} --document 0{options}", "next      ")


def _say_document(found: Document) -> None:
    say(found.heading)
    say(found.text)


def _range(text: str) -> tuple[int, int]:
    """Parse a byte range into its start and end."""
    start, colon, end = text.partition(":")
    if not (colon and start.isdigit() and end.isdigit() and int(start) < int(end)):
        raise UsageError(f"--bytes {text} is not a range. Example: --bytes 0:34.")
    return int(start), int(end)
