# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A plan as one HTML file: no script, nothing fetched, light and dark."""

from html import escape
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.planning.memory.breakdown import MemoryPart
from seatrial.planning.planner import PlannedRun
from seatrial.planning.search.candidates import Priced
from seatrial.planning.search.pipeline_schedule import schedule
from seatrial.planning.timing.breakdown import TimePart
from seatrial.reports.plan_phrases import duration, duration_with_error, gib
from seatrial.reports.plan_text import Page, head_words, page_lines, percent_of, step_words
from seatrial.reports.svg import Bar, BarPiece, Box, legend, stacked, timeline

MOST_STAGES = 16
"""Stages that are drawn; of more, evenly spaced ones."""
MOST_SCHEDULE_STAGES = 8
"""Rows of the schedule."""
MOST_ROUNDS = 2
"""Micro batches of the schedule, in multiples of its stages; more would be too small to see."""

SMALLEST_SHARE = 0.0005
"""Parts of a step below this share are left out of the list."""

MARK = '<meta name="generator" content="seatrial plan">'
"""What tells a page that may be replaced by a newer one from any other file."""
MARKED_WITHIN = 4096
"""Bytes at the beginning of a file among which the mark is."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --paper: #ffffff;
  --line: #d5dae0; --p0: #2f6db3; --p1: #5a9bd4; --p2: #8ec1e8; --p3: #e08a3c; --p4: #f2b97f;
  --p5: #8a8f98; --p6: #c3c7cd; --p7: #6b8e5a; --p8: #a9c49a; --p9: #b4576b; --forward: #5a9bd4;
  --backward: #e08a3c; --limit: #b3261e; --inside: #10151a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa4af; --paper: #14181d;
  --line: #333b44; --p0: #4f8fd6; --p1: #3a6ea5; --p2: #2a527d; --p3: #d9863b; --p4: #9a6330;
  --p5: #8a8f98; --p6: #545b64; --p7: #86ad73; --p8: #57754a; --p9: #cf7286; --forward: #3f79b5;
  --backward: #c97a35; --limit: #ff8a80; --inside: #f3f5f7; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 900px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.4em; margin-bottom: 0; } h2 { font-size: 1.05em; margin: 2em 0 .5em; }
.head, .note { color: var(--soft); } dl { display: grid; grid-template-columns: 6em 1fr;
  gap: .3em 1em; } dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere;
  white-space: pre-wrap; } .head { white-space: pre-wrap; }
svg { width: 100%; height: auto; display: block; } text { font-size: 13px; fill: var(--ink); }
text.note { fill: var(--soft); } text.end { text-anchor: end; }
text.inside { text-anchor: middle; font-size: 11px; fill: var(--inside); }
line.error { stroke: var(--ink); stroke-width: 1.5; }
line.limit { stroke: var(--limit); stroke-width: 1.5; stroke-dasharray: 4 3; }
rect.c0 { fill: var(--p0); } rect.c1 { fill: var(--p1); } rect.c2 { fill: var(--p2); }
rect.c3 { fill: var(--p3); } rect.c4 { fill: var(--p4); } rect.c5 { fill: var(--p5); }
rect.c6 { fill: var(--p6); } rect.c7 { fill: var(--p7); } rect.c8 { fill: var(--p8); }
rect.c9 { fill: var(--p9); } rect.forward { fill: var(--forward); }
rect.backward { fill: var(--backward); } rect.odd { opacity: .65; }
.legend { display: flex; flex-wrap: wrap; gap: .2em 1.2em; margin: .5em 0; font-size: .9em; }
.legend i { display: inline-block; width: .9em; height: .9em; margin-right: .4em;
  vertical-align: -.1em; }
i.c0 { background: var(--p0); } i.c1 { background: var(--p1); } i.c2 { background: var(--p2); }
i.c3 { background: var(--p3); } i.c4 { background: var(--p4); } i.c5 { background: var(--p5); }
i.c6 { background: var(--p6); } i.c7 { background: var(--p7); } i.c8 { background: var(--p8); }
i.c9 { background: var(--p9); } i.forward { background: var(--forward); }
i.backward { background: var(--backward); }
"""


def refuse_other_file(path: Path) -> None:
    """Refuse to replace a file that is no page of a plan, the spec for one."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as stream:
            beginning = stream.read(MARKED_WITHIN)
    except OSError as error:
        raise UsageError(f"--html {path} cannot be read: {error.strerror}.") from None
    if beginning and MARK.encode() not in beginning:
        raise UsageError(
            f"--html {path} exists and is not a page of seatrial plan, which alone is replaced. "
            "Choose another name, or remove the file."
        )


def html_page(page: Page) -> str:
    """The whole file."""
    name = escape(page.run.plan.spec.name)
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{name}: plan</title>',
        MARK,
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body>",
        f'<h1>{name}</h1><p class="head">{escape(head_words(page, name=False))}</p>',
        _facts(page),
    ]
    if page.run.chosen is not None:
        chosen = page.run.chosen
        parts += [_memory(chosen), _step(page.run, chosen), _schedule(chosen)]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _facts(page: Page) -> str:
    """The lines of the page as a list; pictures replace those that draw."""
    rows = []
    for label, text in page_lines(page, pictures=False):
        rows.append(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>")
    return f"<dl>{''.join(rows)}</dl>"


def _memory(chosen: Priced) -> str:
    """Memory of the stages as stacked bars, with the room of the GPU."""
    need = chosen.memory
    room = need.headroom + need.fullest.total
    names = [str(part) for part in MemoryPart]
    step = -(-len(need.stages) // MOST_STAGES)
    last = need.stages[-1]
    shown = [stage for stage in need.stages if stage.index % step == 0 or stage is last]
    bars = [
        Bar(
            f"stage {stage.index}",
            [
                BarPiece(str(part), size, f"stage {stage.index}, {part}: {gib(size)} GiB")
                for part, size in stage.parts.items()
            ],
            f"{gib(stage.total)} GiB ± {gib(stage.total * need.error)}",
            stage.total * need.error,
        )
        for stage in shown
    ]
    picture = stacked(
        bars, names, room, f"{gib(room)} GiB of {chosen.workload.hardware.accelerator}"
    )
    left_out = len(need.stages) - len(shown)
    note = f'<p class="note">{left_out} stages between are not drawn.</p>' if left_out else ""
    return f"<h2>Memory of each stage: {need.verdict}</h2>{legend(names)}{picture}{note}"


def _step(run: PlannedRun, chosen: Priced) -> str:
    """The parts of a step as one stacked bar, and as numbers."""
    time = chosen.time
    names = [str(part) for part in TimePart]
    pieces = [
        BarPiece(
            str(part), seconds, f"{part}: {duration(seconds)}, {percent_of(seconds / time.total)}"
        )
        for part, seconds in time.parts.items()
    ]
    error = run.time_error.nine_of_ten if run.time_error else 0.0
    words = duration_with_error(time.total, error)
    bar = Bar("step", pieces, words, time.total * error)
    picture = stacked([bar], names, time.total)
    numbers = "".join(
        f"<dt>{percent_of(seconds / time.total)}</dt>"
        f"<dd>{escape(str(part))}, {duration(seconds)}</dd>"
        for part, seconds in sorted(time.parts.items(), key=lambda item: -item[1])
        if seconds >= SMALLEST_SHARE * time.total
    )
    head = f"<h2>Time of a step: {escape(step_words(run, chosen))}</h2>"
    return f"{head}{legend(names)}{picture}<dl>{numbers}</dl>"


def _schedule(chosen: Priced) -> str:
    """The pipeline schedule, shortened where it is long."""
    layout, time = chosen.workload.layout, chosen.time
    if layout.pp_size == 1:
        return ""
    stages = min(layout.pp_size, MOST_SCHEDULE_STAGES)
    count = min(chosen.workload.micro_batches, MOST_ROUNDS * stages)
    chunks = layout.vp_size if layout.vp_size * stages * count <= 512 else 1
    slots = schedule(time.stages[:stages], count, chunks)
    boxes = [
        Box(
            slot.stage,
            slot.begin,
            slot.end,
            ("forward" if slot.forward else "backward") + (" odd" if slot.chunk % 2 else ""),
            str(slot.micro_batch),
            f"{'forward' if slot.forward else 'backward'} of micro batch {slot.micro_batch}, "
            f"chunk {slot.chunk}: {duration(slot.begin)} to {duration(slot.end)}",
        )
        for slot in slots
    ]
    rows = [f"stage {stage}" for stage in range(stages)]
    drawn = f"{count} of {chosen.workload.micro_batches:,} micro batches"
    drawn += f", {stages} of {layout.pp_size} stages" if stages < layout.pp_size else ""
    key = '<p class="legend"><span><i class="forward"></i>forward</span>'
    key += '<span><i class="backward"></i>backward</span></p>'
    return f"<h2>Pipeline schedule ({drawn})</h2>{key}{timeline(boxes, rows)}"
