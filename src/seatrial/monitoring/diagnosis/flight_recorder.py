# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compare torch flight recorder dumps: find ranks that are behind or in a different collective.

The fields are those of torch's own analyser (tools/flight_recorder): entries with a process group,
a sequence number, a name, sizes and a state.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.checkpoints.pickle_rules import PLAIN_RULES
from seatrial.checkpoints.pickle_scan import scan_pickle
from seatrial.monitoring.diagnosis.knowledge import Certainty
from seatrial.monitoring.diagnosis.sighting import Sighting

_RANK = re.compile(r"(\d+)(?:\.\w+)?$")
_OWN_SIZES = ("all_to_all", "send", "recv", "scatter", "gather")
"""Collectives whose sizes may differ between ranks."""


_MOST_TENSORS, _MOST_AXES = 1 << 16, 64


@dataclass(frozen=True, slots=True)
class Dump:
    """The collectives of one rank."""

    name: str
    rank: int
    entries: dict[str, dict[int, tuple[str, str]]]
    """By group and sequence number: the collective's name and its sizes."""


def read_dump(name: str, content: bytes) -> Dump | None:
    """Parse a dump, as JSON or as torch's pickle. Return None if it is neither."""
    try:
        if content.lstrip()[:1] == b"{":
            data = json.loads(content)
        else:
            data = scan_pickle(content, PLAIN_RULES).value
        entries: dict[str, dict[int, tuple[str, str]]] = defaultdict(dict)
        for entry in data["entries"]:
            group = entry.get("process_group") or ("", "")
            number = entry.get("collective_seq_id", entry.get("seq_id"))
            called = entry.get("profiling_name", "")
            if not isinstance(group[0], str | int) or not isinstance(called, str):
                return None
            entries[str(group[0])][int(number)] = (called, _sizes(entry.get("input_sizes")))
        place = _RANK.search(name)
        rank = int(data.get("rank", int(place[1]) if place else -1))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        # The scanner and the JSON parser raise ValueError for damaged input.
        return None
    return Dump(name, rank, dict(entries))


def _sizes(sizes: Any) -> str:
    """Render the sizes of a collective's tensors.

    A crafted pickle can nest a list in itself without end; only lists of lists of numbers pass.
    """
    if sizes is None:
        return ""
    if len(sizes) > _MOST_TENSORS or any(len(one) > _MOST_AXES for one in sizes):
        raise ValueError("more tensors than a collective has")
    return json.dumps([[int(number) for number in one] for one in sizes])


def dump_sightings(dumps: Sequence[Dump]) -> Iterator[Sighting]:
    """Compare the dumps of all ranks."""
    by_group: dict[str, dict[int, Dump]] = defaultdict(dict)
    for dump in dumps:
        for group, entries in dump.entries.items():
            if entries:
                by_group[group][dump.rank] = dump
    for group, members in by_group.items():
        if len(members) > 1:
            differing = list(_differing(group, members))
            yield from differing
            if not differing:
                yield from _behind(group, members)


def _differing(group: str, members: dict[int, Dump]) -> Iterator[Sighting]:
    """Find ranks in different collectives, or in one with different sizes."""
    numbers = set.intersection(*(set(dump.entries[group]) for dump in members.values()))
    for number in sorted(numbers, reverse=True):
        shapes = {rank: _shape(dump.entries[group][number]) for rank, dump in members.items()}
        if len(set(shapes.values())) > 1:
            words = "; ".join(f"rank {rank}: {' '.join(s)}" for rank, s in list(shapes.items())[:4])
            says = f"In collective {number} of group {group} the ranks differ: {words}"
            for rank, shape in shapes.items():
                text = f"collective {number}: {' '.join(shape)}"
                yield _sighting("collective-mismatch", Certainty.CERTAIN, says, members[rank], text)
            return


def _shape(entry: tuple[str, str]) -> tuple[str, str]:
    name, sizes = entry
    return (name, "" if any(part in name for part in _OWN_SIZES) else sizes)


def _behind(group: str, members: dict[int, Dump]) -> Iterator[Sighting]:
    """Find ranks that did not reach the last collective of the others."""
    last = {rank: max(dump.entries[group]) for rank, dump in members.items()}
    farthest = max(last.values())
    behind = sorted(rank for rank, number in last.items() if number < farthest)
    if not behind or 2 * len(behind) >= len(last) + 1:
        return
    for rank in behind:
        says = f"Rank {rank} did not reach collective {farthest} of group {group}; the others wait"
        text = f"last collective {last[rank]}, the others are at {farthest}"
        yield _sighting("rank-hung", Certainty.LIKELY, says, members[rank], text)


def _sighting(cause: str, certainty: Certainty, says: str, dump: Dump, text: str) -> Sighting:
    return Sighting(cause, certainty, says, "flight-recorder", dump.name, 0, text, dump.rank)
