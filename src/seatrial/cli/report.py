# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial report`: an HTML report of a run."""

from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import HISTORY_HELP, Context, Json, Kubeconfig, Namespace, examples
from seatrial.errors import UsageError
from seatrial.reports.run_page.chapter import Chapter
from seatrial.reports.run_phrases import goodput_words, loss_words, percent, span
from seatrial.reports.terminal import say, say_error, say_following, say_json
from seatrial.sdk.history import HistoryPlace, report

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(
    epilog=examples("seatrial report my-run", "seatrial report --compare run-1 run-2 -o both.html")
)
def command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help=f"{HISTORY_HELP} Several with --compare.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The file to write. Default: NAME-report.html."
        ),
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Compare several runs.")] = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Write an HTML report of a run to a single file that works offline.

    Shows curves, restarts and their causes, how the time was spent, checkpoints, and planned versus
    measured values. Needs the report extra.
    """
    if len(runs) > 1 and not compare:
        raise UsageError("to report on several runs, add --compare.")
    if compare and len(runs) < 2:
        raise UsageError("--compare needs at least two runs.")
    place = HistoryPlace(namespace, kubeconfig, context, tell=say_error)
    made = report(runs, output, place=place)
    target, chapters = made.page, made.chapters
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


def _line(chapter: Chapter) -> str:
    """Summarise a run and how its time was spent."""
    now, spent = chapter.snapshot, chapter.spent
    of_all = f" of {now.total_steps:,}" if now.total_steps else ""
    if now.step or now.loss is not None:
        words = f"{chapter.name}  step {now.step:,}{of_all} · loss {loss_words(now.loss)}"
    else:
        words = f"{chapter.name}  no step{of_all} was finished"
    if spent.wall:
        words += f" · goodput {percent(spent.share)} of {span(spent.wall)}"
        words += f"\ntime      {goodput_words(spent)}"
    return words
