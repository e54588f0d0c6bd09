# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Names: what Kubernetes accepts, and which known name a misspelt one was meant to be."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

MAX_RUN_NAME = 40
"""Longest run name: a pod's name adds the role, the attempt and the index, and ends at 63."""

PART_SEPARATOR = "--"
"""Between the name of a run and of a part of it; no run name contains it, so that no run is called
as a part of another one is. A dot would do for some kinds, but not for services, and the API server
warns of it in names of pods, jobs and deployments: they become host names."""

_DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_DNS_1123_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SEPARATORS = ("_", ".", "-")


def is_dns_label(name: str, max_length: int = 63) -> bool:
    """Whether Kubernetes takes the name for any object of ours and as a label's value."""
    return len(name) <= max_length and _DNS_LABEL.fullmatch(name) is not None


def is_run_name(name: str) -> bool:
    """True if a run can have the name: a DNS label that is no part of another run."""
    return is_dns_label(name, MAX_RUN_NAME) and PART_SEPARATOR not in name


def part_name(run: str, part: str = "") -> str:
    """Name an object of a run; the object that has no part bears the name of the run."""
    return f"{run}{PART_SEPARATOR}{part}" if part else run


def older_part_name(run: str, part: str) -> str:
    """Name the object as Seatrial did before the separator was reserved."""
    return f"{run}-{part}"


def names_namespace(name: str) -> bool:
    """Whether a namespace can have the name: a DNS-1123 label, which may begin with a digit."""
    return len(name) <= 63 and _DNS_1123_LABEL.fullmatch(name) is not None


def names_object(name: str, max_length: int = 253) -> bool:
    """Whether an object of somebody else's can have the name: DNS-1123 labels between dots."""
    labels = name.split(".")
    return len(name) <= max_length and all(_DNS_1123_LABEL.fullmatch(label) for label in labels)


def as_dns_label(text: str, max_length: int = MAX_RUN_NAME) -> str:
    """The nearest name that Kubernetes accepts, or `run` when nothing of the text is left."""
    label = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    label = re.sub(r"^[0-9-]+", "", label)[:max_length].strip("-")
    return label or "run"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one most likely means, or nothing when none is close."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    matches = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    if not matches:
        # Half a name is no near miss, but a clear one: tp for tp_size, p5 for p5.48xlarge.
        beginnings = tuple(name.lower() + separator for separator in _SEPARATORS)
        matches = [word for word in by_lower if word.startswith(beginnings)]
    return by_lower[matches[0]] if len(matches) == 1 else None


_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)\s*([bm])(?![a-z0-9])")
_SIZE_UNITS = {"b": 1e9, "m": 1e6}
_NEAR_SIZE = 1.1
"""Sizes of one class: a 7.5b is what somebody may call a 7b."""


def of_size(name: str, known: Iterable[str]) -> list[str]:
    """The three known names of the size that a name gives, the most alike first."""
    wanted, plain = _size(name), name.lower().rpartition("/")[2]
    if wanted is None:
        return []
    sizes = {each: _size(each) for each in known}
    near = [
        each
        for each, size in sizes.items()
        if size is not None and max(size, wanted) / min(size, wanted) <= _NEAR_SIZE
    ]
    likeness = {each: SequenceMatcher(None, plain, each).ratio() for each in near}
    return sorted(near, key=lambda each: -likeness[each])[:3]


def _size(name: str) -> float | None:
    """The number of parameters in the name of a model, such as 7b."""
    match = _SIZE.search(name.lower())
    number = float(match[1]) * _SIZE_UNITS[match[2]] if match else 0.0
    return number or None
