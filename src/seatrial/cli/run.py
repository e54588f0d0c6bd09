# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial run`: every step of a run, resuming after the last one that succeeded."""

import shlex
import subprocess
import sys
from typing import Annotated

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.interrupts import on_interrupt
from seatrial.cli.options import NO_NEXT, Overrides, SpecFile, examples
from seatrial.errors import ExitCode, UsageError
from seatrial.reports.terminal import say, say_error, say_text
from seatrial.sdk.pipeline import KEPT, Logbook, PipelineStep, alone, require_all, steps, where
from seatrial.sdk.plan import load_plan

app = typer.Typer(rich_markup_mode=None, add_completion=False)

From = Annotated[
    str, typer.Option("--from", metavar="STEP", help="Repeat this step and all later ones.")
]
Until = Annotated[str, typer.Option(metavar="STEP", help="Stop after this step.")]
Show = Annotated[
    bool, typer.Option("--show", help="List the steps and their state without running any.")
]


@app.command(
    epilog=examples("seatrial run run.yaml", "seatrial run run.yaml --from rehearse --until launch")
)
def command(
    file: SpecFile,
    overrides: Overrides = None,
    begin: From = "",
    until: Until = "",
    show: Show = False,
) -> None:
    """Take a run through every step, from the corpus to the report.

    Each step is a command that you can also run yourself. The pipeline stops at the first step
    that fails or needs your input; rerun the command to continue from there. If the spec changed,
    it starts again from the first step.
    """
    given = tuple(overrides or ())
    again = shlex.join(["seatrial", "run", str(file), *given])
    loaded, plan = load_plan(file, given, default_catalog(), tell=say_error)
    way = steps(file, given, plan)
    names = [step.name for step in way]
    for asked in filter(None, (begin, until)):
        if asked not in names:
            raise UsageError(f"unknown step {asked}. Use one of: {', '.join(names)}.")
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
        _run_steps(way[: last + 1], len(way), book, again, lock)
    if until:
        say(f"Stopped after step {until} (--until).")
        say(f"next  {again}")
        return
    say(f"{plan.spec.name} finished: {len(way)} of {len(way)} steps. To repeat steps: --from STEP.")
    say(f"next  {shlex.join(['seatrial', 'checkpoints', 'list', str(file), *given, *where(plan)])}")


def _run_steps(
    way: tuple[PipelineStep, ...], length: int, book: Logbook, again: str, lock: int
) -> None:
    """Run the remaining steps in order."""
    for number, step in enumerate(way, 1):
        if book.has(step.name):
            continue
        try:
            with on_interrupt(f"Finished steps are kept. To continue: {again}"):
                _do(step, f"{number} of {length}", again, lock)
        except typer.Exit as end:
            if step.name == "wait" and end.exit_code == ExitCode.RUN_FAILED:
                # Waiting again for a finished run would fail again: launch it first.
                book.forget_from(("launch",))
            raise
        book.note(step.name)


def _show(way: tuple[PipelineStep, ...], book: Logbook) -> None:
    """List all steps and their state."""
    ahead = next((step.name for step in way if not book.has(step.name)), "")
    for step in way:
        mark = "done" if book.has(step.name) else "next" if step.name == ahead else ""
        words = f"seatrial {shlex.join(step.words)}"
        say_text(words, f"{mark:<5} {step.name:<9} ", rest=" " * 18)


def _do(step: PipelineStep, place: str, again: str, lock: int) -> None:
    """Run the command of a step. If it fails, exit with its exit code."""
    say_error(f"\n── {place}  {step.name}: {step.says}\n   $ seatrial {shlex.join(step.words)}\n")
    with subprocess.Popen(  # noqa: S603  (our own argv, no shell)
        [sys.executable, "-m", "seatrial", NO_NEXT, *step.words],
        # A step may outlive a killed pipeline; no second pipeline may start while it runs.
        pass_fds=(lock,),
    ) as child:
        try:
            code = child.wait()
        except KeyboardInterrupt:
            # The step got the same Ctrl-C: let it stop its processes and print what it keeps.
            child.wait()
            raise
    if code == 0:
        return
    say_error(f"\nStopped at step {place}, {step.name}. Fix the problem above, then rerun: {again}")
    raise typer.Exit(code if code > 0 else 128 - code)
