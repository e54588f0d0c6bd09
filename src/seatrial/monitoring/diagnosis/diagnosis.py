# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Find ranked causes in the evidence, with the lines that prove them and their consequences."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from seatrial.monitoring.anomalies.detector import FABRIC_TRANSPORTS, NetworkTransport
from seatrial.monitoring.diagnosis.collectives import collective_sightings
from seatrial.monitoring.diagnosis.deaths import death_sightings
from seatrial.monitoring.diagnosis.evidence import Evidence, EvidenceKind, PlannedValues
from seatrial.monitoring.diagnosis.excerpt import Excerpt, KeptLine, read_excerpt
from seatrial.monitoring.diagnosis.flight_recorder import dump_sightings, read_dump
from seatrial.monitoring.diagnosis.knowledge import UNKNOWN, Cause, Certainty, knowledge
from seatrial.monitoring.diagnosis.sighting import Sighting, sightings

_SOCKET = re.compile(r"NCCL INFO (?:Using network|Initialized NET plugin) Socket")
_ALLOCATED = re.compile(r"([\d.]+) ([KMGT]iB) (?:is allocated by PyTorch|already allocated)")
_RESERVED = re.compile(
    r"([\d.]+) ([KMGT]iB) (?:is reserved by PyTorch but unallocated|reserved in total by PyTorch)"
)
_UNITS = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_FRAGMENTED = 0.1
"""Report fragmentation if reserved but unused memory exceeds this share of allocated memory."""


def fabric_sightings(
    excerpts: Sequence[Excerpt], planned: PlannedValues | None
) -> Iterator[Sighting]:
    """Find NCCL over TCP sockets where the plan has a fabric."""
    fast = FABRIC_TRANSPORTS.get(planned.fabric) if planned is not None else None
    if planned is None or fast in (None, NetworkTransport.SOCKET):
        return
    says = f"NCCL uses TCP, but the plan has {planned.fabric}"
    for excerpt in excerpts:
        for line in excerpt.lines:
            if _SOCKET.search(line.text):
                yield Sighting(
                    *("fabric-fallback-to-tcp", Certainty.CERTAIN, says, "planned-fabric"),
                    *(excerpt.name, line.number, line.text, line.rank),
                )


def memory_words(text: str, planned: PlannedValues | None) -> str:
    """Compare the planned memory with the numbers in an out-of-memory error."""
    parts = []
    if planned is not None and planned.memory_bytes > 0:
        error = planned.memory_error * planned.memory_bytes
        parts.append(f"The plan estimated {_gib(planned.memory_bytes)} GiB ± {_gib(error)}")
    allocated, reserved = _bytes(_ALLOCATED, text), _bytes(_RESERVED, text)
    if allocated:
        words = f"{_gib(allocated)} GiB was allocated"
        if reserved and "in total" in text:
            reserved = max(reserved - allocated, 0.0)
        if reserved > _FRAGMENTED * allocated:
            words += f" and {_gib(reserved)} GiB reserved but unused: fragmentation"
        parts.append(words)
    return "; ".join(parts) + "." if parts else ""


def _bytes(pattern: re.Pattern[str], text: str) -> float:
    found = pattern.search(text)
    return float(found[1]) * _UNITS[found[2]] if found else 0.0


def _gib(number: float) -> str:
    return f"{number / 2**30:.1f}"


_PACKAGE = re.compile(r"^(?P<package>nvidia-nccl-cu\d+)==(?P<version>[\w.]+)")
_LOADED = re.compile(r"(?:^|\s)NCCL version (?P<version>\d+\.\d+\.\d+)\+cuda")


def version_sightings(excerpts: Sequence[Excerpt]) -> Iterator[Sighting]:
    """Find NCCL versions that differ between nodes."""
    installed: dict[str, dict[str, tuple[Excerpt, KeptLine]]] = {}
    loaded: dict[str, tuple[Excerpt, KeptLine]] = {}
    for excerpt in excerpts:
        for line in excerpt.lines:
            if excerpt.kind is EvidenceKind.PACKAGES and (found := _PACKAGE.match(line.text)):
                versions = installed.setdefault(found["package"], {})
                versions.setdefault(found["version"], (excerpt, line))
            elif found := _LOADED.search(line.text):
                loaded.setdefault(found["version"], (excerpt, line))
    yield from _differing(loaded, "loaded")
    for package, versions in installed.items():
        yield from _differing(versions, f"{package} installed")


def _differing(versions: dict[str, tuple[Excerpt, KeptLine]], how: str) -> Iterator[Sighting]:
    if len(versions) < 2:
        return
    says = f"Nodes have different NCCL versions {how}: {', '.join(sorted(versions))}"
    for excerpt, line in versions.values():
        yield Sighting(
            *("nccl-version-mismatch", Certainty.CERTAIN, says, "versions-side-by-side"),
            *(excerpt.name, line.number, line.text),
        )


MOST_PROOFS = 3
"""Maximum number of lines shown per cause."""
_LAST_WORDS = re.compile(
    r"^\W*(?:\[?\w*\d+\]?:\s*)*(?:[\w.]+\.)?\w*(?:Error|Exception|Exit|Interrupt)\b(?::|$)"
    r"|^exit at step \d+, exit code: "
)
_OUTSIDE = (
    EvidenceKind.KERNEL_LOG,
    EvidenceKind.POD_EVENTS,
    EvidenceKind.POD_STATUS,
    EvidenceKind.ADMISSION,
)
"""Evidence from outside the processes; it comes first if there are no times to compare."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A line that proves something."""

    file: str
    line: int
    """Line number, from 1; 0 if the whole file is the proof."""
    text: str


@dataclass(frozen=True, slots=True)
class FoundCause:
    """A cause that the evidence supports."""

    key: str
    certainty: Certainty
    says: str
    """What happened, as a sentence."""
    proofs: tuple[Proof, ...]
    """The lines that prove it, the first of each signature."""
    lines: int
    ranks: tuple[int, ...]
    """The ranks that the lines name, in order of appearance."""
    step: int | None
    """The last step before it."""
    planned: str
    """The plan's value, if it helps; empty otherwise."""
    do: str
    """The fix."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """A consequence of a cause."""

    says: str
    lines: int
    """Number of lines that report it."""
    ranks: tuple[int, ...]
    first: Proof


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of a diagnosis."""

    causes: tuple[FoundCause, ...]
    """Root causes, the most probable first; empty if none is known."""
    consequences: tuple[Consequence, ...]
    """Consequences of the causes."""
    got_over: tuple[Consequence, ...]
    """Earlier problems after which the run made progress."""
    last_words: tuple[Proof, ...]
    """The final error lines, if no cause is known."""

    @property
    def first(self) -> str:
        """The key of the first cause; `unknown` if there is none."""
        return self.causes[0].key if self.causes else UNKNOWN


def diagnose(evidence: Evidence) -> Diagnosis:
    """Find the causes that the evidence supports."""
    excerpts = [read_excerpt(file) for file in evidence.files]
    known = knowledge()
    seen = [one for excerpt in excerpts for one in sightings(excerpt, known.signatures)]
    seen += collective_sightings(excerpts)
    seen += [one for excerpt in excerpts for one in death_sightings(excerpt)]
    seen += version_sightings(excerpts)
    seen += fabric_sightings(excerpts, evidence.planned)
    dumps = [read_dump(name, content) for name, content in evidence.dumps]
    seen += dump_sightings([dump for dump in dumps if dump is not None])
    symptoms = [one for excerpt in excerpts for one in sightings(excerpt, known.symptoms)]

    order = _Order(excerpts)
    over = [one for one in seen if one.is_over]
    groups = _grouped(one for one in seen if not one.is_over)
    roots, explained = _separated(groups, known.causes)
    roots.sort(key=lambda key: _rank(known.causes[key], groups[key], order))
    roots = order.by_time(roots, known.causes, groups)
    causes = tuple(_found(known.causes[key], groups[key], order, evidence.planned) for key in roots)
    followed = [_consequence(known.causes[key].says, groups[key]) for key in explained]
    followed += [_consequence(group[0].says, group) for group in _by_name(symptoms)]
    return Diagnosis(
        causes,
        tuple(followed),
        tuple(_consequence(known.causes[k].says, group) for k, group in _grouped(over).items()),
        () if causes else _last_words(excerpts, symptoms),
    )


class _Order:
    """Orders lines by file and line; evidence from outside the processes comes first."""

    def __init__(self, excerpts: Sequence[Excerpt]) -> None:
        outside = [excerpt.name for excerpt in excerpts if excerpt.kind in _OUTSIDE]
        inside = [excerpt.name for excerpt in excerpts if excerpt.kind not in _OUTSIDE]
        self._places = {name: place for place, name in enumerate(outside + inside)}
        # The kernel log uses the node's time zone, which it does not state.
        self._untimed = {e.name for e in excerpts if e.kind is EvidenceKind.KERNEL_LOG}

    def __call__(self, one: Sighting) -> tuple[int, int]:
        return self._places.get(one.file, -1), one.line

    def by_time(
        self,
        roots: Sequence[str],
        causes: dict[str, Cause],
        groups: dict[str, list[Sighting]],
    ) -> list[str]:
        """Order equally certain causes by time, if all of them have one."""
        ordered: list[str] = []
        for _, same in groupby(roots, lambda key: _weight(causes[key], groups[key])):
            keys = list(same)
            times = {key: self._time(groups[key]) for key in keys}
            known = {key: time for key, time in times.items() if time is not None}
            ordered += sorted(keys, key=known.__getitem__) if len(known) == len(keys) else keys
        return ordered

    def _time(self, group: Sequence[Sighting]) -> float | None:
        """Return when a cause first appeared; None without a comparable time."""
        times = [one.time for one in group if one.time is not None]
        if not times or any(one.file in self._untimed for one in group):
            return None
        return min(times)


def _grouped(seen: Iterable[Sighting]) -> dict[str, list[Sighting]]:
    groups: dict[str, list[Sighting]] = {}
    for one in seen:
        groups.setdefault(one.cause, []).append(one)
    return groups


def _by_name(seen: Iterable[Sighting]) -> list[list[Sighting]]:
    groups: dict[str, list[Sighting]] = {}
    for one in seen:
        groups.setdefault(one.name, []).append(one)
    return list(groups.values())


def _certainty(group: Sequence[Sighting]) -> Certainty:
    return min((one.certainty for one in group), key=lambda certainty: certainty.order)


def _separated(
    groups: dict[str, list[Sighting]], causes: dict[str, Cause]
) -> tuple[list[str], list[str]]:
    """Separate root causes from those that other causes explain."""
    firm = {key for key, group in groups.items() if _certainty(group) is not Certainty.POSSIBLE}
    strong = {key for key in firm if not causes[key].yields and not causes[key].slows}
    roots: list[str] = []
    explained: list[str] = []
    for key, group in groups.items():
        cause = causes[key]
        weak = _certainty(group) is Certainty.POSSIBLE
        later = {
            other
            for other in strong
            if not causes[other].before_start and key not in causes[other].explained_by
        }
        is_explained = (
            bool(firm & set(cause.explained_by) - {key})
            or (cause.before_start and bool(later))
            or (cause.yields and bool(strong - {key}))
            # A cause that is only possible does not compete with a known one.
            or (weak and bool(strong - {key}))
        )
        (explained if is_explained else roots).append(key)
    return roots, explained


def _rank(cause: Cause, group: Sequence[Sighting], order: _Order) -> tuple[object, ...]:
    """Sort key of a root cause: it stops the run, is certain, and appeared first."""
    return *_weight(cause, group), min(order(one) for one in group)


def _weight(cause: Cause, group: Sequence[Sighting]) -> tuple[bool, int]:
    """Sort key before time: the cause stops the run, and is certain."""
    return cause.slows, _certainty(group).order


def _found(
    cause: Cause, group: Sequence[Sighting], order: _Order, planned: PlannedValues | None
) -> FoundCause:
    best = _certainty(group)
    ordered = sorted(group, key=lambda one: (one.certainty.order, order(one)))
    proofs: dict[tuple[str, int], Proof] = {}
    for one in _one_of_each(ordered):
        proofs.setdefault((one.file, one.line), Proof(one.file, one.line, one.text.strip()))
    first = ordered[0]
    sentence = next((one.says for one in ordered if one.says and one.certainty is best), "")
    sentence = sentence[:1].upper() + sentence[1:] or cause.says.rstrip(".")
    ranks = dict.fromkeys(one.rank for one in ordered if one.rank is not None)
    words = memory_words(first.text, planned) if cause.key == "gpu-out-of-memory" else ""
    return FoundCause(
        cause.key,
        best,
        sentence,
        tuple(proofs.values())[:MOST_PROOFS],
        len({(one.file, one.line) for one in group}),
        tuple(ranks),
        first.step,
        words,
        cause.do,
    )


def _one_of_each(ordered: Sequence[Sighting]) -> list[Sighting]:
    """Return the first line of each signature, then the others."""
    first: dict[str, Sighting] = {}
    for one in ordered:
        first.setdefault(one.name, one)
    return [*first.values(), *ordered]


def _consequence(says: str, group: Sequence[Sighting]) -> Consequence:
    first = group[0]
    return Consequence(
        says.rstrip("."),
        len({(one.file, one.line) for one in group}),
        tuple(dict.fromkeys(one.rank for one in group if one.rank is not None)),
        Proof(first.file, first.line, first.text.strip()),
    )


def _last_words(excerpts: Sequence[Excerpt], symptoms: Sequence[Sighting]) -> tuple[Proof, ...]:
    """Return the last line of each traceback, or else the first symptoms."""
    at = {(one.file, one.line) for one in symptoms}
    words = [
        Proof(excerpt.name, line.number, line.text.strip())
        for excerpt in excerpts
        for line in excerpt.lines
        if _LAST_WORDS.search(line.text) and (excerpt.name, line.number) not in at
    ]
    first = [Proof(one.file, one.line, one.text.strip()) for one in symptoms]
    return tuple((words or first)[:MOST_PROOFS])
