# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Names that Kubernetes accepts, and suggestions for misspelt names."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

MAX_RUN_NAME = 40
"""Maximum length of a run name: a pod name adds role, attempt and index, up to 63 characters."""

PART_SEPARATOR = "--"
"""Separates the name of a run from the name of its part. Run names must not contain the separator,
so that no run has the name of a different run's part. Services do not allow dots, and the API
server warns about dots in names of pods, jobs and deployments, which become host names."""

_DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_DNS_1123_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SEPARATORS = ("_", ".", "-")


def is_dns_label(name: str, max_length: int = 63) -> bool:
    """True if the name is valid for any of Seatrial's objects and as a label value."""
    return len(name) <= max_length and _DNS_LABEL.fullmatch(name) is not None


def is_run_name(name: str) -> bool:
    """True if the name is valid for a run."""
    return is_dns_label(name, MAX_RUN_NAME) and PART_SEPARATOR not in name


def part_name(run: str, part: str = "") -> str:
    """Return the name of a run's object. Without a part, this is the run's name."""
    return f"{run}{PART_SEPARATOR}{part}" if part else run


def older_part_name(run: str, part: str) -> str:
    """Return the name that Seatrial used before it reserved the separator."""
    return f"{run}-{part}"


def names_namespace(name: str) -> bool:
    """True if the name is valid for a namespace: a DNS-1123 label, which may start with a digit."""
    return len(name) <= 63 and _DNS_1123_LABEL.fullmatch(name) is not None


def names_object(name: str, max_length: int = 253) -> bool:
    """True if the name is valid for any object: DNS-1123 labels between dots."""
    labels = name.split(".")
    return len(name) <= max_length and all(_DNS_1123_LABEL.fullmatch(label) for label in labels)


def as_dns_label(text: str, max_length: int = MAX_RUN_NAME) -> str:
    """Convert a text to a valid name, or to `run` if it has no valid characters."""
    label = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    label = re.sub(r"^[0-9-]+", "", label)[:max_length].strip("-")
    return label or "run"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to a misspelt name, or `None` if none is close."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    matches = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    if not matches:
        # A prefix of a name is also a match: tp for tp_size, p5 for p5.48xlarge.
        beginnings = tuple(name.lower() + separator for separator in _SEPARATORS)
        matches = [word for word in by_lower if word.startswith(beginnings)]
    return by_lower[matches[0]] if len(matches) == 1 else None


_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)\s*([bm])(?![a-z0-9])")
_SIZE_UNITS = {"b": 1e9, "m": 1e6}
_NEAR_SIZE = 1.1
"""Sizes within this ratio are similar: a 7.5b model is often called 7b."""


def of_size(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names with the same size as a name, most similar first."""
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
    """Return the number of parameters in a model's name, such as 7b."""
    match = _SIZE.search(name.lower())
    number = float(match[1]) * _SIZE_UNITS[match[2]] if match else 0.0
    return number or None
