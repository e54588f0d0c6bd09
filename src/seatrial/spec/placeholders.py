# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Values that a recipe leaves to its user, and that nobody has put in yet."""

import re

from seatrial.codes.spec import SpecCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.tree import dotted

_PLACEHOLDER = re.compile(r"(?<![A-Za-z0-9_-])YOUR[-_][A-Z][A-Z0-9_-]*")
_WORDS = ("description",)
"""Fields in which anything may be said."""


def has_placeholder(text: str) -> bool:
    """True if a text still has a name in it that only its owner can know, such as YOUR-BUCKET."""
    return _PLACEHOLDER.search(text) is not None


def placeholders(loaded: LoadedSpec, severity: Severity = Severity.NOTE) -> tuple[Finding, ...]:
    """One finding for each value with a placeholder in it."""
    found = []
    for path, value in loaded.root.walk():
        match = _PLACEHOLDER.search(value) if isinstance(value, str) else None
        if match and path[0] not in _WORDS:
            field = dotted(path)
            found.append(
                Finding(
                    SpecCode.PLACEHOLDER,
                    severity,
                    loaded.where(field),
                    f"{match[0]} stands for a name of yours, and launch refuses it.",
                    value,
                    "Put the name in its place.",
                )
            )
    return tuple(found)


def refuse_placeholders(loaded: LoadedSpec) -> None:
    """Refuse a spec that is to be launched and has placeholders in it."""
    found = placeholders(loaded, Severity.ERROR)
    if found:
        raise FindingsError(found)
