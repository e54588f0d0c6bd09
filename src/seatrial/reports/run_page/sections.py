# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The sections of a report as HTML: cards, tables and containers for plots."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from seatrial.findings import Severity
from seatrial.monitoring.goodput import Bucket
from seatrial.monitoring.prediction import Compared, Forecast
from seatrial.reports.plan_phrases import duration, gib, layout_words, three
from seatrial.reports.run_page.chapter import Chapter, RunState
from seatrial.reports.run_page.figures import buckets_with_time
from seatrial.reports.run_page.headline import loss_change
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
"""The maximum number of rows in a table. The newest are kept."""


def card(label: str, value: str, note: str = "") -> str:
    """Return a key number with its label."""
    return (
        f'<div class="card"><small>{escape(label)}</small><b>{escape(value)}</b>'
        f"<i>{escape(note)}</i></div>"
    )


def cards(chapter: Chapter) -> str:
    """Return the key numbers."""
    now, spent = chapter.snapshot, chapter.spent
    made = [_progress(chapter)]
    best = f"validation {now.evaluation:.4g}" if now.evaluation is not None else ""
    made.append(card("loss", loss_words(now.loss), best))
    if now.tokens_per_second:
        each = f"{duration(now.step_seconds)} per step" if now.step_seconds else ""
        made.append(card("tokens per second", three(now.tokens_per_second), each))
    elif now.step_seconds:
        made.append(card("step time", duration(now.step_seconds)))
    if now.mfu is not None:
        rate = f"{now.flops_per_gpu / 1e12:.0f} TFLOP/s per GPU" if now.flops_per_gpu else ""
        made.append(card("MFU", percent(now.mfu), rate))
    if spent.wall:
        made.append(card("goodput", percent(spent.share), f"of {span(spent.wall)}"))
    again = f"{counted(spent.replayed_steps, 'step')} repeated"
    made.append(card("restarts", f"{spent.restarts}", again))
    planned = chapter.against.step_seconds if chapter.against is not None else None
    if planned is not None:
        note = f"planned {duration(planned.planned)} ± {percent(planned.error)}"
        made.append(card("step time vs. plan", f"{100 * planned.difference:+.0f} %", note))
    return f'<div class="cards">{"".join(made)}</div>'


def _progress(chapter: Chapter) -> str:
    now = chapter.snapshot
    tokens = chapter.tokens_per_step
    note = f"{format_count(tokens * now.step)} tokens" if tokens else ""
    if now.total_steps:
        return card("steps", f"{now.step:,}", f"of {now.total_steps:,} · {note}".rstrip(" ·"))
    return card("steps", f"{now.step:,}", note)


def answer(chapter: Chapter) -> str:
    """Summarise the run in a few sentences."""
    spent, state = chapter.spent, chapter.state
    words = [_time_words(chapter)]
    if state is RunState.FAILED:
        words.insert(0, loss_change(chapter).capitalize())
    ahead = chapter.view.outlook()
    if ahead is not None and state is RunState.RUNNING:
        words.append(
            f"About {span(ahead.likely)} remaining ({span(ahead.soonest)} to {span(ahead.latest)})"
        )
    if spent.replayed_steps:
        words.append(
            f"{counted(spent.replayed_steps, 'step').capitalize()} repeated after restarts"
        )
    total = sum(chapter.view.found.values())
    if total:
        codes = ", ".join(code for code, _ in chapter.view.found.most_common(3))
        words.append(f"{counted(total, 'finding')}: {codes}")
    if state is RunState.FAILED:
        words.append("For the evidence and the fix, run seatrial diagnose")
    text = " ".join(f"{sentence}." for sentence in words if sentence)
    return f'<p class="answer">{escape(text)}</p>'


def _time_words(chapter: Chapter) -> str:
    """Describe how long the run took, and what besides training took time."""
    spent = chapter.spent
    steps = counted(chapter.view.new_steps, "step")
    if not spent.wall:
        return f"{steps}, without a known duration"
    others = [
        f"{bucket} {percent(seconds / spent.wall)}"
        for bucket, seconds in buckets_with_time(chapter)
        if bucket is not Bucket.TRAINING
    ]
    shares = [f"training {percent(spent.share)}", *others[:2]]
    return f"{steps} in {span(spent.wall)}: {', '.join(shares)}"


def plot_section(
    name: str, title: str, why: str, buttons: Iterable[tuple[str, str]] = (), legend: str = ""
) -> str:
    """Return a section with a plot, its title, its description and its buttons."""
    made = "".join(
        f'<button data-plot="{name}" data-turns="{turns}" aria-pressed="false">{label}</button>'
        for turns, label in buttons
    )
    made += f'<button data-image="{name}" title="Save this plot as an image">PNG</button>'
    return (
        f'<section><div class="top"><h2>{escape(title)}</h2>'
        f'<span class="buttons">{made}</span></div>'
        f'<p class="why">{escape(why)}</p>{legend}'
        f'<div id="{name}" class="plot"></div></section>'
    )


def bucket_legend(chapters: Sequence[Chapter]) -> str:
    """Return the colours of the buckets that are not empty."""
    held = {bucket for chapter in chapters for bucket, _ in buckets_with_time(chapter)}
    made = "".join(f"<span>{_swatch(bucket)}</span>" for bucket in BUCKET_COLOURS if bucket in held)
    return f'<div class="legend">{made}</div>'


def _swatch(bucket: Bucket) -> str:
    return f'<span class="swatch" style="background:{BUCKET_COLOURS[bucket]}"></span>{bucket}'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return a table. Cells are HTML, heads are text."""
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
    """Return the time of each bucket. The buckets add up to the wall-clock time."""
    spent = chapter.spent
    rows = [
        (_swatch(bucket), span(seconds), percent(seconds / spent.wall))
        for bucket, seconds in buckets_with_time(chapter)
    ]
    rows.append(("<b>wall-clock time</b>", f"<b>{span(spent.wall)}</b>", "<b>100 %</b>"))
    return table(("", "time", "share"), rows, (1, 2))


def starts_table(chapter: Chapter) -> str:
    """List every start of the processes, and why it ended."""
    kept = chapter.view.restarts()[-MOST_ROWS:]
    rows = [
        (
            str(start.attempt),
            moment(start.began),
            f"{start.first_step:,} → {start.last_step:,}",
            span(start.ended - start.began) if start.ended else "running",
            f'<span class="bad">{start.lost_steps:,}</span>' if start.lost_steps else "0",
            escape(shortened(start.cause, 160)) or "running",
        )
        for start in kept
    ]
    left = chapter.view.starts.total - len(kept)
    note = f'<p class="why">{left:,} earlier starts not listed.</p>' if left > 0 else ""
    heads = (
        "attempt",
        "training started (UTC)",
        "steps",
        "duration",
        "repeated",
        "reason for exit",
    )
    return table(heads, rows, (2, 3, 4)) + note


def plan_section(chapter: Chapter) -> str:
    """Compare the plan with the measurements."""
    found = chapter.against
    title = "<section><h2>Planned versus measured</h2>"
    if found is None:
        plan = chapter.history.plan
        why = (
            "The planner has no prediction for this run. It predicts only runs on GPUs."
            if plan is not None
            else "No plan found. Pass the run's spec, or its name in the spec's directory."
        )
        return f'{title}<p class="why">{why}</p></section>'
    rows = []
    if found.step_seconds is not None:
        rows.append(_compared("step time", found.step_seconds, duration))
    if found.memory is not None:
        rows.append(_compared("memory of the fullest GPU", found.memory, _gib))
    if not rows:
        return f'{title}<p class="why">No planned value was measured.</p></section>'
    heads = ("", "planned", "measured", "difference", "")
    return f"{title}{table(heads, rows, (1, 2, 3))}</section>"


def _compared(name: str, found: Compared, show: Callable[[float], str]) -> tuple[str, ...]:
    inside = "within the error bar" if found.within else "outside the error bar"
    kind = "good" if found.within else "bad"
    return (
        name,
        f"{show(found.planned)} ± {percent(found.error)}",
        show(found.measured),
        f"{100 * found.difference:+.0f} %",
        f'<span class="{kind}">{inside}</span>',
    )


def findings_section(chapter: Chapter) -> str:
    """List the findings of the run."""
    view = chapter.view
    if not view.found:
        return ""
    kept = list(view.findings)[-MOST_ROWS:]
    rows = [
        (
            moment(event.time),
            f"{event.step:,}",
            f'<span class="code {_kind(event.values.get("severity"))}">'
            f"{escape(str(event.values.get('code', '')))}</span>",
            escape(str(event.values.get("rule", ""))),
            escape(str(event.values.get("fix", ""))),
        )
        for event in kept
    ]
    total = sum(view.found.values())
    left = f"; showing the newest {len(kept)}" if total > len(kept) else ""
    counts = ", ".join(f"{number:,} × {code}" for code, number in view.found.most_common())
    return (
        f"<section><h2>{escape(counted(total, 'finding').capitalize())}</h2>"
        f'<p class="why">{escape(counts + left)}</p>'
        f"{table(('time (UTC)', 'step', 'code', 'finding', 'fix'), rows, (1,))}</section>"
    )


def _kind(severity: object) -> str:
    return "bad" if severity == Severity.ERROR else ""


def _known(value: float | None, words: Callable[[float], str]) -> str:
    return "–" if value is None else words(value)


def compare_table(chapters: Sequence[Chapter]) -> str:
    """Compare the key numbers of several runs."""

    def row(name: str, cells: Iterable[str]) -> tuple[str, ...]:
        return (name, *cells)

    numbers = [(chapter, chapter.snapshot, chapter.spent) for chapter in chapters]
    rows = [
        row("steps", (f"{n.step:,}" for _, n, _ in numbers)),
        row("loss", (loss_words(n.loss) for _, n, _ in numbers)),
        row("validation loss", (_known(n.evaluation, loss_words) for _, n, _ in numbers)),
        row("layout", (_layout(c) for c, _, _ in numbers)),
        row("step time", (_known(n.step_seconds, duration) for _, n, _ in numbers)),
        row("planned step time", (_planned(c, _step_time, duration) for c, _, _ in numbers)),
        row("memory of the fullest GPU", (_known(n.memory, _gib) for _, n, _ in numbers)),
        row("planned memory", (_planned(c, _memory, _gib) for c, _, _ in numbers)),
        row(
            "tokens per second",
            (_known(n.tokens_per_second, three) for _, n, _ in numbers),
        ),
        row("MFU", (_known(n.mfu, percent) for _, n, _ in numbers)),
        row("wall-clock time", (span(s.wall) for _, _, s in numbers)),
        row("goodput", (percent(s.share) for _, _, s in numbers)),
        row("restarts", (f"{s.restarts}" for _, _, s in numbers)),
        row("repeated steps", (f"{s.replayed_steps:,}" for _, _, s in numbers)),
    ]
    # A row without any value says nothing about the runs.
    rows = [each for each in rows if any(cell != "–" for cell in each[1:])]
    heads = ("", *(chapter.name for chapter in chapters))
    return f"<section>{table(heads, rows, range(1, len(heads)))}</section>"


def _layout(chapter: Chapter) -> str:
    plan = chapter.history.plan
    return "–" if plan is None else escape(layout_words(plan.layout))


def _gib(size: float) -> str:
    return f"{gib(size)} GiB"


def _step_time(forecast: Forecast) -> tuple[float, float]:
    return forecast.time.total, forecast.time.error


def _memory(forecast: Forecast) -> tuple[float, float]:
    return forecast.memory.fullest.total, forecast.memory.error


def _planned(
    chapter: Chapter,
    value_and_error: Callable[[Forecast], tuple[float, float]],
    show: Callable[[float], str],
) -> str:
    """Return a planned value with its error bar."""
    forecast = chapter.history.forecast
    if forecast is None:
        return "–"
    value, error = value_and_error(forecast)
    return f"{show(value)} ± {percent(error)}"
