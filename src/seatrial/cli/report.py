# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial report`: what a run was like, in one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.cluster_options import Context, Kubeconfig, Namespace
from seatrial.cli.files import write_new
from seatrial.cli.history_options import history_of
from seatrial.cli.output import say, say_following, say_json
from seatrial.cli.page.chapter import Chapter, read_chapter
from seatrial.cli.page.page import MARK, plotting_library, report_page
from seatrial.cli.parameters import Json
from seatrial.cli.run_words import goodput_words, loss_words, percent, span
from seatrial.errors import UsageError
from seatrial.runs.history import RunHistory

app = typer.Typer(rich_markup_mode=None, add_completion=False)

MARKED_WITHIN = 4096
"""Bytes at the beginning of a file among which the mark is."""


@app.command()
def command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="A run's name or spec, a directory, a file (event log, or what Megatron-LM or "
            "Composer printed), or - for standard input. Several with --compare.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page to write; NAME-report.html when absent."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show several runs side by side.")
    ] = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Write what a run was like into one HTML file, which needs no network.

    Curves, restarts and their causes, where the time went, checkpoints, plan against measured.
    Needs the report extra.
    """
    if len(runs) > 1 and not compare:
        raise UsageError("several runs are shown side by side with --compare.")
    if compare and len(runs) < 2:
        raise UsageError("--compare needs two runs or more.")
    # Before what takes long.
    plotting_library()
    if output is not None:
        refuse_other_file(output)
    chapters = _chapters([history_of(run, namespace, kubeconfig, context) for run in runs], runs)
    target = output or Path(f"{'-'.join(c.name.replace(' ', '-') for c in chapters)}-report.html")
    refuse_other_file(target)
    write_new(target, report_page(chapters), force=True)
    if as_json:
        say_json({"page": str(target), "runs": [chapter.to_dict() for chapter in chapters]})
        return
    for chapter in chapters:
        say(_line(chapter))
    say(f"report    {target}, {target.stat().st_size / 1e6:.1f} MB")
    failed = [run for run, chapter in zip(runs, chapters, strict=True) if chapter.has_failed]
    for run in failed:
        say(f"next      seatrial diagnose {run}")
    if not failed:
        say_following(f"open {target} in a browser", "next      ")


def _chapters(histories: list[RunHistory], runs: list[str]) -> list[Chapter]:
    """The runs read; those of one name are told apart by what they were called by."""
    names = [history.name for history in histories]
    return [
        read_chapter(history, run if names.count(history.name) > 1 else "")
        for history, run in zip(histories, runs, strict=True)
    ]


def _line(chapter: Chapter) -> str:
    """A run in a line, and where its time went."""
    now, spent = chapter.snapshot, chapter.spent
    steps = f"step {now.step:,}" + (f" of {now.total_steps:,}" if now.total_steps else "")
    words = f"{chapter.name}  {steps} · loss {loss_words(now.loss)}"
    if spent.wall:
        words += f" · goodput {percent(spent.share)} of {span(spent.wall)}"
        words += f"\ntime      {goodput_words(spent)}"
    return words


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
