# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The command `seatrial calibrate`: fit the planner to a few measured steps."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import Json, Overrides, SpecFile
from seatrial.errors import UsageError
from seatrial.planning.calibration import NINE_OF_TEN
from seatrial.reports.terminal import say_error, say_json, say_text
from seatrial.runs.calibrate import Calibrated
from seatrial.sdk.history import calibrate
from seatrial.sdk.plan import load_spec

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EventsOption = Annotated[
    Path | None, typer.Option("--events", help="The event log of the run that was measured.")
]
SecondsOption = Annotated[
    str | None,
    typer.Option("--seconds", help="Times of steps instead, such as 12.1,12.3,12.2."),
]


@app.command()
def command(
    file: SpecFile,
    overrides: Overrides = None,
    events: EventsOption = None,
    seconds: SecondsOption = None,
    as_json: Json = False,
) -> None:
    """Calibrate the planner: measured steps of a run set one factor for its machines.

    Takes at least three steps from the run's event log, or their times. The plan of the spec then
    uses the factor, as long as accelerator, node type, fabric, engine and precision stay the same.
    """
    if (events is None) == (seconds is None):
        raise UsageError("give either --events with the run's event log, or --seconds with times.")
    measured = events if events is not None else _times(seconds or "")
    result = calibrate(file, measured, overrides or ())
    if result.news:
        say_error(result.news)
    if as_json:
        say_json(_data(result))
    else:
        for line in _lines(result, load_spec(file, overrides or ()).name, file):
            say_text(line, rest=" " * 11)


def _times(text: str) -> list[float]:
    """Times as they were given."""
    times = []
    for part in text.split(","):
        try:
            time = float(part)
        except ValueError:
            time = 0.0
        if not 0 < time < float("inf"):
            raise UsageError(
                f"--seconds {text}: {part.strip() or 'nothing'} is not a time. "
                "Use seconds separated by commas, such as 12.1,12.3,12.2."
            )
        times.append(time)
    return times


def _lines(result: Calibrated, name: str, spec_file: Path) -> list[str]:
    """What was measured, what it means, and what comes next."""
    found = result.calibration
    left = [
        f"{count} {word}"
        for count, word in (
            (found.warm_up, "right after a start"),
            (found.outliers, "far from the others"),
        )
        if count
    ]
    steps = f"{found.steps} steps count" + (f", not {' and '.join(left)}" if left else "")
    on = ", ".join(value for value in found.measured_on.values() if value)
    return [
        f"{name}   {steps}",
        f"measured   {found.measured:.4g} s a step, half of the steps within {found.spread:.1%}",
        f"predicted  {found.predicted:.4g} s before, {found.error_before:+.1%}; with the factor "
        f"{found.scale * found.predicted:.4g} s, {found.error_after:+.1%}",
        f"factor     {found.scale:.3f} ± {NINE_OF_TEN * found.deviation:.1%}, for {on}",
        f"this one   nine of ten steps of this layout within {found.own_error.nine_of_ten:.1%}",
        f"others     {_of_others(result)}; of layouts far from this one expect more",
        f"kept       {result.file}",
        f"next       seatrial plan {spec_file}",
    ]


def _of_others(result: Calibrated) -> str:
    """The error of other layouts, and of which published runs it is."""
    before, after = result.before, result.after
    said = f"{after.median:.0%} off in the median, nine of ten layouts within "
    if after.nine_of_ten < before.nine_of_ten:
        return (
            f"{said}{after.nine_of_ten:.0%} (before: {before.nine_of_ten:.0%}), as of published "
            "sources that were calibrated on five of their layouts"
        )
    return (
        f"{said}{after.nine_of_ten:.0%}, as of published runs that were not fitted; that a factor "
        "narrows it is not shown"
    )


def _data(result: Calibrated) -> dict[str, object]:
    """The same for programs."""
    return {
        **asdict(result.calibration),
        "measured_layout_error": asdict(result.calibration.own_error),
        "error_before": result.calibration.error_before,
        "expected_error_before": asdict(result.before),
        "expected_error_after": asdict(result.after),
        "file": str(result.file),
    }
