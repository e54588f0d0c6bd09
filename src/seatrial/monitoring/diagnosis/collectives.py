# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compare the collective timeouts of several ranks.

The rank that reports a timeout is not the one that hangs, so one timeout alone names no cause.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seatrial.monitoring.diagnosis.excerpt import SAVES, Excerpt, KeptLine
from seatrial.monitoring.diagnosis.knowledge import Certainty
from seatrial.monitoring.diagnosis.sighting import Sighting

_TIMEOUT = re.compile(
    r"Rank (?P<rank>\d+)\]\s+Watchdog caught collective operation timeout: WorkNCCL\("
    r"SeqNum=(?P<number>\d+), OpType=(?P<kind>\w+),"
    r"(?: NumelIn=(?P<elements>\d+), NumelOut=(?P<out>\d+),)?"
)
_GROUP = re.compile(r"PG (?:ID )?(?P<id>\d+)(?: PG GUID (?P<guid>[\w().:-]+))?")
_WAITED = re.compile(
    r"Timed out waiting \d+ms for (?:recv|send) operation|collective operation timeout"
)
_STUBBORN = re.compile(r"Unable to shutdown process (?P<process>\d+) via")
_ENDED = re.compile(r"failed \(exitcode: -?\d+\) local_rank: \d+ \(pid: (?P<process>\d+)\)")
_PREPARING = re.compile(
    r"(?P<percent>\d{1,3})%\|.{0,40}\| *\d+\S*/\d+|> building|[Bb]uilding .*(?:index|dataset)"
    r"|Grouping texts|Running tokenizer|Generating \w+ split|Downloading (?:shards|data)"
    r"|> (?:compiling|loading) |Build and save the \w+ \w+ indices|[Tt]okeniz(?:ing|er on)"
)
_PREPARED = re.compile(
    r"after dataloaders are built|done with setup|before the start of training|^training \.\.\."
)
_STORE_WAITED = re.compile(
    r"Timed out waiting \d+ms for (?:recv|send) operation|wait timeout after \d+ms|Socket Timeout"
)
_ALL_WAIT = ("ALLREDUCE", "_REDUCE_SCATTER_BASE", "_ALLGATHER_BASE", "ALLGATHER", "REDUCE_SCATTER")
"""Collectives that no rank leaves before all have joined, with equal sizes on all ranks."""
_SAME_SIZE = (*_ALL_WAIT, "BROADCAST")
EARLY = 50
"""Maximum number of collectives of a group before training: barriers, small exchanges."""
SMALL = 16
"""Maximum number of elements in a collective that only synchronises."""


@dataclass(frozen=True, slots=True)
class Waited:
    """A rank that timed out in a collective."""

    rank: int
    """The rank within its group."""
    number: int
    """The collective's sequence number in the group."""
    kind: str
    """ALLREDUCE, BROADCAST and so on."""
    elements: int | None
    """Number of elements that the rank contributed."""
    group: str
    """The process group; empty if unknown."""
    excerpt: Excerpt
    """The file that contains the line."""
    line: KeptLine


def collective_sightings(excerpts: Sequence[Excerpt]) -> Iterator[Sighting]:
    """Compare the timeouts of all ranks."""
    waited = [found for excerpt in excerpts for found in _waited(excerpt)]
    yield from _mismatches(waited)
    yield from _left_behind(waited)
    yield from _starts(excerpts, waited)
    yield from _saves(excerpts)
    for excerpt in excerpts:
        yield from _stubborn(excerpt)


def _waited(excerpt: Excerpt) -> Iterator[Waited]:
    for place, line in enumerate(excerpt.lines):
        found = _TIMEOUT.search(line.text)
        if found is None:
            continue
        # The group is in this line, or in the next line of the same rank.
        group = _GROUP.search(line.text[: found.end()])
        for follower in excerpt.lines[place + 1 : place + 4]:
            if group is None and f"Rank {found['rank']}]" in follower.text:
                group = _GROUP.search(follower.text)
        name = (group["guid"] or group["id"]) if group else ""
        elements = int(found["elements"]) if found["elements"] else None
        yield Waited(
            int(found["rank"]), int(found["number"]), found["kind"], elements, name, excerpt, line
        )


def _mismatches(waited: Sequence[Waited]) -> Iterator[Sighting]:
    """Find ranks of a group that call different collectives under one sequence number."""
    groups: dict[tuple[str, int], list[Waited]] = defaultdict(list)
    for one in waited:
        if one.group:
            groups[one.group, one.number].append(one)
    for (group, number), ranks in groups.items():
        shapes = {(one.kind, one.elements if one.kind in _SAME_SIZE else None) for one in ranks}
        if len({one.rank for one in ranks}) > 1 and len(shapes) > 1:
            words = "; ".join(f"rank {one.rank}: {_shape(one)}" for one in ranks[:4])
            says = f"In collective {number} of group {group} the ranks differ: {words}"
            for one in ranks[:4]:
                yield _sighting("collective-mismatch", Certainty.CERTAIN, says, one)


def _left_behind(waited: Sequence[Waited]) -> Iterator[Sighting]:
    """Find a rank that is past a collective in which another rank of its group still waits."""
    groups: dict[str, list[Waited]] = defaultdict(list)
    for one in waited:
        if one.group:
            groups[one.group].append(one)
    for group, ranks in groups.items():
        first, last = min(ranks, key=_number), max(ranks, key=_number)
        if first.number < last.number and first.kind in _ALL_WAIT and first.rank != last.rank:
            says = (
                f"In group {group} rank {last.rank} is at collective {last.number} "
                f"({_shape(last)}) while rank {first.rank} waits in {first.number} "
                f"({_shape(first)}), which needs all ranks"
            )
            for one in (first, last):
                yield _sighting("collective-mismatch", Certainty.LIKELY, says, one)


def _number(one: Waited) -> int:
    return one.number


def _shape(one: Waited) -> str:
    return one.kind.lower() + (f" of {one.elements:,}" if one.elements is not None else "")


def _starts(excerpts: Sequence[Excerpt], waited: Sequence[Waited]) -> Iterator[Sighting]:
    """Find ranks that timed out before the first step, while another rank was still preparing."""
    early = [
        (one.excerpt, one.line)
        for one in waited
        if one.number <= EARLY and (one.elements is None or one.elements <= SMALL)
    ]
    early += [(e, line) for e in excerpts for line in e.lines if _STORE_WAITED.search(line.text)]
    says = "Ranks waited at a barrier before the first step while another rank was still preparing"
    for excerpt, line in early:
        busy = _last_preparation(excerpt)
        if busy is not None and not excerpt.steps:
            for proof in (line, busy):
                yield Sighting(
                    *("startup-outlasts-timeout", Certainty.LIKELY, says, "still-preparing"),
                    *(excerpt.name, proof.number, proof.text, proof.rank),
                )
            return


def _last_preparation(excerpt: Excerpt) -> KeptLine | None:
    """Return the last line about preparation; None if preparation had finished."""
    for line in reversed(excerpt.lines):
        if _PREPARED.search(line.text):
            return None
        percents = [found["percent"] for found in _PREPARING.finditer(line.text)]
        if percents:
            return None if percents[-1] == "100" else line
    return None


def _saves(excerpts: Sequence[Excerpt]) -> Iterator[Sighting]:
    """Find ranks that timed out while a checkpoint was being saved."""
    saving = next(((e, line) for e in excerpts if (line := _unfinished_save(e))), None)
    gave_up = [(e, line) for e in excerpts for line in e.lines if _WAITED.search(line.text)]
    if saving is None:
        return
    after = [
        (e, line) for e, line in gave_up if e is not saving[0] or line.number > saving[1].number
    ]
    says = "Ranks waited for a save longer than a collective may take"
    for excerpt, proof in (saving, *after[:1]) if after else ():
        yield Sighting(
            *("save-outlasts-timeout", Certainty.LIKELY, says, "timed-out-in-a-save"),
            *(excerpt.name, proof.number, proof.text, proof.rank),
            step=excerpt.step_before(proof.number),
        )


def _unfinished_save(excerpt: Excerpt) -> KeptLine | None:
    """Return the line that announces the last save; None if the save ended or a step followed."""
    last = next((line for line in reversed(excerpt.lines) if SAVES.search(line.text)), None)
    if last is None or "saving" not in last.text.lower() or excerpt.steps_after(last.number):
        return None
    return last


def _stubborn(excerpt: Excerpt) -> Iterator[Sighting]:
    """Find a rank that ignored SIGTERM after others had timed out."""
    gave_up = next((line for line in excerpt.lines if _WAITED.search(line.text)), None)
    if gave_up is None:
        return
    ended = {found["process"] for line in excerpt.lines if (found := _ENDED.search(line.text))}
    stubborn = [
        (line, found["process"])
        for line in excerpt.lines
        if (found := _STUBBORN.search(line.text)) and found["process"] not in ended
    ]
    if not ended:
        return
    for line, process in stubborn:
        says = (
            f"Process {process} made no progress and did not exit when signalled; its peers waited"
        )
        for proof in (line, gave_up):
            yield Sighting(
                *("rank-hung", Certainty.LIKELY, says, "did-not-end"),
                *(excerpt.name, proof.number, proof.text, None),
                step=excerpt.step_before(gave_up.number),
            )


def _sighting(cause: str, certainty: Certainty, says: str, one: Waited) -> Sighting:
    return Sighting(
        cause,
        certainty,
        says,
        "collectives-side-by-side",
        one.excerpt.name,
        one.line.number,
        one.line.text,
        one.rank,
        one.excerpt.step_before(one.line.number),
        one.line.time,
    )
