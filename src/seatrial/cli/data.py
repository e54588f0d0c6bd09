# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial data`: prepare, estimate, verify and inspect training data."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seatrial.cli.data_progress import kept_lines, shown_progress
from seatrial.cli.data_summary import (
    outcome_as_json,
    record_as_json,
    say_estimate,
    say_frozen,
    say_outcome,
    say_pieces,
    say_record,
)
from seatrial.cli.interrupts import on_interrupt
from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, SpecFile, examples
from seatrial.cli.remote import On, RemotePlace, Volume, prepare_in_pods
from seatrial.dataprep.drivers.driver import limit_threads
from seatrial.errors import ExitCode, UsageError
from seatrial.findings import has_errors
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

if TYPE_CHECKING:
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
        int | None, typer.Option(min=1, help="Cores to assume. Default: the cores of this host.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimate tokens, disk space, core-hours and time of the preparation from a sample.

    Reads small parts of some files of every source. Needs the data extra.
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
        Volume(where, overrides, kubeconfig, context).run(
            lambda plan: ["data", "verify", plan.data_location],
            {"--json": as_json},
            following=f"seatrial data inspect {where} --on kubernetes",
        )
    found = read_again(where, overrides or ())
    address, record, findings = found.address, found.record, found.findings
    if as_json:
        data = record_as_json(record, address)
        say_json(data | {"findings": [finding.to_dict() for finding in findings]})
    else:
        say_findings(findings)
        if findings:
            say_error(f"\n{count_line(findings)}")
        if not has_errors(findings):
            say_record(address, record, address)
            say("verified  sizes, digests, pointers, ids, document ends and counts are correct")
            if not findings:
                say("          sampled documents decode and encode to the same tokens")
            say_following(f"seatrial data inspect {where}", "next      ")
    if has_errors(findings):
        raise typer.Exit(ExitCode.FINDINGS)


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
        typer.Option(metavar="NAME", help="A file of the dataset. Default: the first."),
    ] = None,
    document: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Show this document as text.")
    ] = None,
    byte_range: Annotated[
        str | None,
        typer.Option("--bytes", metavar="START:END", help="Explain these bytes of the file."),
    ] = None,
    on: On = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Show the content of a prepared dataset: documents as text, or the meaning of any bytes.

    --file takes a name that ends in .bin or .idx; without a suffix, it means the .bin file. Needs
    the data extra, or the cluster extra with --on kubernetes.
    """
    refuse_secret(where)
    if on is RemotePlace.KUBERNETES:
        asked = {"--file": file, "--document": document, "--bytes": byte_range}
        Volume(where, overrides, kubeconfig, context).run(
            lambda plan: ["data", "inspect", plan.data_location],
            {**asked, "--json": as_json},
            following=_inspect_next(where) if document is None and byte_range is None else "",
        )
    inspection = inspect_data(where, overrides or (), file=file)
    if document is not None and byte_range is not None:
        raise UsageError("--document and --bytes exclude each other. Use one of them.")
    if byte_range is not None:
        explained = inspection.explain(*_range(byte_range))
        if as_json:
            say_json([asdict(piece) for piece in explained])
            return
        say_pieces(explained)
        return
    if document is not None:
        found = inspection.document(document)
        if as_json:
            say_json(asdict(found))
            return
        say(found.heading)
        say(found.text)
        return
    if as_json:
        say_json(record_as_json(inspection.record, inspection.address))
        return
    say_record(inspection.address, inspection.record, inspection.address)
    say()
    say(inspection.document(0).preview())
    say()
    say_following(f"seatrial data inspect {where} --document 0", "next      ")


def _inspect_next(where: str) -> str:
    return f"seatrial data inspect {where} --document 0 --on kubernetes"


def _range(text: str) -> tuple[int, int]:
    """Read the start and the end of a byte range."""
    start, colon, end = text.partition(":")
    if not (colon and start.isdigit() and end.isdigit() and int(start) < int(end)):
        raise UsageError(f"--bytes {text} is not a range. Example: --bytes 0:34.")
    return int(start), int(end)
