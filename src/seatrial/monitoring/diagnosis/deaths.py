# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Interpret exit codes and signals: which rank exited first, and why."""

import re
from collections.abc import Iterator

from seatrial.monitoring.diagnosis.evidence import EvidenceKind
from seatrial.monitoring.diagnosis.excerpt import Excerpt, KeptLine
from seatrial.monitoring.diagnosis.knowledge import Certainty
from seatrial.monitoring.diagnosis.sighting import Sighting

_SUMMARY = re.compile(r"Root Cause \(first observed failure\)")
_RANK = re.compile(r"^\W*(?:\[\w+\]:)?\s*rank\s+: (\d+)")
_CODE = re.compile(r"exitcode\s+: (-?\d+) \(pid: (\d+)\)")
_FAILED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")
_STUBBORN = re.compile(r"Unable to shutdown process (\d+) via")
_CONTAINER = re.compile(
    r"(?:exit ?[Cc]ode\"?|Exit Code|exited with code|exit status|return code)\"?"
    r"\s*[:=]?\s*(-?\d+)\b"
)
_PLAIN = re.compile(r"\s*(?P<who>.*?)[:=\s]+(?P<code>-?\d+)\s*")
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
_MEANT = {
    4: ("native-crash", Certainty.POSSIBLE),
    7: ("shared-memory-too-small", Certainty.POSSIBLE),
    9: ("rank-killed", Certainty.LIKELY),
    11: ("native-crash", Certainty.POSSIBLE),
    15: ("terminated", Certainty.POSSIBLE),
}
"""The cause that a signal suggests if there is no other evidence."""


def death_sightings(excerpt: Excerpt) -> Iterator[Sighting]:
    """Find the cause of the first process exit, and of container exits."""
    killed = {found[1] for line in excerpt.lines if (found := _STUBBORN.search(line.text))}
    rank: int | None = None
    in_summary = False
    for line in excerpt.lines:
        in_summary = in_summary or bool(_SUMMARY.search(line.text))
        named = _RANK.search(line.text)
        rank = int(named[1]) if named else rank
        code = _CODE.search(line.text) if in_summary else _FAILED.search(line.text)
        if code is not None:
            process = code[2] if in_summary else code[3]
            # A process that the launcher had to kill did not exit by itself.
            if process not in killed:
                yield from _of_signal(excerpt, line, -int(code[1]), rank if in_summary else None)
            continue
        if excerpt.kind is EvidenceKind.EXIT_CODES:
            plain = _PLAIN.fullmatch(line.text)
            yield from _of_code(excerpt, line, int(plain["code"])) if plain else ()
        elif "pid: " not in line.text and (container := _CONTAINER.search(line.text)):
            yield from _of_code(excerpt, line, int(container[1]))


def _of_code(excerpt: Excerpt, line: KeptLine, code: int) -> Iterator[Sighting]:
    """Interpret an exit code of a shell or a container."""
    signal = -code if code < 0 else code - 128
    yield from _of_signal(excerpt, line, signal, line.rank)
    if code in (126, 127):
        says = f"A command was not found or is not executable (exit code {code})"
        yield _sighting(excerpt, line, "command-missing", Certainty.LIKELY, says, None)


def _of_signal(
    excerpt: Excerpt, line: KeptLine, signal: int, rank: int | None
) -> Iterator[Sighting]:
    if signal in _MEANT:
        cause, certainty = _MEANT[signal]
        who = "A process" if rank is None else f"Rank {rank}"
        says = f"{who} was killed by {_SIGNALS[signal]}"
        yield _sighting(excerpt, line, cause, certainty, says, rank)


def _sighting(
    excerpt: Excerpt, line: KeptLine, cause: str, certainty: Certainty, says: str, rank: int | None
) -> Sighting:
    return Sighting(
        *(cause, certainty, says, "exit-codes", excerpt.name, line.number, line.text, rank),
        excerpt.step_before(line.number),
    )
