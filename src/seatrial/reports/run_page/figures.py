# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The plots of a report, as data for plotly.js."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from seatrial.monitoring.goodput import Bucket
from seatrial.monitoring.series import Point, Series
from seatrial.reports.run_page.chapter import Chapter
from seatrial.reports.run_phrases import BUCKET_COLOURS, span

Figure = dict[str, Any]
"""`data` and `layout` for plotly.js, and values for the script on the page."""
RUN_COLOURS = ("#2f7fd0", "#e0893a", "#2e9e6b", "#a05fc0", "#cc3d4b", "#7d8794")
"""The colours of the runs in a comparison, in order."""
PART_COLOURS = {
    "data": "#d4b13f",
    "compute": "#2e9e6b",
    "gradients": "#3f7fc4",
    "optimizer": "#7a68c7",
    "other": "#8b94a1",
}
"""The colours of the parts of a step that the worker reports."""
MOST_LINES = 40
"""The maximum number of restarts marked in a curve. The newest are kept."""
FEW_POINTS = 60
"""Curves with at most this many points also show a marker per point."""
MORE_COLOURS = ("#5aa9e6", "#e0893a", "#c9a1e8", "#58c48b", "#cc3d4b", "#b08968")


def loss_figure(chapters: Sequence[Chapter]) -> Figure:
    """Plot the loss, with the range of each point, and the evaluations."""
    traces: list[Figure] = []
    for place, chapter in enumerate(chapters):
        colour = RUN_COLOURS[place % len(RUN_COLOURS)]
        alone = len(chapters) == 1
        name = "training" if alone else chapter.name
        traces += _banded(chapter, chapter.view.curves.loss, name, colour)
        evaluated = chapter.view.curves.evaluation.points
        if evaluated:
            label = "validation" if alone else f"{chapter.name}, validation"
            mark = "#e0893a" if alone else colour
            traces.append(
                _trace(chapter, evaluated, label, mark)
                | {"mode": "markers", "marker": {"size": 9, "symbol": "diamond", "color": mark}}
            )
    shapes = restart_lines(chapters[0]) if len(chapters) == 1 else []
    figure = {"data": traces, "layout": {"yaxis": {"title": {"text": "loss"}}, "shapes": shapes}}
    return figure | {"worth": chapters[0].tokens_per_step}


def rate_figure(chapters: Sequence[Chapter]) -> Figure:
    """Plot tokens per second, or steps per second if tokens are unknown."""
    known = all(chapter.tokens_per_step for chapter in chapters)
    traces: list[Figure] = []
    for place, chapter in enumerate(chapters):
        worth = float(chapter.tokens_per_step or 1) if known else 1.0
        colour = RUN_COLOURS[place % len(RUN_COLOURS)] if len(chapters) > 1 else "#2e9e6b"
        points = [
            Point(p.step, worth / p.mean, worth / p.most, worth / p.least, p.count, p.missing)
            for p in chapter.view.curves.step_seconds.points
            if p.count and p.least > 0
        ]
        traces += _banded(chapter, points, chapter.name, colour)
        planned = chapter.history.forecast
        if planned is not None and known:
            rate = planned.basis.tokens_per_second(planned.time.total)
            traces.append(_level(chapter, points, rate, "plan", colour))
    unit = "tokens per second" if known else "steps per second"
    return {
        "data": traces,
        "layout": {"yaxis": {"title": {"text": unit}, "rangemode": "tozero"}},
    }


def _level(
    chapter: Chapter, points: Sequence[Point], value: float | None, name: str, colour: str
) -> Figure:
    """Return a horizontal line over all steps."""
    ends = [points[0].step, points[-1].step] if points and value else []
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": ends,
        "y": [value] * len(ends),
        "line": {"color": colour, "width": 1.5, "dash": "dash"},
        "worth": chapter.tokens_per_step,
    }


def norm_figure(chapters: Sequence[Chapter]) -> Figure:
    """Plot the gradient norm."""
    traces: list[Figure] = []
    for place, chapter in enumerate(chapters):
        colour = RUN_COLOURS[place % len(RUN_COLOURS)] if len(chapters) > 1 else "#7a68c7"
        traces += _banded(chapter, chapter.view.curves.grad_norm, chapter.name, colour)
    return {"data": traces, "layout": {"yaxis": {"title": {"text": "gradient norm"}}}}


def parts_figure(chapter: Chapter) -> Figure:
    """Plot the parts of the step time, stacked."""
    more = iter(MORE_COLOURS * 4)
    traces = []
    for name, series in chapter.view.curves.parts.items():
        colour = PART_COLOURS.get(name) or next(more)
        points = last_of_each(series.points)
        trace = _trace(chapter, points, name, colour) | {"hovertemplate": "%{y:.3g} s"}
        if len(points) > FEW_POINTS:
            trace |= {"stackgroup": "step", "line": {"width": 0.5, "color": colour}}
            trace |= {"mode": "lines", "fillcolor": colour}
        else:
            # An area needs two points, and hides that there are only a few.
            trace |= {"type": "bar", "marker": {"color": colour}}
        traces.append(trace)
    layout = {"yaxis": {"title": {"text": "seconds per step"}}, "barmode": "stack", "bargap": 0.15}
    return {"data": traces, "layout": layout}


def skew_figure(chapter: Chapter) -> Figure:
    """Plot the lag of the slowest rank behind the median rank."""
    points = [
        Point(p.step, 100 * p.mean, 100 * p.least, 100 * p.most, p.count, p.missing)
        for p in chapter.view.curves.skew.points
        if p.count
    ]
    layout = {"yaxis": {"title": {"text": "slowest rank, % behind"}, "rangemode": "tozero"}}
    return {"data": _banded(chapter, points, "slowest rank", "#cc3d4b"), "layout": layout}


def gpu_figure(chapter: Chapter) -> Figure:
    """Plot the power of the median GPU, and the clock of the slowest on its own axis."""
    curves = chapter.view.curves
    clock = [
        trace | {"yaxis": "y2"}
        for trace in _banded(chapter, curves.gpu_clock, "slowest clock", "#3f7fc4")
    ]
    layout = {
        "yaxis": {"title": {"text": "watts"}, "rangemode": "tozero"},
        "yaxis2": {
            "title": {"text": "MHz"},
            "overlaying": "y",
            "side": "right",
            "rangemode": "tozero",
            "showgrid": False,
        },
    }
    power = _banded(chapter, curves.gpu_power, "power", "#e0893a")
    return {"data": [*power, *clock], "layout": layout}


def saves_figure(chapter: Chapter) -> Figure:
    """Plot the work at risk just before each save, and the duration of each save."""
    curves = chapter.view.curves
    ages, times = (
        last_of_each(curves.checkpoint_age.points),
        last_of_each(curves.save_seconds.points),
    )
    age = _trace(chapter, ages, "work at risk before the save", "#3f7fc4")
    taken = _trace(chapter, times, "pause for the save", "#e0893a")
    for trace, points in ((age, ages), (taken, times)):
        # For merged points, the maximum matters: it is the longest wait or the largest loss.
        trace |= {"type": "bar", "y": [_plain(p.most) for p in points]}
        trace |= {"marker": {"color": trace["line"]["color"]}, "hovertemplate": "%{y:.3g} s"}
    layout = {
        "yaxis": {"title": {"text": "seconds"}, "rangemode": "tozero"},
        # One bar per save, at equal distances.
        "xaxis": {"type": "category"},
        "barmode": "group",
    }
    return {"data": [age, taken], "layout": layout}


def planned_figure(chapters: Sequence[Chapter]) -> Figure | None:
    """Plot the planned step time with its error bar next to the measured one.

    Returns None if no run has both.
    """
    found = [
        (chapter.name, chapter.against.step_seconds)
        for chapter in chapters
        if chapter.against is not None and chapter.against.step_seconds is not None
    ]
    if not found:
        return None
    names = [name for name, _ in found]
    errors = [one.planned * one.error for _, one in found]
    bars: tuple[tuple[str, str, list[float], list[float]], ...] = (
        ("planned", "#8aa9c9", [one.planned for _, one in found], errors),
        ("measured", "#3f7fc4", [one.measured for _, one in found], []),
    )
    traces = [
        {
            "type": "bar",
            "name": name,
            "x": names,
            "y": values,
            "error_y": {"type": "data", "array": error},
            "marker": {"color": colour},
            "hovertemplate": "%{y:.3g} s",
        }
        for name, colour, values, error in bars
    ]
    layout = {
        "yaxis": {"title": {"text": "seconds per step"}, "rangemode": "tozero"},
        "xaxis": {"type": "category"},
        "barmode": "group",
    }
    return {"data": traces, "layout": layout}


def goodput_figure(chapters: Sequence[Chapter]) -> Figure:
    """Plot how wall-clock time was spent, one bar per run."""
    traces = []
    names = [chapter.name for chapter in chapters]
    for bucket, colour in BUCKET_COLOURS.items():
        seconds = [chapter.spent.seconds[bucket] for chapter in chapters]
        if not any(seconds):
            continue
        shares = [
            100 * value / chapter.spent.wall if chapter.spent.wall else 0.0
            for value, chapter in zip(seconds, chapters, strict=True)
        ]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": str(bucket),
                "y": names,
                "x": shares,
                "text": [f"{share:.0f} %" if share >= 8 else "" for share in shares],
                "textposition": "inside",
                "textangle": 0,
                "insidetextanchor": "middle",
                "customdata": [span(value) for value in seconds],
                "hovertemplate": f"{bucket}: %{{customdata}} (%{{x:.1f}} %)<extra></extra>",
                "marker": {"color": colour},
            }
        )
    layout = {
        "barmode": "stack",
        "bargap": 0.25,
        "xaxis": {"title": {"text": "% of wall-clock time"}, "range": [0, 100]},
        "yaxis": {"automargin": True, "showticklabels": len(chapters) > 1},
        "height": 90 + 46 * len(chapters),
        "showlegend": False,
    }
    return {"data": traces, "layout": layout, "steps": False}


def timeline_figure(chapter: Chapter) -> Figure:
    """Plot the activity over time, one row per attempt."""
    traces = []
    stretches = chapter.view.stretches.stretches
    for bucket, colour in BUCKET_COLOURS.items():
        mine = [stretch for stretch in stretches if stretch.bucket is bucket]
        if not mine:
            continue
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": str(bucket),
                "base": [_date(stretch.begin) for stretch in mine],
                "x": [1000 * stretch.seconds for stretch in mine],
                "y": [f"attempt {stretch.attempt}" for stretch in mine],
                "customdata": [span(stretch.seconds) for stretch in mine],
                "hovertemplate": f"{bucket}: %{{customdata}}<extra></extra>",
                "marker": {"color": colour, "line": {"width": 0}},
            }
        )
    rows = len({stretch.attempt for stretch in stretches})
    layout = {
        "barmode": "overlay",
        "bargap": 0.35,
        "xaxis": {"type": "date"},
        "yaxis": {"autorange": "reversed", "automargin": True, "type": "category"},
        "height": 80 + 44 * min(rows, 16),
        "showlegend": False,
    }
    return {"data": traces, "layout": layout, "steps": False}


def _banded(
    chapter: Chapter, curve: Series | Sequence[Point], name: str, colour: str
) -> list[Figure]:
    """Plot the mean, with the range behind it if points were merged."""
    points = with_gaps(p for p in (curve.points if isinstance(curve, Series) else curve) if p.count)
    line = _trace(chapter, points, name, colour)
    if not any(point.count > 1 for point in points):
        return [line]
    line |= {"legendgroup": name}
    edge = {"mode": "lines", "line": {"width": 0}, "showlegend": False, "legendgroup": name}
    low = _trace(chapter, points, name, colour) | edge | {"hoverinfo": "skip"}
    low |= {"y": [_plain(point.least) for point in points]}
    high = low | {"y": [_plain(point.most) for point in points]}
    high |= {"fill": "tonexty", "fillcolor": _faint(colour)}
    return [low, high, line]


def with_gaps(points: Iterable[Point]) -> list[Point]:
    """Insert a gap where a start went back, so that no line connects the two."""
    kept: list[Point] = []
    for point in points:
        if kept and point.step < kept[-1].step:
            kept.append(Point(point.step, math.nan, math.nan, math.nan, 0))
        kept.append(point)
    return kept


def last_of_each(points: Iterable[Point]) -> list[Point]:
    """Sort the points by step, and keep the last point of repeated steps."""
    return [point for _, point in sorted({point.step: point for point in points}.items())]


def restart_lines(chapter: Chapter) -> list[Figure]:
    """Return a thin line at each step from which a start resumed."""
    starts = [start for start in chapter.view.restarts()[1:] if start.first_step > 0]
    return [
        {
            "type": "line",
            "x0": start.first_step,
            "x1": start.first_step,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"color": "#e0893a", "width": 1, "dash": "dot"},
        }
        for start in starts[-MOST_LINES:]
    ]


def _trace(chapter: Chapter, points: Iterable[Point], name: str, colour: str) -> Figure:
    kept = list(points)
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(kept) <= FEW_POINTS else "lines",
        "marker": {"color": colour, "size": 5},
        "name": name,
        "x": [point.step for point in kept],
        "y": [_plain(point.mean) for point in kept],
        "connectgaps": False,
        "line": {"color": colour, "width": 2},
        "worth": chapter.tokens_per_step,
        "hovertemplate": "%{y:.5g}",
    }


def _plain(value: float) -> float | None:
    """Round to six digits. None if the value is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.22)"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def buckets_with_time(chapter: Chapter) -> list[tuple[Bucket, float]]:
    """Return the buckets that are not empty, largest first."""
    held = [(bucket, seconds) for bucket, seconds in chapter.spent.seconds.items() if seconds]
    return sorted(held, key=lambda item: -item[1])
