# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The plots of a report, as the plain data that plotly.js draws; colours are names of the style."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from seatrial.monitoring.goodput import Bucket
from seatrial.monitoring.series import Point, Series
from seatrial.reports.run_page.chapter import Chapter
from seatrial.reports.run_phrases import BUCKET_COLOURS, span

Figure = dict[str, Any]
"""`data`, `layout`, and what our own script needs beside."""
RUN_COLOURS = ("#2f7fd0", "#e0893a", "#2e9e6b", "#a05fc0", "#cc3d4b", "#7d8794")
"""The colours of the runs of a comparison, in order; of one run, the first."""
PART_COLOURS = {
    "data": "#d4b13f",
    "compute": "#2e9e6b",
    "gradients": "#3f7fc4",
    "optimizer": "#7a68c7",
    "other": "#8b94a1",
}
"""The colours of the parts of a step that our own worker tells."""
MOST_LINES = 40
"""Restarts that are marked in a curve; of more the newest."""
MORE_COLOURS = ("#5aa9e6", "#e0893a", "#c9a1e8", "#58c48b", "#cc3d4b", "#b08968")


def loss_figure(chapters: Sequence[Chapter]) -> Figure:
    """Loss against steps, or tokens: the mean with the range of each point, and evaluations."""
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
                | {"mode": "markers", "marker": {"size": 9, "symbol": "diamond"}}
                | {
                    "marker": {
                        "size": 9,
                        "symbol": "diamond",
                        "color": "#e0893a" if alone else colour,
                    }
                }
            )
    shapes = restart_lines(chapters[0]) if len(chapters) == 1 else []
    figure = {"data": traces, "layout": {"yaxis": {"title": {"text": "loss"}}, "shapes": shapes}}
    return figure | {"worth": chapters[0].tokens_per_step}


def rate_figure(chapters: Sequence[Chapter]) -> Figure:
    """Tokens per second against steps; steps per second where tokens are not known."""
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
    """A straight line over all steps."""
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
    """The gradient norm against steps."""
    traces: list[Figure] = []
    for place, chapter in enumerate(chapters):
        colour = RUN_COLOURS[place % len(RUN_COLOURS)] if len(chapters) > 1 else "#7a68c7"
        traces += _banded(chapter, chapter.view.curves.grad_norm, chapter.name, colour)
    return {"data": traces, "layout": {"yaxis": {"title": {"text": "gradient norm"}}}}


def parts_figure(chapter: Chapter) -> Figure:
    """What a step's time was made of, stacked."""
    more = iter(MORE_COLOURS * 4)
    traces = []
    for name, series in chapter.view.curves.parts.items():
        colour = PART_COLOURS.get(name) or next(more)
        trace = _trace(chapter, last_of_each(series.points), name, colour)
        trace |= {"stackgroup": "step", "line": {"width": 0.5, "color": colour}}
        traces.append(trace | {"fillcolor": colour, "hovertemplate": "%{y:.3g} s"})
    return {"data": traces, "layout": {"yaxis": {"title": {"text": "seconds a step"}}}}


def skew_figure(chapter: Chapter) -> Figure:
    """How far the slowest rank was behind the median rank."""
    points = [
        Point(p.step, 100 * p.mean, 100 * p.least, 100 * p.most, p.count, p.missing)
        for p in chapter.view.curves.skew.points
        if p.count
    ]
    layout = {"yaxis": {"title": {"text": "slowest rank, % behind"}, "rangemode": "tozero"}}
    return {"data": _banded(chapter, points, "slowest rank", "#cc3d4b"), "layout": layout}


def saves_figure(chapter: Chapter) -> Figure:
    """How old the newest checkpoint was just before the next, and how long each save took."""
    curves = chapter.view.curves
    ages, times = (
        last_of_each(curves.checkpoint_age.points),
        last_of_each(curves.save_seconds.points),
    )
    age = _trace(chapter, ages, "work at risk before the save", "#3f7fc4")
    taken = _trace(chapter, times, "training stood still", "#e0893a")
    for trace, points in ((age, ages), (taken, times)):
        # Of joined points the longest is what somebody waits for, or loses.
        trace |= {"type": "bar", "y": [_plain(p.most) for p in points]}
        trace |= {"marker": {"color": trace["line"]["color"]}, "hovertemplate": "%{y:.3g} s"}
    layout = {
        "yaxis": {"title": {"text": "seconds"}, "rangemode": "tozero"},
        # Saves are few and far between: a bar for each, however many steps lie between.
        "xaxis": {"type": "category"},
        "barmode": "group",
    }
    return {"data": [age, taken], "layout": layout}


def goodput_figure(chapters: Sequence[Chapter]) -> Figure:
    """Where the wall time went: one bar a run."""
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
                "text": [f"{share:.0f} %" if share >= 4 else "" for share in shares],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "customdata": [span(value) for value in seconds],
                "hovertemplate": f"{bucket}: %{{customdata}} (%{{x:.1f}} %)<extra></extra>",
                "marker": {"color": colour},
            }
        )
    layout = {
        "barmode": "stack",
        "bargap": 0.25,
        "xaxis": {"title": {"text": "% of the wall time"}, "range": [0, 100]},
        "yaxis": {"automargin": True, "showticklabels": len(chapters) > 1},
        "height": 150 + 46 * len(chapters),
    }
    return {"data": traces, "layout": layout, "steps": False}


def timeline_figure(chapter: Chapter) -> Figure:
    """When the run did what: a row for each attempt."""
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
        "height": 150 + 44 * min(rows, 16),
    }
    return {"data": traces, "layout": layout, "steps": False}


def _banded(
    chapter: Chapter, curve: Series | Sequence[Point], name: str, colour: str
) -> list[Figure]:
    """A mean, and behind it the range from the least to the most where points were joined."""
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
    """The points, with nothing in between where a start went back, so that no line does."""
    kept: list[Point] = []
    for point in points:
        if kept and point.step < kept[-1].step:
            kept.append(Point(point.step, math.nan, math.nan, math.nan, 0))
        kept.append(point)
    return kept


def last_of_each(points: Iterable[Point]) -> list[Point]:
    """The points in the order of steps; of steps that were done again, as they were at last."""
    return [point for _, point in sorted({point.step: point for point in points}.items())]


def restart_lines(chapter: Chapter) -> list[Figure]:
    """A thin line at each step that a start went on from."""
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
        "mode": "lines",
        "name": name,
        "x": [point.step for point in kept],
        "y": [_plain(point.mean) for point in kept],
        "connectgaps": False,
        "line": {"color": colour, "width": 2},
        "worth": chapter.tokens_per_step,
        "hovertemplate": "%{y:.5g}",
    }


def _plain(value: float) -> float | None:
    """Six digits, which no screen shows more of; nothing where it is no number."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.22)"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def buckets_with_time(chapter: Chapter) -> list[tuple[Bucket, float]]:
    """The buckets of a run that hold time, the largest first."""
    held = [(bucket, seconds) for bucket, seconds in chapter.spent.seconds.items() if seconds]
    return sorted(held, key=lambda item: -item[1])
