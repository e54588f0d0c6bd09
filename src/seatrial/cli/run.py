# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial run`: every step of a run, resuming after the last one that succeeded."""

import shlex
from typing import Annotated

import typer

from seatrial.cli.interrupts import on_interrupt
from seatrial.cli.options import Overrides, SpecFile, examples
from seatrial.errors import ExitCode
from seatrial.reports.terminal import say, say_error, say_text
from seatrial.sdk.pipeline import PipelineState, PipelineStep, pipeline, run_pipeline, where

app = typer.Typer(rich_markup_mode=None, add_completion=False)

SIGNALLED = 128
"""The exit code of a command that a signal ended is this plus the signal's number."""

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
    if show:
        _show(pipeline(file, given, tell=say_error))
        return
    with on_interrupt(f"Finished steps are kept. To continue: {again}"):
        done = run_pipeline(
            file, given, start=begin, until=until, before_step=_announce, tell=say_error
        )
    if done.failed is not None:
        place = f"{done.place(done.failed)}, {done.failed.name}"
        say_error(f"\nStopped at step {place}. {_remedy(done, again)}")
        raise typer.Exit(done.exit_code)
    if until:
        say(f"Stopped after step {until} (--until).")
        say(f"next  {again}")
        return
    number = len(done.steps)
    name = done.plan.spec.name
    say(f"{name} finished: {number} of {number} steps. To repeat steps: --from STEP.")
    listing = ["seatrial", "checkpoints", "list", str(file), *given, *where(done.plan)]
    say(f"next  {shlex.join(listing)}")


def _remedy(done: PipelineState, again: str) -> str:
    """Return what to do after a step that failed."""
    name = done.plan.spec.name
    if done.failed is not None and done.failed.name == "wait":
        if done.exit_code == ExitCode.RUN_FAILED:
            return (
                f"{name} was stopped or has failed. For the cause: seatrial diagnose {name}. To "
                f"launch it again from its last checkpoint: {again}"
            )
        return f"{name} may still be running. To wait for it again: {again}"
    if done.exit_code > SIGNALLED:
        return f"Signal {done.exit_code - SIGNALLED} ended the command. To repeat it: {again}"
    return f"Fix the problem above, then rerun: {again}"


def _show(state: PipelineState) -> None:
    """List all steps and their state."""
    ahead = next((step.name for step in state.steps if step.name not in state.done), "")
    for step in state.steps:
        mark = "done" if step.name in state.done else "next" if step.name == ahead else ""
        words = f"seatrial {shlex.join(step.words)}"
        say_text(words, f"{mark:<5} {step.name:<9} ", rest=" " * 18)


def _announce(step: PipelineStep, state: PipelineState) -> None:
    place = state.place(step)
    say_error(f"\n── {place}  {step.name}: {step.says}\n   $ seatrial {shlex.join(step.words)}\n")
