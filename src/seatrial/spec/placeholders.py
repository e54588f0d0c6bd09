# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Placeholders in a recipe that the user has not replaced yet."""

import re

from seatrial.codes.spec import SpecCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.tree import dotted

_PLACEHOLDER = re.compile(r"(?<![A-Za-z0-9_-])YOUR[-_][A-Z][A-Z0-9_-]*")
_WORDS = ("description",)
"""Free-text fields, which may contain anything."""


def has_placeholder(text: str) -> bool:
    """Return True if the text contains a placeholder such as YOUR-BUCKET."""
    return _PLACEHOLDER.search(text) is not None


def placeholders(loaded: LoadedSpec, severity: Severity = Severity.NOTE) -> tuple[Finding, ...]:
    """Return one finding for each value that contains a placeholder."""
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
                    f"{match[0]} is a placeholder, which launch rejects.",
                    value,
                    "Replace the placeholder with the name of your own resource.",
                )
            )
    return tuple(found)


def refuse_placeholders(loaded: LoadedSpec) -> None:
    """Raise if a spec that is about to be launched contains placeholders."""
    found = placeholders(loaded, Severity.ERROR)
    if found:
        raise FindingsError(found)
