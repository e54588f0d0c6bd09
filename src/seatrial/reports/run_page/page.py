# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML file that carries everything with it."""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from importlib.util import find_spec

from seatrial.errors import MissingExtraError
from seatrial.monitoring.series import Series
from seatrial.monitoring.utilisation import DEFINITION
from seatrial.reports.run_page import figures, sections
from seatrial.reports.run_page.chapter import Chapter
from seatrial.reports.run_page.figures import Figure
from seatrial.reports.run_page.style import POLICY, SCRIPT, STYLE
from seatrial.reports.run_phrases import moment, span
from seatrial.reports.terminal import counted
from seatrial.secrets.redaction import redact, redact_tree
from seatrial.version import VERSION

MARK = '<meta name="generator" content="seatrial report">'
"""What tells a page that may be replaced by a newer one from any other file."""
STEPS_OR_TOKENS = ("tokens", "tokens")
LOGARITHMIC = ("logarithmic", "log scale")


def plotting_library() -> str:
    """The script that draws plots, from the report extra."""
    if find_spec("plotly") is None:
        raise MissingExtraError(
            "A report draws with plotly, which this installation does not have. "
            "Install it with: pip install '.[report]' in a checkout of Seatrial.",
            extra="report",
        )
    script = files("plotly") / "package_data" / "plotly.min.js"
    return script.read_text(encoding="utf-8")


def report_page(chapters: Sequence[Chapter]) -> str:
    """The whole file, of one run or of several side by side."""
    body, plots = _single(chapters[0]) if len(chapters) == 1 else _several(chapters)
    title = " and ".join(chapter.name for chapter in chapters)
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"{MARK}<title>{escape(title)}: report</title>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>"
    )
    # What is read of a run is redacted already; a title or a path may come from elsewhere.
    body, plots = redact(body), redact_tree(plots)
    drawn = json.dumps(plots, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f"{head}<body><main>{body}{_notes(chapters)}</main>"
        f"<script>{plotting_library()}</script>"
        f'<script type="application/json" id="figures">{drawn}</script>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _header(title: str, where: str) -> str:
    return (
        f"<header><div><h1>{escape(title)}</h1>"
        f'<p class="where">{escape(where)}</p></div>'
        '<button id="theme">dark</button></header>'
    )


def _single(chapter: Chapter) -> tuple[str, dict[str, Figure]]:
    """The page of one run."""
    view = chapter.view
    begin, end = view.first_time or 0.0, view.last_time or 0.0
    attempts = counted(chapter.attempts, "attempt")
    where = f"{moment(begin)} to {moment(end)} UTC · {attempts} · {chapter.history.place}"
    plots = {"loss": figures.loss_figure([chapter])}
    tokens = [STEPS_OR_TOKENS] if chapter.tokens_per_step else []
    parts = [
        _header(chapter.name, where),
        sections.answer(chapter),
        sections.cards(chapter),
        sections.plot_section(
            "loss", "Loss", _curve_words(view.curves.loss), [*tokens, LOGARITHMIC]
        ),
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
    """When the run did what, and where its time went."""
    view = chapter.view
    plots["timeline"] = figures.timeline_figure(chapter)
    plots["goodput"] = figures.goodput_figure([chapter])
    joined = view.stretches.joined_below
    short = f" Stretches below {span(joined)} are part of their neighbours." if joined else ""
    spent = chapter.spent
    between = f" {span(spent.between)} between attempts are not counted." if spent.between else ""
    return (
        sections.plot_section(
            "timeline",
            "Restarts",
            f"What each attempt was doing, and why each start ended.{short}",
            low=True,
        ).removesuffix("</section>")
        + sections.starts_table(chapter)
        + "</section>"
        + sections.plot_section(
            "goodput",
            "Goodput",
            f"Every moment of the wall time is in one bucket, so that they add up to it.{between}",
            low=True,
        ).removesuffix("</section>")
        + sections.goodput_table(chapter)
        + "</section>"
    )


def _step_sections(chapter: Chapter, plots: dict[str, Figure]) -> list[str]:
    """What a step is made of, the gradient norm, saves and ranks, as far as the log tells."""
    curves, made = chapter.view.curves, []
    if curves.parts:
        plots["parts"] = figures.parts_figure(chapter)
        why = "What the rank that writes the log spent a step on."
        made.append(sections.plot_section("parts", "Step breakdown", why))
    if curves.grad_norm.points:
        plots["norm"] = figures.norm_figure([chapter])
        why = _curve_words(curves.grad_norm)
        made.append(sections.plot_section("norm", "Gradient norm", why, [LOGARITHMIC]))
    if curves.checkpoint_age.points:
        plots["saves"] = figures.saves_figure(chapter)
        why = "How much work a failure would have cost just before each save, and what saves cost."
        made.append(sections.plot_section("saves", "Checkpoint ages", why))
    if curves.skew.points:
        plots["skew"] = figures.skew_figure(chapter)
        why = "How far the slowest rank was behind the median rank."
        made.append(sections.plot_section("skew", "Ranks", why))
    return made


def _pair(made: list[str]) -> str:
    """Sections side by side."""
    return f'<div class="two">{"".join(made)}</div>' if made else ""


def _several(chapters: Sequence[Chapter]) -> tuple[str, dict[str, Figure]]:
    """The page of several runs side by side."""
    plots = {
        "loss": figures.loss_figure(chapters),
        "rate": figures.rate_figure(chapters),
        "goodput": figures.goodput_figure(chapters),
        "norm": figures.norm_figure(chapters),
    }
    tokens = [STEPS_OR_TOKENS] if all(chapter.tokens_per_step for chapter in chapters) else []
    curves = [chapter.view.curves for chapter in chapters]
    where = " · ".join(chapter.history.place for chapter in chapters)
    body = (
        _header(" against ".join(chapter.name for chapter in chapters), where)
        + sections.compare_table(chapters)
        + sections.plot_section(
            "loss", "Loss", _curve_words(curves[0].loss), [*tokens, LOGARITHMIC]
        )
        + sections.plot_section("rate", "Throughput", _curve_words(curves[0].step_seconds), tokens)
        + sections.plot_section("goodput", "Goodput", "Where the wall time went.", low=True)
        + sections.plot_section("norm", "Gradient norm", "", [LOGARITHMIC])
    )
    return body, plots


def _curve_words(series: Series) -> str:
    """What a point of a curve stands for."""
    most = max((point.count + point.missing for point in series.points), default=1)
    bad = sum(point.missing for point in series.points)
    words = (
        "Every step is drawn."
        if most <= 1
        else f"A point is the mean of up to {most:,} steps; the band reaches from the least to "
        "the most of them, so that no spike is lost."
    )
    return words + (f" {bad:,} values were no number, and are not drawn." if bad else "")


def _notes(chapters: Sequence[Chapter]) -> str:
    """How the numbers are counted."""
    notes = {
        "Goodput": "the share of the wall time in which steps were done that no attempt had done "
        "before. Wall time runs from each submission to its end, as far as the log tells.",
        "Throughput and time of a step": "medians of the last 50 steps; curves show all.",
        "Steps done again": "between the newest checkpoint and the end of a start; they follow "
        "the curve as they were done.",
    }
    for chapter in chapters:
        basis = chapter.view.metrics.basis()
        if basis is not None and basis.model_flops and basis.peak_flops:
            peak = f"{basis.peak_flops / 1e12:,.0f} TFLOP/s ({basis.peak_of})"
            notes["MFU"] = f"{DEFINITION}; peak {peak}."
    listed = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in notes.items())
    return (
        f'<section class="notes"><h2>How this is counted</h2><dl>{listed}</dl>'
        f"<p>Made by Seatrial {VERSION}. The file asks nobody on the network for anything.</p>"
        "</section>"
    )
