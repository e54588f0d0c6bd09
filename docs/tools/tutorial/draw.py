# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Draw the tutorial's pictures from what docs/tools/tutorial/record.py has written down.

    python -m docs.tools.tutorial.draw

Reads docs/figures/tutorial.json, writes docs/figures/tutorial-*.svg beside it.
"""

import json
from collections.abc import Iterator
from typing import Any

from docs.tools.svg import (
    COLOURS,
    FAINT,
    GREY,
    INK,
    PALE,
    WIDTH,
    box,
    line,
    picture,
    words,
)
from docs.tools.tutorial.record import FIGURES, RECORDED
from docs.tools.tutorial.traffic import traffic
from seatrial.planning.search.pipeline_schedule import schedule
from seatrial.units import format_bytes

Recorded = dict[str, Any]
Slot = tuple[int, str, int, float, float]
"""Stage, pass, micro-batch, begin and end."""
FORWARD, BACKWARD = COLOURS[0], COLOURS[1]
PARTS = ("weights", "gradients", "optimizer", "activations")
LEFT = 130
ROW = 26


def drawn(told: dict[str, Recorded]) -> dict[str, str]:
    found = {
        "tutorial-grid.svg": grid(told["grid"]),
        "tutorial-schedule.svg": schedules(told["pp"]),
        "tutorial-memory.svg": memory(told["pp"]),
    }
    titles = {
        "dp": "data-parallel ranks",
        "tp": "tensor-parallel ranks",
        "pp": "pipeline stages",
        "cp": "context-parallel ranks",
        "ep": "expert-parallel ranks",
    }
    for name, ranks in titles.items():
        found[f"tutorial-{name}.svg"] = traffic(told[name], name, f"What {ranks} send in one step")
    return found


def grid(told: Recorded) -> str:
    """Where each rank stands: a panel for each stage, copies below each other, halves beside."""
    plan, ranks = told["plan"], told["ranks"]
    layout = plan["layout"]
    wide, high = 170, 66
    panel = layout["tp_size"] * (wide + 12) + 24
    parts: list[str] = []
    for stage, layers in enumerate(plan["layers"]):
        x = 90 + stage * panel
        named = ", ".join(str(layer + 1) for layer in layers)
        parts.append(words(x, 30, f"pipeline stage {stage}: layers {named}"))
    for copy in range(layout["dp_size"]):
        y = 44 + copy * (high + 12)
        parts.append(words(12, y + high / 2 + 4, f"copy {copy}", colour=GREY))
    for rank in ranks:
        place = rank["place"]
        x = 90 + place["pp"] * panel + place["tp"] * (wide + 12)
        y = 44 + place["dp"] * (high + 12)
        colour = COLOURS[place["tp"]]
        parts.append(box(x, y, wide, high, line=colour))
        parts.append(words(x + wide / 2, y + 26, f"rank {rank['rank']}", "middle"))
        said = f"tp {place['tp']} · dp {place['dp']} · pp {place['pp']}"
        parts.append(words(x + wide / 2, y + 48, said, "middle", GREY, 12))
    bottom = 44 + layout["dp_size"] * (high + 12) + 16
    halves = ("one half of every matrix of its layers (tp 0)", "the other half (tp 1)")
    for x, colour, text in zip((90, 440), COLOURS, halves, strict=False):
        parts += [box(x, bottom - 11, 14, 14, PALE, colour), words(x + 20, bottom, text, size=12)]
    return picture(bottom + 16, "Eight ranks in a grid", parts)


def schedules(told: Recorded) -> str:
    """When which stage worked on which micro-batch: as recorded, and as the planner reckons."""
    stages = told["plan"]["layout"]["pp_size"]
    recorded = [
        (rank["place"]["pp"], passed["doing"], passed["number"], passed["begin"], passed["end"])
        for rank in told["ranks"]
        for passed in rank["passes"]
        if passed["doing"] in ("forward", "backward")
    ]
    reckoned = [
        (s.stage, "forward" if s.forward else "backward", s.micro_batch, s.begin, s.end)
        for s in schedule((1.0,) * stages, told["plan"]["micro_batches"], 1)
    ]
    took = max(end for *_, end in recorded)
    seen = f"as recorded: {stages} processes on {told['cores']} cores, {took:.1f} s"
    parts = [words(12, 24, f"{seen}; {_waiting(recorded, stages)}")]
    parts += _timeline(recorded, stages, 36)
    below = 36 + stages * (ROW + 4) + 28
    told_so = f"as the planner reckons, with equal stages; {_waiting(reckoned, stages)}"
    parts.append(words(12, below, told_so))
    parts += _timeline(reckoned, stages, below + 12)
    bottom = below + 12 + stages * (ROW + 4) + 20
    for x, colour, text in ((LEFT, FORWARD, "forward pass"), (LEFT + 150, BACKWARD, "backward")):
        parts += [box(x, bottom - 11, 14, 14, colour, colour), words(x + 20, bottom, text)]
    parts.append(words(LEFT + 280, bottom, "the number is the micro-batch", colour=GREY))
    return picture(bottom + 16, "A pipeline's schedule", parts)


def _waiting(slots: list[Slot], stages: int) -> str:
    """The share of the time in which a stage waits, the least and the most of them."""
    whole = max(end for *_, end in slots)
    busy = [sum(e - b for s, _, _, b, e in slots if s == stage) for stage in range(stages)]
    least, most = (round(100 * (1 - part / whole)) for part in (max(busy), min(busy)))
    return (
        f"a stage waits {least} % of the time"
        if least == most
        else f"a stage waits {least} to {most} % of the time"
    )


def _timeline(slots: list[Slot], stages: int, top: float) -> Iterator[str]:
    """A row for each stage, a box for each pass."""
    scale = (WIDTH - LEFT - 16) / max(end for *_, end in slots)
    for stage in range(stages):
        y = top + stage * (ROW + 4)
        yield words(12, y + 18, f"stage {stage}", colour=GREY)
        yield line(LEFT, y + ROW + 1, WIDTH - 16, y + ROW + 1)
    for stage, doing, number, begin, end in slots:
        x, wide = LEFT + begin * scale, max(1.0, (end - begin) * scale)
        y = top + stage * (ROW + 4)
        colour = FORWARD if doing == "forward" else BACKWARD
        yield box(x, y, wide, ROW - 1, colour, "#ffffff")
        if wide > 9:
            yield words(x + wide / 2, y + 17, str(number + 1), "middle", "#ffffff", 11)


def memory(told: Recorded) -> str:
    """What each stage holds: the planner's bytes above the measured ones."""
    stages = told["plan"]["memory"]
    measured = {rank["place"]["pp"]: rank["memory"] for rank in told["ranks"]}
    whole = [sum(one[part] for part in PARTS) for one in (*stages, *measured.values())]
    scale = (WIDTH - LEFT - 190) / max(whole)
    parts: list[str] = []
    for stage, planned in enumerate(stages):
        y = 16 + stage * 66
        parts.append(words(12, y + 22, f"stage {stage}"))
        parts.append(
            words(12, y + 40, _holding(stage, told["plan"]["layers"]), colour=GREY, size=11)
        )
        for row, (name, one) in enumerate((("planned", planned), ("measured", measured[stage]))):
            x, top = float(LEFT), y + row * 26
            for part, colour in zip(PARTS, COLOURS, strict=False):
                parts.append(box(x, top, one[part] * scale, 22, colour, "#ffffff"))
                x += one[part] * scale
            total = format_bytes(sum(one[part] for part in PARTS))
            parts.append(words(x + 8, top + 16, f"{total} {name}", colour=INK, size=12))
    bottom = 16 + len(stages) * 66 + 12
    parts.append(line(LEFT, 8, LEFT, bottom - 20, FAINT))
    for position, part in enumerate(PARTS):
        x, colour = LEFT + position * 150, COLOURS[position]
        parts += [box(x, bottom - 11, 14, 14, colour, colour), words(x + 20, bottom, part)]
    return picture(bottom + 16, "Memory of pipeline stages", parts)


def _holding(stage: int, layers: list[list[int]]) -> str:
    """What a stage of the pipeline has of the model."""
    named = "layer " + ", ".join(str(layer + 1) for layer in layers[stage])
    if stage == 0:
        return f"embedding, {named}"
    return f"{named}, output" if stage == len(layers) - 1 else named


def main() -> None:
    told = json.loads(RECORDED.read_text(encoding="utf-8"))
    for name, text in drawn(told).items():
        (FIGURES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
