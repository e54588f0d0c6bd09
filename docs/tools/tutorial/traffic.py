# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The picture of what ranks send in one step: a column for each rank, time from top to bottom."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from docs.tools.svg import (
    COLOURS,
    GREY,
    PALE,
    WIDTH,
    arrow,
    box,
    dot,
    line,
    picture,
    words,
)
from seatrial.reports.terminal import counted
from seatrial.units import format_bytes

SMALL = 8192
"""Bytes of a message below which it is a loss, a norm or a count, and not drawn."""
LEFT = 150
ROW = 38
GAP = 8
PHASES = {
    "forward": "forward passes",
    "backward": "backward passes",
    "gradients": "after the passes",
    "optimizer": "optimizer",
}
"""The parts of a step, in their order."""
KINDS = {
    "all_reduce": "all-reduce",
    "all_gather_into_tensor": "all-gather",
    "reduce_scatter_tensor": "reduce-scatter",
    "all_to_all_single": "all-to-all",
    "broadcast": "broadcast",
    "isend": "send",
}


@dataclass(frozen=True, slots=True)
class Message:
    """Messages of one kind between the same ranks in one phase."""

    phase: str
    kind: str
    ranks: tuple[int, ...]
    """Who takes part; of a send, the sender and the receiver."""
    sizes: tuple[int, ...]
    """Bytes of each of them, of one rank."""

    @property
    def label(self) -> str:
        each = format_bytes(sum(self.sizes) // len(self.sizes))
        often = f"{len(self.sizes)} × {each}" if len(self.sizes) > 1 else each
        mean = " on average" if len(set(self.sizes)) > 1 else ""
        return f"{KINDS.get(self.kind, self.kind)}, {often}{mean}"


def messages(ranks: Iterable[dict[str, Any]]) -> tuple[list[Message], Counter[str]]:
    """The messages that are drawn, in the order of a step, and how many of each phase are not."""
    found: dict[tuple[str, str, tuple[int, ...]], list[int]] = {}
    small: Counter[str] = Counter()
    for rank in ranks:
        for move in rank["moves"]:
            group = tuple(move["ranks"])
            is_send = move["peer"] >= 0
            # All ranks of a collective tell of it; the first one is believed.
            if len(group) < 2 or (not is_send and group[0] != rank["rank"]):
                continue
            between = (rank["rank"], move["peer"]) if is_send else group
            phase = _phase(move["during"], between if is_send else ())
            if move["bytes"] < SMALL:
                small[phase] += move["times"]
                continue
            key = (phase, move["kind"], between)
            found.setdefault(key, []).extend([move["bytes"]] * move["times"])
    order = list(PHASES)
    drawn = [Message(*key, tuple(sizes)) for key, sizes in found.items()]
    drawn.sort(key=lambda m: (order.index(m.phase), m.kind, _turn(m.ranks)))
    return drawn, small


def _phase(during: str, sent: tuple[int, ...]) -> str:
    """When; a pipeline sends between passes: what a forward pass gave goes to a later stage."""
    if during != "between":
        return during
    if not sent:
        return "gradients"
    return "forward" if sent[0] < sent[1] else "backward"


def _turn(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Of sends, those to later stages from the first stage on, and those back from the last."""
    return tuple(-rank for rank in ranks) if ranks[0] > ranks[-1] else ranks


def traffic(told: dict[str, Any], axis: str, title: str) -> str:
    """The picture of a layout: a band for each part of a step, a line for each kind of message."""
    ranks = told["ranks"]
    shown, small = messages(ranks)
    gap = (WIDTH - LEFT - 20) / len(ranks)
    columns = {rank["rank"]: LEFT + gap * (rank["rank"] + 0.5) for rank in ranks}
    bands: list[str] = []
    inside: list[str] = []
    y = 62.0
    for phase, colour in zip(PHASES, COLOURS, strict=False):
        mine = [message for message in shown if message.phase == phase]
        high = max(1, len(mine)) * ROW + 6
        bands.append(box(12, y, WIDTH - 24, high, PALE, PALE))
        inside.append(words(24, y + 26, PHASES[phase], colour=colour if mine else GREY, size=12))
        for position, message in enumerate(mine):
            inside += _drawn(message, columns, y + 29 + position * ROW, colour)
        if not mine:
            middle = LEFT + gap * len(ranks) / 2
            said = "nothing large" if small[phase] else "nothing"
            inside.append(words(middle, y + 26, said, "middle", GREY, 12))
        y += high + GAP
    lines = [line(x, 50, x, y - GAP) for x in columns.values()]
    for rank in ranks:
        x = columns[rank["rank"]]
        inside.append(box(x - 62, 12, 124, 38, "#ffffff", GREY))
        inside.append(words(x, 36, f"rank {rank['rank']} · {axis} {rank['place'][axis]}", "middle"))
    note = "Sizes: what one rank gives away, each time."
    if small:
        left_out = counted(small.total(), "message")
        note += f" Not drawn: {left_out} below 8 KiB, such as losses and norms."
    return picture(
        y + 30, title, [*bands, *lines, *inside, words(24, y + 12, note, colour=GREY, size=12)]
    )


def _drawn(message: Message, columns: dict[int, float], y: float, colour: str) -> list[str]:
    """A line with a dot at each rank that takes part, or an arrow."""
    places = [columns[rank] for rank in message.ranks]
    middle = (places[0] + places[-1]) / 2
    label = words(middle, y - 7, message.label, "middle", size=12)
    if message.kind in ("isend", "send"):
        return [arrow(places[0], places[-1], y, colour), label]
    return [
        line(places[0], y, places[-1], y, colour, 2),
        *(dot(place, y, colour) for place in places),
        label,
    ]
