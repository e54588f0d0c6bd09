# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Format values and keys in a spec for messages, with secrets redacted."""

from seatrial.secrets.assignments import is_vocabulary_value
from seatrial.secrets.names import names_secret
from seatrial.secrets.redaction import REDACTED, looks_secret

_LONGEST = 60


def gives_variable(references: object, name: str) -> bool:
    """Return True if an item in cluster.secrets sets this environment variable."""
    listed = references if isinstance(references, list) else []
    return any(isinstance(item, dict) and item.get("env") == name for item in listed)


def shown(value: object, path: tuple[str | int, ...] = ()) -> str:
    """Format a value for a message, shortened; redact it if it or its key looks like a secret."""
    name = str(path[-1]) if path else ""
    if looks_secret(value, name) or (names_secret(name) and not is_vocabulary_value(name, value)):
        return REDACTED
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _shortened(value)
    text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def shown_key(key: str) -> str:
    """Format a key for a message; quote and escape it if it is not plain printable text."""
    if looks_secret(key):
        return REDACTED
    plain = key.isprintable() and key == key.strip() and 0 < len(key) <= _LONGEST
    return key if plain else _shortened(key)


def _shortened(text: str) -> str:
    """Quote and shorten the text, with escapes for unprintable characters."""
    return repr(text) if len(text) <= _LONGEST else repr(text[: _LONGEST - 3] + "...")
