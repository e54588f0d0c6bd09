# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A simulated step as pictures, and as a trace for Perfetto or chrome://tracing."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any

from seatrial.planning.counted import Pass, RankCount
from seatrial.rehearsal.step_trace import COMPUTE, STREAMS, StepTrace, TraceSpan
from seatrial.reports.plan_phrases import duration, gib
from seatrial.reports.plan_style import STYLE
from seatrial.reports.svg import WIDTH, Box, Curve, curves, legend, timeline

ROWS = (COMPUTE, *STREAMS.values())
"""The streams of a stage in the order in which they are shown."""
ALL_STREAMS = 4
"""Up to this number of stages, the picture has all streams of each; otherwise of three."""
MOST_STAGES = 16
PASSES = {
    Pass.FORWARD: " of a micro-batch",
    Pass.BACKWARD: " of a micro-batch",
    Pass.UPDATE: "",
}
STYLES = {
    Pass.SETUP: "c6",
    Pass.FORWARD: "forward",
    Pass.BACKWARD: "backward",
    Pass.UPDATE: "c7",
}
EXCHANGED = "c0"


def chrome_trace(trace: StepTrace) -> dict[str, Any]:
    """Return the step in the JSON format of Chrome's traces: a process for each stage."""
    events: list[dict[str, Any]] = []
    used = {(span.stage, span.stream) for span in trace.spans}
    for stage in sorted({stage for stage, _ in used}):
        events.append(_label("process_name", stage, 0, f"stage {stage}"))
        events += [
            _label("thread_name", stage, number, name)
            for number, name in enumerate(ROWS)
            if (stage, name) in used
        ]
    events += map(_traced, trace.spans)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "step_seconds": trace.seconds,
            "micro_batches": f"{trace.micro_batches} of {trace.of_micro_batches}",
        },
    }


def _label(name: str, stage: int, stream: int, text: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": stage, "tid": stream, "args": {"name": text}}


def _traced(span: TraceSpan) -> dict[str, Any]:
    details = {
        "micro_batch": span.micro_batch if span.micro_batch >= 0 else None,
        "chunk": span.chunk,
        "module": span.module or None,
        "line": span.line or None,
        "bytes": span.size or None,
    }
    return {
        "name": span.name,
        "cat": str(span.during),
        "ph": "X",
        "ts": span.begin * 1e6,
        "dur": (span.end - span.begin) * 1e6,
        "pid": span.stage,
        "tid": ROWS.index(span.stream),
        "args": {name: value for name, value in details.items() if value is not None},
    }


def step_picture(trace: StepTrace) -> str:
    """Return the streams of the stages along time."""
    stages = sorted({span.stage for span in trace.spans})
    shown = _evenly(stages)
    detailed = set(stages if len(stages) <= ALL_STREAMS else _ends(stages))
    rows: list[str] = []
    boxes: list[Box] = []
    pixel = trace.executed / WIDTH
    for stage in shown:
        for stream in ROWS:
            own = [s for s in trace.spans if (s.stage, s.stream) == (stage, stream)]
            if not own or (stream != COMPUTE and stage not in detailed):
                continue
            boxes += _boxes(own, len(rows), pixel)
            rows.append(f"stage {stage}" if stream == COMPUTE else f"    {stream}")
    meaning = [(STYLES[each], f"{each}{note}") for each, note in PASSES.items()]
    words = legend((), (), *meaning, (EXCHANGED, "communication"))
    return timeline(boxes, rows) + words


def _evenly(stages: Sequence[int]) -> list[int]:
    step = -(-len(stages) // MOST_STAGES)
    return sorted({*stages[::step], stages[-1]})


def _ends(stages: Sequence[int]) -> set[int]:
    return {stages[0], stages[len(stages) // 2], stages[-1]}


def _boxes(spans: list[TraceSpan], row: int, pixel: float) -> Iterator[Box]:
    """Join what belongs to one pass of a micro-batch, and what is less than a pixel apart."""
    compute = spans[0].stream == COMPUTE
    ordered = sorted(spans, key=lambda span: span.begin)
    for part, together in groupby(ordered, key=_part):
        # A pass is one box, with the collectives inside it.
        whole = compute and part[0] is not Pass.UPDATE
        for begin, end, first in _joined(together, None if whole else pixel):
            style = STYLES[first.during] if compute else EXCHANGED
            word = str(first.micro_batch) if compute and first.micro_batch >= 0 else ""
            yield Box(row, begin, end, style, word, _tip(first, end - begin))


def _part(span: TraceSpan) -> tuple[Pass, int, int]:
    return (span.during, span.micro_batch, span.chunk)


def _joined(
    spans: Iterable[TraceSpan], gap: float | None
) -> Iterator[tuple[float, float, TraceSpan]]:
    """Return intervals; without a gap, everything is one."""
    first: TraceSpan | None = None
    begin = end = 0.0
    for span in spans:
        if first is not None and (gap is None or span.begin - end < gap):
            end = max(end, span.end)
            continue
        if first is not None:
            yield begin, end, first
        first, begin, end = span, span.begin, span.end
    if first is not None:
        yield begin, end, first


def _tip(span: TraceSpan, seconds: float) -> str:
    batch = f" of micro-batch {span.micro_batch}" if span.micro_batch >= 0 else ""
    chunk = f", chunk {span.chunk}" if span.chunk else ""
    kind = "" if span.stream == COMPUTE else f"{span.stream} {span.name}, "
    return f"{kind}{span.during}{batch}{chunk}: {duration(seconds)}"


def memory_picture(
    records: Iterable[RankCount], trace: StepTrace | None = None, limit: int | None = None
) -> str:
    """Return the memory of each stage over the step, with the micro-batches in flight.

    With a trace, time is along the picture; otherwise the events are.
    """
    ordered = sorted(records, key=lambda record: record.pp_rank)
    by_stage = {record.pp_rank: record for record in ordered}
    rows = [_memory_row(by_stage[stage], trace) for stage in _evenly(list(by_stage))]
    words: list[tuple[str, str]] = [("live", "memory"), ("flight", "micro-batches in flight")]
    if limit is not None:
        words.append(("limit", f"the GPU's {gib(limit)} GiB"))
    return curves(rows, limit) + legend((), (), *words)


def _memory_row(record: RankCount, trace: StepTrace | None) -> tuple[Curve, Curve]:
    points = record.timeline
    clocks = None if trace is None else trace.clocks[record.pp_rank]
    times = [float(p.event) if clocks is None else clocks[p.event] for p in points]
    highest = max((point.live for point in points), default=0)
    flight = max((point.in_flight for point in points), default=0)
    batches = "1 micro-batch" if flight == 1 else f"{flight} micro-batches"
    tip = f"stage {record.pp_rank}: at most {gib(highest)} GiB, {batches} in flight"
    live = [(time, float(point.live)) for time, point in zip(times, points, strict=True)]
    flying = [(time, float(point.in_flight)) for time, point in zip(times, points, strict=True)]
    label = f"stage {record.pp_rank}"
    return Curve(label, live, "live", tip, f"{gib(highest)} GiB"), Curve(
        label, flying, "flight", tip
    )


def step_page(name: str, trace: StepTrace, records: Iterable[RankCount]) -> str:
    """Return both pictures as an HTML file without external resources."""
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in trace.sentences())
    count = f"{trace.micro_batches} of {trace.of_micro_batches} micro-batches are shown."
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{escape(name)}</h1>"
        f'<p class="head">{duration(trace.seconds)} per step. {count}</p><ul>{said}</ul>'
        f"<h2>Step</h2>{step_picture(trace)}<h2>Memory</h2>{memory_picture(records, trace)}"
        "</body></html>\n"
    )
