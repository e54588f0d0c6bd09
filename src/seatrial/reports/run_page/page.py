# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A report as one self-contained HTML file."""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from importlib.util import find_spec

from seatrial.errors import MissingExtraError
from seatrial.monitoring.gpus import gpu_words
from seatrial.monitoring.series import Series
from seatrial.monitoring.utilisation import DEFINITION
from seatrial.reports.run_page import figures, sections
from seatrial.reports.run_page.chapter import Chapter
from seatrial.reports.run_page.figures import Figure
from seatrial.reports.run_page.headline import headline
from seatrial.reports.run_page.style import POLICY, SCRIPT, STYLE
from seatrial.reports.run_phrases import moment, span
from seatrial.reports.terminal import counted
from seatrial.secrets.redaction import redact, redact_tree
from seatrial.version import VERSION

MARK = '<meta name="generator" content="seatrial report">'
"""Identifies a page that a newer report may overwrite."""
STEPS_OR_TOKENS = ("tokens", "tokens")
LOGARITHMIC = ("logarithmic", "log scale")


def plotting_library() -> str:
    """Return the script of plotly.js, which is part of the report extra."""
    if find_spec("plotly") is None:
        raise MissingExtraError(
            "seatrial report needs plotly, which is not installed. "
            "In a Seatrial checkout, run: pip install '.[report]'",
            extra="report",
        )
    script = files("plotly") / "package_data" / "plotly.min.js"
    return script.read_text(encoding="utf-8")


def report_page(chapters: Sequence[Chapter]) -> str:
    """Return the page of one run, or of several runs compared."""
    body, plots = _single(chapters[0]) if len(chapters) == 1 else _several(chapters)
    title = " and ".join(chapter.name for chapter in chapters)
    title += f": {headline(chapters[0])}" if len(chapters) == 1 else ": report"
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{MARK}<title>{escape(title)}</title>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>"
    )
    # Events are already redacted; names and paths are not.
    body, plots = redact(body), redact_tree(plots)
    drawn = json.dumps(plots, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f"{head}<body><main>{body}{_notes(chapters)}</main>"
        f"<script>{plotting_library()}</script>"
        f'<script type="application/json" id="figures">{drawn}</script>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _header(name: str, title: str, where: str) -> str:
    above = f'<p class="run">{name}</p>' if name else ""
    # No line break within "10.8 → 4.2".
    unbroken = escape(title).replace(" → ", "&nbsp;→&nbsp;")
    return (
        f"<header><div>{above}<h1>{unbroken}</h1>"
        f'<p class="where">{escape(where)}</p></div>'
        '<button id="theme">dark</button></header>'
    )


def _single(chapter: Chapter) -> tuple[str, dict[str, Figure]]:
    """Return the page of one run."""
    view, state = chapter.view, chapter.state
    begin, end = view.first_time or 0.0, view.last_time or 0.0
    attempts = counted(chapter.attempts, "attempt")
    first, last = moment(begin), moment(end)
    last = last.removeprefix(first[:11]) if first != last else last
    period = f"{first} UTC" if first == last else f"{first} to {last} UTC"
    where = f"{period} · {attempts} · {chapter.history.place}"
    name = f'{escape(chapter.name)} <span class="state {state.name.lower()}">{state}</span>'
    plots = {"loss": figures.loss_figure([chapter])}
    dotted = " Dotted lines mark restarts." if plots["loss"]["layout"]["shapes"] else ""
    tokens = [STEPS_OR_TOKENS] if chapter.tokens_per_step else []
    parts = [
        '<div class="summary">',
        _header(name, headline(chapter), where),
        sections.answer(chapter),
        sections.cards(chapter),
        sections.plot_section(
            "loss", "Loss", _curve_words(view.curves.loss) + dotted, [*tokens, LOGARITHMIC]
        ),
        "</div>",
    ]
    if view.curves.step_seconds.points:
        plots["rate"] = figures.rate_figure([chapter])
        why = _curve_words(view.curves.step_seconds)
        parts.append(sections.plot_section("rate", "Throughput", why, tokens))
    parts.append(_time_sections(chapter, plots))
    parts.append(_pair(_step_sections(chapter, plots)))
    parts.append(sections.plan_section(chapter))
    parts.append(sections.findings_section(chapter))
    return "".join(parts), plots


def _time_sections(chapter: Chapter, plots: dict[str, Figure]) -> str:
    """Return the sections on restarts and goodput."""
    view = chapter.view
    plots["timeline"] = figures.timeline_figure(chapter)
    plots["goodput"] = figures.goodput_figure([chapter])
    joined = view.stretches.joined_below
    short = (
        f" Periods shorter than {span(joined)} are merged with their neighbours." if joined else ""
    )
    spent = chapter.spent
    between = f" {span(spent.between)} between attempts is not counted." if spent.between else ""
    return (
        sections.plot_section(
            "timeline",
            "Restarts",
            f"The activity of each attempt, and why each start of the processes ended.{short}",
            legend=sections.bucket_legend([chapter]),
        ).removesuffix("</section>")
        + sections.starts_table(chapter)
        + "</section>"
        + sections.plot_section(
            "goodput",
            "Goodput",
            f"Each moment is in one bucket, so the buckets add up to the wall-clock time.{between}",
        ).removesuffix("</section>")
        + sections.goodput_table(chapter)
        + "</section>"
    )


def _step_sections(chapter: Chapter, plots: dict[str, Figure]) -> list[str]:
    """Return the sections on step parts, gradient norm, saves, ranks and GPUs that have data."""
    curves, made = chapter.view.curves, []
    if curves.parts:
        plots["parts"] = figures.parts_figure(chapter)
        why = "The parts of the step time on the rank that writes the log."
        made.append(sections.plot_section("parts", "Step breakdown", why))
    if curves.grad_norm.points:
        plots["norm"] = figures.norm_figure([chapter])
        why = _curve_words(curves.grad_norm)
        made.append(sections.plot_section("norm", "Gradient norm", why, [LOGARITHMIC]))
    if curves.checkpoint_age.points:
        plots["saves"] = figures.saves_figure(chapter)
        why = "The work that a failure just before each save would have cost, and the save time."
        made.append(sections.plot_section("saves", "Checkpoint ages", why))
    if curves.skew.points:
        plots["skew"] = figures.skew_figure(chapter)
        why = "The lag of the slowest rank behind the median rank."
        made.append(sections.plot_section("skew", "Ranks", why))
    if curves.gpu_power.points or curves.gpu_clock.points:
        plots["gpus"] = figures.gpu_figure(chapter)
        now = f" Now: {gpu_words(chapter.view.gpus)}." if chapter.view.gpus is not None else ""
        why = f"Power of the median GPU, and clock of the slowest.{now}"
        made.append(sections.plot_section("gpus", "GPUs", why))
    return made


def _pair(made: list[str]) -> str:
    """Put sections next to each other."""
    return f'<div class="two">{"".join(made)}</div>' if made else ""


def _several(chapters: Sequence[Chapter]) -> tuple[str, dict[str, Figure]]:
    """Return the page that compares several runs."""
    plots = {
        "loss": figures.loss_figure(chapters),
        "rate": figures.rate_figure(chapters),
        "goodput": figures.goodput_figure(chapters),
        "norm": figures.norm_figure(chapters),
    }
    planned = figures.planned_figure(chapters)
    if planned is not None:
        plots["planned"] = planned
    tokens = [STEPS_OR_TOKENS] if all(chapter.tokens_per_step for chapter in chapters) else []
    curves = [chapter.view.curves for chapter in chapters]
    where = " · ".join(chapter.history.place for chapter in chapters)
    body = (
        '<div class="summary">'
        + _header("", " versus ".join(chapter.name for chapter in chapters), where)
        + "".join(
            f'<p class="answer"><b>{escape(chapter.name)}</b> {escape(headline(chapter))}</p>'
            for chapter in chapters
        )
        + sections.compare_table(chapters)
        + sections.plot_section(
            "loss", "Loss", _curve_words(curves[0].loss), [*tokens, LOGARITHMIC]
        )
        + "</div>"
        + (_planned_section() if planned is not None else "")
        + sections.plot_section("rate", "Throughput", _curve_words(curves[0].step_seconds), tokens)
        + sections.plot_section(
            "goodput",
            "Goodput",
            "How wall-clock time was spent.",
            legend=sections.bucket_legend(chapters),
        )
        + sections.plot_section("norm", "Gradient norm", "", [LOGARITHMIC])
    )
    return body, plots


def _curve_words(series: Series) -> str:
    """Describe the points of a curve."""
    most = max((point.count + point.missing for point in series.points), default=1)
    bad = sum(point.missing for point in series.points)
    words = (
        "One point per step."
        if most <= 1
        else f"Each point is the mean of up to {most:,} steps; the band shows their minimum and "
        "maximum."
    )
    return words + (f" {bad:,} values are not numbers and are not drawn." if bad else "")


def _notes(chapters: Sequence[Chapter]) -> str:
    """Define the numbers on the page."""
    notes = {
        "Goodput": "the share of wall-clock time spent on steps that no attempt had done before. "
        "Wall-clock time runs from the submission of each attempt to its end or its last event.",
        "Throughput and step time": "medians of the last 50 steps. The curves show all steps.",
        "Repeated steps": "steps between the newest checkpoint and the end of a start. They are "
        "drawn each time they ran.",
        "Plots": "drag to zoom, double-click to reset. Select a name in a legend to hide its data.",
    }
    for chapter in chapters:
        basis = chapter.view.metrics.basis()
        if basis is not None and basis.model_flops and basis.peak_flops:
            peak = f"{basis.peak_flops / 1e12:,.0f} TFLOP/s ({basis.peak_of})"
            notes["MFU"] = f"{DEFINITION}; peak {peak}."
    listed = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in notes.items())
    return (
        f'<section class="notes"><h2>Definitions</h2><dl>{listed}</dl>'
        f"<p>Written by Seatrial {VERSION}. This file makes no network requests.</p>"
        "</section>"
    )


def _planned_section() -> str:
    return sections.plot_section(
        "planned", "Planned versus measured step time", "The bars on planned values are errors."
    )
