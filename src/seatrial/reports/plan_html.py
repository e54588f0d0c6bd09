# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A plan as one HTML file without scripts or external resources, light and dark."""

from html import escape
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.planning.memory.breakdown import MemoryPart
from seatrial.planning.planner import PlannedRun
from seatrial.planning.search.candidates import Priced
from seatrial.planning.search.pipeline_schedule import Slot, schedule
from seatrial.planning.timing.breakdown import TimePart
from seatrial.reports.node_map import DrawnNodes, caption, drawn_nodes
from seatrial.reports.plan_phrases import GIB, duration, duration_with_error, gib, spread
from seatrial.reports.plan_style import STYLE
from seatrial.reports.plan_text import (
    FIT_WORDS,
    Page,
    head_words,
    page_lines,
    percent_of,
    step_error,
    step_words,
)
from seatrial.reports.svg import Bar, BarPiece, Box, legend, stacked, timeline

MOST_STAGES = 16
"""Maximum number of stages that are drawn; if there are more, evenly spaced ones."""
STEADY = 4
"""Micro-batches of the schedule beyond those that fill the pipeline; the others repeat them."""
NODES_DRAWN = 15
"""Nodes that are drawn first; the last one follows them."""
SMALLEST_SHARE = 0.0005
"""Parts of a step below this share are omitted from the list."""

MARK = '<meta name="generator" content="seatrial plan">'
"""The mark of a page that a newer one may replace."""
MARKED_WITHIN = 4096
"""Bytes at the start of a file that contain the mark."""


def refuse_other_file(path: Path) -> None:
    """Refuse to replace any file that is not the page of a plan, such as the spec."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as stream:
            beginning = stream.read(MARKED_WITHIN)
    except OSError as error:
        raise UsageError(f"--html {path} cannot be read: {error.strerror}.") from None
    if beginning and MARK.encode() not in beginning:
        raise UsageError(
            f"--html {path} exists and was not written by seatrial plan, so it is not replaced. "
            "Choose a different name, or remove the file."
        )


def html_page(page: Page) -> str:
    """Return the whole file."""
    name = escape(page.run.plan.spec.name)
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{name}: plan</title>',
        MARK,
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body>",
        f'<h1>{name}</h1><p class="head">{escape(head_words(page, name=False))}</p>',
        _facts(page),
        _options_off(page.run),
        _nodes(page),
    ]
    if page.run.chosen is not None:
        chosen = page.run.chosen
        parts += [_memory(chosen), _step(page.run, chosen), _schedule(chosen)]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _facts(page: Page) -> str:
    """Return the lines of the page as a list, without those that the pictures replace."""
    rows = []
    for label, text in page_lines(page, pictures=False):
        rows.append(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>")
    return f"<dl>{''.join(rows)}</dl>"


def _options_off(run: PlannedRun) -> str:
    """Return the performance options that are off, with the reasons; empty without any."""
    rows = "".join(
        f"<dt>{escape(off.words)}</dt><dd>{escape(off.reason)}</dd>" for off in run.options_off
    )
    return f'<h2>Options that are off</h2><dl class="wide">{rows}</dl>' if rows else ""


def _nodes(page: Page) -> str:
    """Return the map of the nodes: which part of the model is on each GPU."""
    plan = page.run.plan
    drawn = drawn_nodes(plan.layout, plan.machines, NODES_DRAWN)
    boxes = "".join("<div>…</div>" if node is None else _node(node) for node in drawn)
    numbers = caption(plan.layout, plan.machines)
    note = f"{numbers[:1].upper()}{numbers[1:]}."
    if plan.layout.tp_size > 1:
        note += " GPUs without a gap between them split the matrices of each layer."
    return f'<h2>Nodes</h2><div class="nodes">{boxes}</div><p class="note">{escape(note)}</p>'


def _node(node: DrawnNodes) -> str:
    """Return one node with its GPUs."""
    groups = "".join(
        "<b>"
        + "".join(f'<em class="{"odd" if n % 2 else "even"}">{n}</em>' for n in group)
        + "</b>"
        for group in node.groups
    )
    more = "<b>…</b>" if node.more else ""
    return f'<div class="node"><span>{escape(node.name)}</span><div>{groups}{more}</div></div>'


def _shown_stages(count: int) -> list[int]:
    """Return the stages that are drawn: all of them, or evenly spaced ones and the last."""
    step = -(-count // MOST_STAGES)
    return sorted({*range(0, count, step), count - 1})


def _memory(chosen: Priced) -> str:
    """Return the memory of the stages as stacked bars, with the memory of the GPU as the limit."""
    need = chosen.memory
    room = need.headroom + need.fullest.total
    names = [str(part) for part in MemoryPart]
    shown = [need.stages[index] for index in _shown_stages(len(need.stages))]
    bars = [
        Bar(
            f"stage {stage.index}",
            [
                BarPiece(str(part), size, f"stage {stage.index}, {part}: {gib(size)} GiB")
                for part, size in stage.parts.items()
            ],
            f"{gib(stage.total)} ± {spread(stage.total * need.error / GIB)} GiB",
            stage.total * need.error,
        )
        for stage in shown
    ]
    used = [str(part) for stage in shown for part, size in stage.parts.items() if size]
    limit = f"limit: {gib(room)} GiB of {chosen.workload.hardware.accelerator}"
    key = legend(names, used, ("limit", limit), ("error", "error bar"))
    left_out = len(need.stages) - len(shown)
    note = f'<p class="note">{left_out} other stages are not drawn.</p>' if left_out else ""
    verdict = f'<span class="{need.verdict}">{FIT_WORDS[need.verdict]}</span>'
    return f"<h2>Memory per stage: {verdict}</h2>{key}{stacked(bars, names, room)}{note}"


def _step(run: PlannedRun, chosen: Priced) -> str:
    """Return the parts of a step as one stacked bar, and as numbers."""
    time = chosen.time
    names = [str(part) for part in TimePart]
    pieces = [
        BarPiece(
            str(part), seconds, f"{part}: {duration(seconds)}, {percent_of(seconds / time.total)}"
        )
        for part, seconds in time.parts.items()
    ]
    error = step_error(run)
    bar = Bar("step", pieces, duration_with_error(time.total, error), time.total * error)
    parts = sorted(time.parts.items(), key=lambda item: -item[1])
    large = [(part, seconds) for part, seconds in parts if seconds >= SMALLEST_SHARE * time.total]
    numbers = "".join(
        f"<dt>{percent_of(seconds / time.total)}</dt>"
        f"<dd>{escape(str(part))}, {duration(seconds)}</dd>"
        for part, seconds in large
    )
    key = legend(names, [str(part) for part, _ in large], ("error", "error bar"))
    head = f"<h2>Step time: {escape(step_words(run, chosen))}</h2>"
    return f"{head}{key}{stacked([bar], names)}<dl>{numbers}</dl>"


def _schedule(chosen: Priced) -> str:
    """Return the pipeline schedule from the first micro-batch to the last, with the bubble."""
    layout, total = chosen.workload.layout, chosen.workload.micro_batches
    stages, chunks = layout.pp_size, layout.vp_size
    if stages == 1:
        return ""
    # Interleaved schedules work in rounds of as many micro-batches as there are stages.
    count = min(total, 2 * stages if chunks > 1 else stages + STEADY)
    slots = schedule(chosen.time.stages, count, chunks)
    rows = _shown_stages(stages)
    left_out = total - count
    boxes = [
        _box(slot, rows.index(slot.stage), left_out if slot.micro_batch >= count // 2 else 0)
        for slot in slots
        if slot.stage in rows
    ]
    boxes += _bubble(slots, rows)
    key = legend(
        (), (), ("forward", "forward"), ("backward", "backward"), ("bubble", "bubble: idle")
    )
    share = chosen.time.parts.get(TimePart.BUBBLE, 0.0) / chosen.time.total
    notes = [f"The bubble takes {percent_of(share)} of the step."]
    if left_out:
        notes.append(
            f"Micro-batches {count // 2} to {count // 2 + left_out - 1:,} repeat the same pattern "
            "and are not drawn."
        )
    if len(rows) < stages:
        notes.append(f"{len(rows)} of {stages} stages are drawn.")
    picture = timeline(boxes, [f"stage {stage}" for stage in rows])
    words = f'<p class="note">{escape(" ".join(notes))}</p>'
    return f"<h2>Pipeline schedule of a step</h2>{key}{picture}{words}"


def _box(slot: Slot, row: int, later: int) -> Box:
    """Return the box of a pass; `later` is the number of micro-batches left out before it."""
    kind, number = "forward" if slot.forward else "backward", slot.micro_batch + later
    return Box(
        row,
        slot.begin,
        slot.end,
        kind + (" odd" if slot.chunk % 2 else ""),
        str(number),
        f"{kind} of micro-batch {number}, chunk {slot.chunk}: {duration(slot.end - slot.begin)}",
    )


def _bubble(slots: list[Slot], rows: list[int]) -> list[Box]:
    """Return a box for each time in which a stage waits."""
    end = max(slot.end for slot in slots)
    boxes = []
    for row, stage in enumerate(rows):
        free = 0.0
        for slot in sorted((s for s in slots if s.stage == stage), key=lambda s: s.begin):
            boxes.append((row, free, slot.begin))
            free = slot.end
        boxes.append((row, free, end))
    return [
        Box(row, begin, until, "bubble", "", f"idle for {duration(until - begin)}")
        for row, begin, until in boxes
        if until - begin > SMALLEST_SHARE * end
    ]
