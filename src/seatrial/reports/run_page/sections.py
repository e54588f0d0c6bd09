# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a report as HTML: cards, tables and the places where plots are drawn."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from seatrial.findings import Severity
from seatrial.monitoring.prediction import Compared
from seatrial.reports.plan_phrases import duration, gib, three
from seatrial.reports.run_page.chapter import Chapter
from seatrial.reports.run_page.figures import buckets_with_time
from seatrial.reports.run_phrases import (
    BUCKET_COLOURS,
    loss_words,
    moment,
    percent,
    shortened,
    span,
)
from seatrial.reports.terminal import counted
from seatrial.units import format_count

MOST_ROWS = 60
"""Rows of a table; of more the newest."""


def card(label: str, value: str, note: str = "") -> str:
    """One number that matters."""
    return (
        f'<div class="card"><small>{escape(label)}</small><b>{escape(value)}</b>'
        f"<i>{escape(note)}</i></div>"
    )


def cards(chapter: Chapter) -> str:
    """The numbers that matter, first."""
    now, spent = chapter.snapshot, chapter.spent
    made = [_progress(chapter)]
    best = f"validation {now.evaluation:.4g}" if now.evaluation is not None else ""
    made.append(card("loss", loss_words(now.loss), best))
    if now.tokens_per_second:
        each = f"{three(now.step_seconds)} s a step" if now.step_seconds else ""
        made.append(card("tokens per second", three(now.tokens_per_second), each))
    elif now.step_seconds:
        made.append(card("a step", duration(now.step_seconds)))
    if now.mfu is not None:
        rate = f"{now.flops_per_gpu / 1e12:.0f} TFLOP/s a GPU" if now.flops_per_gpu else ""
        made.append(card("MFU", percent(now.mfu), rate))
    if spent.wall:
        made.append(card("goodput", percent(spent.share), f"of {span(spent.wall)}"))
    again = f"{counted(spent.replayed_steps, 'step')} done again"
    made.append(card("restarts", f"{spent.restarts}", again))
    return f'<div class="cards">{"".join(made)}</div>'


def _progress(chapter: Chapter) -> str:
    now = chapter.snapshot
    tokens = chapter.tokens_per_step
    note = f"{format_count(tokens * now.step)} tokens" if tokens else ""
    if now.total_steps:
        return card("steps", f"{now.step:,}", f"of {now.total_steps:,} · {note}".rstrip(" ·"))
    return card("steps", f"{now.step:,}", note)


def answer(chapter: Chapter) -> str:
    """The run in a sentence or two."""
    now, spent = chapter.snapshot, chapter.spent
    curve = [p for p in chapter.view.curves.loss.points if p.count]
    words = f"{chapter.view.new_steps:,} steps in {span(spent.wall)}"
    if len(curve) > 1:
        words += f"; the loss went from {loss_words(curve[0].mean)} to {loss_words(now.loss)}"
    words += "."
    lost = [(bucket, seconds) for bucket, seconds in buckets_with_time(chapter)][:3]
    named = [f"{b} {percent(s / spent.wall)}" for b, s in lost if spent.wall and b != "training"]
    if spent.wall:
        words += f" {percent(spent.share)} of the time was training"
        words += f"; the rest is mostly {' and '.join(named[:2])}." if named else "."
    ahead = chapter.view.outlook()
    if ahead is not None and chapter.history.is_live():
        words += (
            f" Done in about {span(ahead.likely)} ({span(ahead.soonest)} to {span(ahead.latest)})."
        )
    return f'<p class="answer">{escape(words)}</p>'


def plot_section(
    name: str, title: str, why: str, buttons: Iterable[tuple[str, str]] = (), *, low: bool = False
) -> str:
    """A plot with its title, what it shows, and what can be turned."""
    made = "".join(
        f'<button data-plot="{name}" data-turns="{turns}" aria-pressed="false">{label}</button>'
        for turns, label in buttons
    )
    return (
        f'<section><span class="buttons">{made}</span><h2>{escape(title)}</h2>'
        f'<p class="why">{escape(why)}</p>'
        f'<div id="{name}" class="plot{" low" if low else ""}"></div></section>'
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th{_n(place, numbers)}>{escape(h)}</th>" for place, h in enumerate(heads))
    body = "".join(
        "<tr>"
        + "".join(f"<td{_n(place, numbers)}>{cell}</td>" for place, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _n(place: int, numbers: Sequence[int]) -> str:
    return ' class="n"' if place in numbers else ""


def goodput_table(chapter: Chapter) -> str:
    """The buckets with their time; they add up to the wall time."""
    spent = chapter.spent
    rows = [
        (
            f'<span class="swatch" style="background:{BUCKET_COLOURS[bucket]}"></span>{bucket}',
            span(seconds),
            percent(seconds / spent.wall),
        )
        for bucket, seconds in buckets_with_time(chapter)
    ]
    rows.append(("<b>wall time</b>", f"<b>{span(spent.wall)}</b>", "<b>100 %</b>"))
    return table(("", "time", "share"), rows, (1, 2))


def starts_table(chapter: Chapter) -> str:
    """Every start of the processes, and why it ended."""
    kept = chapter.view.restarts()[-MOST_ROWS:]
    rows = [
        (
            str(start.attempt),
            moment(start.began),
            f"{start.first_step:,} → {start.last_step:,}",
            span(start.ended - start.began) if start.ended else "goes on",
            f'<span class="bad">{start.lost_steps:,}</span>' if start.lost_steps else "0",
            escape(shortened(start.cause, 160)) or "goes on",
        )
        for start in kept
    ]
    left = chapter.view.starts.total - len(kept)
    note = f'<p class="why">{left:,} earlier starts are not listed.</p>' if left > 0 else ""
    heads = ("attempt", "training began, UTC", "steps", "for", "done again", "why it ended")
    return table(heads, rows, (2, 3, 4)) + note


def plan_section(chapter: Chapter) -> str:
    """What the plan said beside what was measured."""
    found = chapter.against
    title = "<section><h2>Plan against measured</h2>"
    if found is None:
        plan = chapter.history.plan
        why = (
            "This run is on processors without a GPU, of which the planner predicts nothing."
            if plan is not None
            else "No plan of this run is known here. Give its spec, or its name in the directory "
            "of its spec."
        )
        return f'{title}<p class="why">{why}</p></section>'
    rows = []
    if found.step_seconds is not None:
        rows.append(_compared("time of a step", found.step_seconds, duration))
    if found.memory is not None:
        rows.append(_compared("memory of the fullest GPU", found.memory, lambda b: f"{gib(b)} GiB"))
    if not rows:
        return f'{title}<p class="why">Nothing that was planned was measured.</p></section>'
    heads = ("", "plan", "measured", "difference", "")
    return f"{title}{table(heads, rows, (1, 2, 3))}</section>"


def _compared(name: str, found: Compared, show: Callable[[float], str]) -> tuple[str, ...]:
    inside = "within the plan's error" if found.within else "outside the plan's error"
    kind = "good" if found.within else "bad"
    return (
        name,
        f"{show(found.planned)} ± {percent(found.error)}",
        show(found.measured),
        f"{100 * found.difference:+.0f} %",
        f'<span class="{kind}">{inside}</span>',
    )


def findings_section(chapter: Chapter) -> str:
    """What was found while the run went on."""
    view = chapter.view
    if not view.found:
        return ""
    kept = list(view.findings)[-MOST_ROWS:]
    rows = [
        (
            moment(event.time),
            f"{event.step:,}",
            f'<span class="{_kind(event.values.get("severity"))}">'
            f"{escape(str(event.values.get('code', '')))}</span>",
            escape(str(event.values.get("rule", ""))),
            escape(str(event.values.get("fix", ""))),
        )
        for event in kept
    ]
    total = sum(view.found.values())
    left = f"; the newest {len(kept)} are listed" if total > len(kept) else ""
    counts = ", ".join(f"{code} {number:,}" for code, number in view.found.most_common())
    return (
        f"<section><h2>{escape(counted(total, 'finding').capitalize())}</h2>"
        f'<p class="why">{escape(counts + left)}</p>'
        f"{table(('time, UTC', 'step', 'code', 'what', 'what to do'), rows, (1,))}</section>"
    )


def _kind(severity: object) -> str:
    return "bad" if severity == Severity.ERROR else ""


def _known(value: float | None, words: Callable[[float], str]) -> str:
    return "–" if value is None else words(value)


def compare_table(chapters: Sequence[Chapter]) -> str:
    """The numbers that matter of several runs, side by side."""

    def row(name: str, cells: Iterable[str]) -> tuple[str, ...]:
        return (name, *cells)

    numbers = [(chapter, chapter.snapshot, chapter.spent) for chapter in chapters]
    rows = [
        row("steps", (f"{n.step:,}" for _, n, _ in numbers)),
        row("loss", (loss_words(n.loss) for _, n, _ in numbers)),
        row("validation loss", (_known(n.evaluation, loss_words) for _, n, _ in numbers)),
        row("time of a step", (_known(n.step_seconds, duration) for _, n, _ in numbers)),
        row(
            "tokens per second",
            (_known(n.tokens_per_second, three) for _, n, _ in numbers),
        ),
        row("MFU", (_known(n.mfu, percent) for _, n, _ in numbers)),
        row("wall time", (span(s.wall) for _, _, s in numbers)),
        row("goodput", (percent(s.share) for _, _, s in numbers)),
        row("restarts", (f"{s.restarts}" for _, _, s in numbers)),
        row("steps done again", (f"{s.replayed_steps:,}" for _, _, s in numbers)),
    ]
    heads = ("", *(chapter.name for chapter in chapters))
    return f"<section>{table(heads, rows, range(1, len(heads)))}</section>"
