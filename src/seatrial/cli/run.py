# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial run`: the whole way of a run, step by step; it goes on where it stopped."""

import shlex
import subprocess
import sys
from typing import Annotated

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.options import NO_NEXT, Overrides, SpecFile
from seatrial.errors import ExitCode, UsageError
from seatrial.reports.terminal import say, say_error, say_text
from seatrial.sdk.pipeline import KEPT, Logbook, PipelineStep, alone, require_all, steps, where
from seatrial.sdk.plan import load_plan

app = typer.Typer(rich_markup_mode=None, add_completion=False)

From = Annotated[
    str, typer.Option("--from", metavar="STEP", help="Do this step and those after it again.")
]
Until = Annotated[str, typer.Option(metavar="STEP", help="Stop after this step.")]
Show = Annotated[bool, typer.Option("--show", help="Show the steps and how far it is; do none.")]


@app.command()
def command(
    file: SpecFile,
    overrides: Overrides = None,
    begin: From = "",
    until: Until = "",
    show: Show = False,
) -> None:
    """Walk a run through all of its steps, from the corpus to the report.

    Each step is a command of its own. The first that needs you stops the walk; called again, it
    goes on from there. A changed spec begins anew.
    """
    given = tuple(overrides or ())
    again = shlex.join(["seatrial", "run", str(file), *given])
    loaded, plan = load_plan(file, given, default_catalog(), tell=say_error)
    way = steps(file, given, plan)
    names = [step.name for step in way]
    for asked in filter(None, (begin, until)):
        if asked not in names:
            raise UsageError(f"there is no step {asked}. The steps: {', '.join(names)}.")
    kept = file.parent / ".seatrial" / plan.spec.name
    wanted = loaded.spec.model_dump(mode="json")
    if show:
        _show(way, Logbook(kept / KEPT, wanted))
        return
    with alone(kept, plan.spec.name) as lock:
        book = Logbook(kept / KEPT, wanted)
        if begin:
            book.forget_from(tuple(names[names.index(begin) :]))
        last = names.index(until) if until else len(way) - 1
        require_all([step for step in way[: last + 1] if not book.has(step.name)], plan)
        _walk(way[: last + 1], len(way), book, again, lock)
    if until:
        say(f"Stopped after {until}, as asked.")
        say(f"next  {again}")
        return
    say(f"{plan.spec.name} has come all the way: {len(way)} steps. Again: --from STEP.")
    say(f"next  {shlex.join(['seatrial', 'checkpoints', 'list', str(file), *given, *where(plan)])}")


def _walk(way: tuple[PipelineStep, ...], length: int, book: Logbook, again: str, lock: int) -> None:
    """The steps that are not done, one after the other."""
    for number, step in enumerate(way, 1):
        if book.has(step.name):
            continue
        try:
            _do(step, f"{number} of {length}", again, lock)
        except typer.Exit as end:
            if step.name == "wait" and end.exit_code == ExitCode.RUN_FAILED:
                # To wait again for a run that is over would help nobody.
                book.forget_from(("launch",))
            raise
        book.note(step.name)


def _show(way: tuple[PipelineStep, ...], book: Logbook) -> None:
    """All steps, and which are done."""
    ahead = next((step.name for step in way if not book.has(step.name)), "")
    for step in way:
        mark = "done" if book.has(step.name) else "next" if step.name == ahead else ""
        words = f"seatrial {shlex.join(step.words)}"
        say_text(words, f"{mark:<5} {step.name:<9} ", rest=" " * 18)


def _do(step: PipelineStep, place: str, again: str, lock: int) -> None:
    """One step, as if its command were called; its end ends the walk where it is not good."""
    say_error(f"\n── {place}  {step.name}: {step.says}\n   $ seatrial {shlex.join(step.words)}\n")
    done = subprocess.run(  # noqa: S603  (our own words, no shell)
        [sys.executable, "-m", "seatrial", NO_NEXT, *step.words],
        # A step may outlive a walk that is killed, and the next walk must not begin beside it.
        pass_fds=(lock,),
        check=False,
    )
    if done.returncode == 0:
        return
    say_error(f"\nStopped at {place}, {step.name}. Once that is mended, go on with: {again}")
    raise typer.Exit(done.returncode if done.returncode > 0 else 128 - done.returncode)
