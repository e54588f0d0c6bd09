# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial calibrate`: calibrate the planner with measured step times."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import Json, Overrides, SpecFile, examples
from seatrial.errors import UsageError
from seatrial.planning.calibration import NINE_OF_TEN
from seatrial.reports.terminal import say_error, say_json, say_text
from seatrial.runs.calibrate import Calibrated
from seatrial.sdk.history import calibrate
from seatrial.sdk.plan import load_spec

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EventsOption = Annotated[
    Path | None, typer.Option("--events", help="The event log of the measured run.")
]
SecondsOption = Annotated[
    str | None,
    typer.Option("--seconds", help="Step times in seconds, such as 12.1,12.3,12.2."),
]


@app.command(
    epilog=examples(
        "seatrial calibrate run.yaml --events events.jsonl",
        "seatrial calibrate run.yaml --seconds 12.1,12.3,12.2",
    )
)
def command(
    file: SpecFile,
    overrides: Overrides = None,
    events: EventsOption = None,
    seconds: SecondsOption = None,
    as_json: Json = False,
) -> None:
    """Calibrate the planner with a few measured step times of a run.

    Computes one factor from at least three step times. Later plans for this spec use the factor as
    long as accelerator, node type, fabric, engine and precision are unchanged.
    """
    if (events is None) == (seconds is None):
        raise UsageError(
            "pass either --events with the run's event log, or --seconds with step times."
        )
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
    """Read the step times."""
    times = []
    for part in text.split(","):
        try:
            time = float(part)
        except ValueError:
            time = 0.0
        if not 0 < time < float("inf"):
            raise UsageError(
                f"--seconds {text}: {part.strip() or 'an empty value'} is not a positive "
                "number of seconds. Separate step times with commas, such as 12.1,12.3,12.2."
            )
        times.append(time)
    return times


def _lines(result: Calibrated, name: str, spec_file: Path) -> list[str]:
    """Describe the measurement, the factor and the next step."""
    found = result.calibration
    left = [
        f"{count} {word}"
        for count, word in (
            (found.warm_up, "during warm-up"),
            (found.outliers, "far from the median"),
        )
        if count
    ]
    steps = f"{found.steps} steps used" + (f", ignored: {', '.join(left)}" if left else "")
    on = ", ".join(value for value in found.measured_on.values() if value)
    return [
        f"{name}   {steps}",
        f"measured   {found.measured:.4g} s per step (median), half of the steps within "
        f"{found.spread:.1%}",
        f"predicted  {found.predicted:.4g} s without the factor ({found.error_before:+.1%}), "
        f"{found.scale * found.predicted:.4g} s with the factor ({found.error_after:+.1%})",
        f"factor     {found.scale:.3f} ± {NINE_OF_TEN * found.deviation:.1%}, for {on}",
        f"accuracy   this layout: 90% of steps within {found.own_error.nine_of_ten:.1%}",
        f"           other layouts: {_of_others(result)}; expect larger errors for very different "
        "layouts",
        f"saved      {result.file}",
        f"next       seatrial plan {spec_file}",
    ]


def _of_others(result: Calibrated) -> str:
    """Describe the expected error for other layouts, and where the number comes from."""
    before, after = result.before, result.after
    errors = f"median error {after.median:.0%}, 90% of layouts within "
    if after.nine_of_ten < before.nine_of_ten:
        return (
            f"{errors}{after.nine_of_ten:.0%} (uncalibrated: {before.nine_of_ten:.0%}), measured "
            "on published benchmarks, each calibrated with five of its layouts"
        )
    return (
        f"{errors}{after.nine_of_ten:.0%}, measured on published runs without calibration; "
        "there is no evidence that a factor reduces this error"
    )


def _data(result: Calibrated) -> dict[str, object]:
    """Return the result for `--json`."""
    return {
        **asdict(result.calibration),
        "measured_layout_error": asdict(result.calibration.own_error),
        "error_before": result.calibration.error_before,
        "expected_error_before": asdict(result.before),
        "expected_error_after": asdict(result.after),
        "file": str(result.file),
    }
