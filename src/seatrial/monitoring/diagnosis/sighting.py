# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Lines that match a signature."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from seatrial.monitoring.diagnosis.evidence import EvidenceKind
from seatrial.monitoring.diagnosis.excerpt import TROUBLE, Excerpt, KeptLine
from seatrial.monitoring.diagnosis.knowledge import Certainty, Signature

GOT_OVER = 3
"""Number of steps after a line that show that the run recovered."""
_MILD = re.compile(
    r"^\W*(?:\[[^\]]*\]\W*)?(?:WARNING|INFO|DEBUG)\b|UserWarning|FutureWarning|DeprecationWarning"
    r"|^(?:\[\w*\d+\]:)?\[?[WI](?:\d{3,4} [\d:.]+| \w+\.cpp)"
)
_ARGUMENT = re.compile(r"^\s*(?:\[\w+\]:\s*)*[a-z0-9_]+ \.{8,} ")
"""An argument and its value, as Megatron-LM prints them: `vocab_file ........ None`."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One matching line and its meaning."""

    cause: str
    """The key of the cause; empty for a symptom."""
    certainty: Certainty
    """How strongly it supports the cause."""
    says: str
    """Sentence about this line; empty if the cause's sentence suffices."""
    name: str
    """The signature or rule that matched."""
    file: str
    line: int
    text: str
    rank: int | None = None
    """The rank that the line names."""
    step: int | None = None
    """The last step before it."""
    time: float | None = None
    """The time of the line, if it has one."""
    is_over: bool = False
    """True if the run made progress after it."""


def sightings(excerpt: Excerpt, signatures: Iterable[Signature]) -> Iterator[Sighting]:
    """Yield the lines of an excerpt that match signatures, in order."""
    known = tuple(signatures)
    if excerpt.kind is EvidenceKind.ARGUMENTS:
        # Arguments contain the names of many errors, but are not errors.
        return
    for line in excerpt.lines:
        if not TROUBLE.search(line.text) or _ARGUMENT.search(line.text):
            continue
        for signature in known:
            found = signature.pattern.search(line.text)
            if found is not None and _is_meant(signature, excerpt, line):
                yield sighting(excerpt, line, signature, _words(signature, line, found))


def sighting(excerpt: Excerpt, line: KeptLine, signature: Signature, says: str) -> Sighting:
    """Create a sighting from a line."""
    certainty = signature.certainty
    if certainty is Certainty.CERTAIN and _MILD.search(line.text):
        # A warning did not stop the run.
        certainty = Certainty.LIKELY
    return Sighting(
        signature.cause,
        certainty,
        says,
        signature.name,
        excerpt.name,
        line.number,
        line.text,
        line.rank,
        excerpt.step_before(line.number),
        line.time,
        not signature.persists and excerpt.steps_after(line.number) >= GOT_OVER,
    )


def _is_meant(signature: Signature, excerpt: Excerpt, line: KeptLine) -> bool:
    """True if a matching line also meets the other conditions of the signature."""
    if signature.unless is not None and signature.unless.search(line.text):
        return False
    if signature.near is None and signature.unless_near is None:
        return True
    around = excerpt.around(line.number, signature.within)
    if signature.near is not None and not signature.near.search(around):
        return False
    return signature.unless_near is None or not signature.unless_near.search(around)


def _words(signature: Signature, line: KeptLine, found: re.Match[str]) -> str:
    """Format the signature's sentence; empty if a group is missing."""
    if not signature.says:
        return ""
    parts = found.groupdict()
    for detail in signature.details:
        more = detail.search(line.text)
        parts |= more.groupdict() if more else {}
    parts["rank"] = "a rank" if line.rank is None else f"rank {line.rank}"
    try:
        return signature.says.format_map({k: v for k, v in parts.items() if v is not None})
    except KeyError:
        return ""
