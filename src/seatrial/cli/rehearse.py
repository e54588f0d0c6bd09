# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial rehearse`: train a small twin of a run on this host's CPU with the real engine."""

import sys
import time
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Annotated

import typer

from seatrial.cli.data_progress import format_seconds
from seatrial.cli.full_size_text import say_full_size
from seatrial.cli.interrupts import on_interrupt
from seatrial.cli.options import Json, Overrides, SpecFile, examples
from seatrial.engines.registry import ENGINES
from seatrial.errors import ExitCode
from seatrial.planning.plan import Plan
from seatrial.rehearsal.drills import USUAL_DRILLS, Announce, DrillName, Result, steps_of
from seatrial.rehearsal.rehearse import KEPT
from seatrial.rehearsal.twin import PEAK_LEARNING_RATE, STEPS, Twin, degrees_of
from seatrial.reports.terminal import (
    columns,
    say,
    say_error,
    say_following,
    say_json,
    say_text,
    seatrial_words,
)
from seatrial.sdk.rehearse import RehearsalWatch, Rehearsed, rehearse

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(
    epilog=examples(
        "seatrial rehearse run.yaml",
        "seatrial rehearse run.yaml --drill kill",
        "seatrial rehearse run.yaml --full-size",
    )
)
def command(
    file: SpecFile,
    overrides: Overrides = None,
    drill: Annotated[DrillName | None, typer.Option(help="Run only this drill.")] = None,
    arguments_only: Annotated[
        bool,
        typer.Option(
            "--arguments-only",
            help="Only have the engine parse the production arguments at the real world size.",
        ),
    ] = False,
    full_size: Annotated[
        bool,
        typer.Option(
            "--full-size",
            help="Only count memory and communication of the real run, rank by rank, without GPUs.",
        ),
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="The seed of an earlier rehearsal, to repeat its kill drill.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Rehearse a run: train a small twin of it on this host's CPU with the real engine.

    The drills train, kill a process and resume, reshard the checkpoint, evaluate, and export the
    weights. With --full-size, the engine instead runs one step of each kind of rank of the real run
    without data, and counts what it needs. Needs the worker extra.
    """
    chosen = _chosen(drill, arguments_only=arguments_only, full_size=full_size)
    twins: list[Twin] = []

    def began(plan: Plan, found: Sequence[Twin]) -> None:
        twins.extend(found)
        for twin in () if as_json else found:
            say_text(_headline(twin, plan.spec.name), rest="  ")

    def drilled(result: Result) -> None:
        if not as_json:
            _clear()
            _say_result(result, many=len(twins) > 1)
            if result.counted is not None:
                say_full_size(result.counted)

    again = seatrial_words("rehearse", file, *overrides or ())
    with on_interrupt(f"Logs are kept in .seatrial. To rehearse again: {again}"):
        done = rehearse(
            file,
            overrides or (),
            drills=chosen,
            seed=seed,
            watch=RehearsalWatch(say_error, began, _announcer(quiet=as_json), drilled),
        )
    if as_json:
        say_json(done.report.to_dict())
    else:
        _conclude(done, twins)
        _say_next(done, seatrial_words("launch", file, *overrides or ()))
    if not done.report.ok:
        raise typer.Exit(ExitCode.FINDINGS)


def _say_next(done: Rehearsed, command: str) -> None:
    if done.report.ok:
        say_following(command, "next    ")
    else:
        say(f"next    seatrial diagnose {done.file.parent}")


def _chosen(
    drill: DrillName | None, *, arguments_only: bool, full_size: bool
) -> tuple[DrillName, ...]:
    """Return the drills that the options name."""
    named = [
        *([DrillName.ARGUMENTS] if arguments_only else []),
        *([DrillName.FULL_SIZE] if full_size else []),
        *([drill] if drill else []),
    ]
    return tuple(dict.fromkeys(named)) or USUAL_DRILLS


def _headline(twin: Twin, name: str) -> str:
    """Describe the twin in one line."""
    model, count = twin.plan.model, len(twin.data.files)
    data = f"your data ({count} file{'s' * (count > 1)})" if count else "mock data"
    shape = f"{model.architecture.layers} layers × {model.architecture.hidden_size}"
    engine = ENGINES[twin.plan.spec.engine.name]
    return (
        f"Twin of {name}: {engine.name} {engine.version} on CPU, "
        f"{twin.plan.layout.world_size} processes ({twin.layout_words}), {shape}, "
        f"sequence {model.sequence_length}, {data}"
    )


def _say_result(result: Result, *, many: bool) -> None:
    """Print a drill's result, in one line if it fits."""
    verdict = ("ok" if result.judged else "?") if result.ok else "FAILED"
    text = result.said + (f" [{result.twin}]" if many and result.twin else "")
    width = columns()
    if width is None or width >= WIDE:
        *above, last = wrap(text, RESULT_WIDTH) or [""]
        drill = result.drill.value
        for line in above:
            say(f"  {drill:<10} {line}")
            drill = ""
        say(f"  {drill:<10} {last:<{RESULT_WIDTH}} {verdict:<6} {result.seconds:4.0f} s")
    else:
        say_text(f"{text}   {verdict} {result.seconds:.0f} s", f"  {result.drill:<10} ")


def _conclude(done: Rehearsed, found: list[Twin]) -> None:
    """Print what the twin kept and changed, what a CPU cannot prove, and the report's path."""
    plan = done.plan
    if found:
        say_text(f"Kept: {KEPT}. Shrunk: {_shrunk(plan, found)}.", rest="  ")
        replaced = dict.fromkeys(text for twin in found for text in twin.replaced)
        if plan.schedule.peak < PEAK_LEARNING_RATE:
            replaced[_peaks(plan)] = None
        if replaced:
            say_text(f"Replaced: {'; '.join(replaced)}.", rest="  ")
    say_text(f"Not proven on a CPU: {', '.join(done.report.not_proven)}.", rest="  ")
    say(f"report  {done.file}")


def _shrunk(plan: Plan, found: list[Twin]) -> str:
    """List the sizes that the twins reduce, with both values."""
    whole, small = plan.model, found[0].plan.model
    sizes = [
        (name, getattr(plan.layout, f"{name}_size"), _largest(found, name))
        for name in ("tp", "pp", "cp", "dp")
    ]
    sizes += [
        ("layers", whole.architecture.layers, small.architecture.layers),
        ("width", whole.architecture.hidden_size, small.architecture.hidden_size),
        ("sequence", whole.sequence_length, small.sequence_length),
        ("steps", plan.length.steps, STEPS),
    ]
    parts = [f"{name} {size:,} → {less}" for name, size, less in sizes if size > less]
    if plan.schedule.peak > PEAK_LEARNING_RATE:
        parts.append(_peaks(plan))
    return ", ".join(parts) or "nothing"


def _peaks(plan: Plan) -> str:
    """Describe the peak learning rates of the run and of the twins."""
    return f"peak learning rate {plan.schedule.peak:g} → {PEAK_LEARNING_RATE:g}"


def _largest(found: list[Twin], name: str) -> int:
    """Return the largest parallel size of a kind among the twins."""
    return max(degrees_of(twin.plan.layout)[name] for twin in found)


WIDE = 96
"""The columns of a drill's result in one line."""
RESULT_WIDTH = 72
"""The columns for the text of the result."""
CLEARED = 78
"""The columns of a progress line."""
QUIET_SECONDS = 30.0
"""How often progress is printed without a terminal."""


class TimeLeft:
    """Estimates how long the steps that remain in one training of a drill take."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._training = ("", "")
        self._first: tuple[int, float] | None = None

    def words(self, drill: str, doing: str, step: int) -> str:
        """Return `, about 40 s left`, from the steps since the first; empty if it is unknown."""
        if (drill, doing) != self._training:
            self._training, self._first = (drill, doing), None
        # The start is slow, and a training that resumes does not begin at step 1.
        if self._first is None and step:
            self._first = (step, self._now())
        last = steps_of(doing)
        if self._first is None or not self._first[0] < step < last:
            return ""
        begun, since = self._first
        seconds = (self._now() - since) / (step - begun) * (last - step)
        return f", about {format_seconds(seconds)} left"


def _announcer(*, quiet: bool) -> Announce:
    """Return a callback that shows a drill's progress: a bar on a terminal, else lines."""
    printed = time.monotonic()
    left = TimeLeft()

    def announce(drill: DrillName, doing: str, step: int) -> None:
        nonlocal printed
        if quiet:
            return
        counts = drill is DrillName.FULL_SIZE
        last = 100 if counts else steps_of(doing)
        steps = f", step {step} of {last}{left.words(drill, doing, step)}"
        words = doing if counts else f"{doing}{steps}"
        if sys.stderr.isatty():
            done = round(20 * min(step, last) / last)
            bar = "█" * done + "░" * (20 - done)
            # Shorter words must not leave the end of longer ones on the line.
            sys.stderr.write(f"\r  {drill:<10} {bar} {words:<{CLEARED - 34}}")
            sys.stderr.flush()
        elif time.monotonic() - printed >= QUIET_SECONDS:
            printed = time.monotonic()
            say_error(f"  {drill}: {words}")

    return announce


def _clear() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r" + " " * CLEARED + "\r")
