# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Secrets: how one is recognised in a text, so that it is refused and never printed."""

import re

_SECRETS = re.compile(
    r"""
      hf_[A-Za-z0-9]{20,}                 # Hugging Face
    | (AKIA|ASIA)[0-9A-Z]{16}             # AWS access key
    | gh[pousr]_[A-Za-z0-9]{30,}          # GitHub
    | sk-[A-Za-z0-9_-]{20,}               # several API providers
    # JSON web token; the lookbehind keeps the search linear in a long text without one
    | (?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.
    | [?&](sig|X-Amz-Signature)=[^&\s]+    # signed addresses
    | ://[^/\s:@]+:[^/\s@]+@               # user:password@ in an address
    | AccountKey=[A-Za-z0-9+/=]{20,}       # Azure storage
    | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----
    """,
    re.VERBOSE,
)
_SECRET_NAME = re.compile(
    r"(^|[_-])(TOKEN|PASSWORD|PASSWD|CREDENTIALS?|API[_-]?KEY|ACCESS[_-]KEY([_-]ID)?"
    r"|PRIVATE[_-]KEY)$|[_-]SECRET$",
    re.IGNORECASE,
)

REDACTED = "(not shown)"
"""What stands in a message instead of a value that may be a secret."""

_LONGEST = 60


def looks_secret(text: object) -> bool:
    """Whether a value has the form of a known kind of secret."""
    return isinstance(text, str) and _SECRETS.search(text) is not None


def names_secret(name: str) -> bool:
    """Whether a variable or key of this name holds a secret, such as `HF_TOKEN`."""
    return _SECRET_NAME.search(name) is not None


def shown(value: object, path: tuple[str | int, ...] = ()) -> str:
    """The value for a message, shortened; not shown when it, or its place, smells of a secret."""
    if looks_secret(value) or (path and names_secret(str(path[-1]))):
        return REDACTED
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _shortened(value)
    text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def shown_key(key: str) -> str:
    """The key for a message: in quotes, with escapes, when it could not be read otherwise."""
    if looks_secret(key):
        return REDACTED
    plain = key.isprintable() and key == key.strip() and 0 < len(key) <= _LONGEST
    return key if plain else _shortened(key)


def _shortened(text: str) -> str:
    """The text in quotes, with escapes for what cannot be printed."""
    return repr(text) if len(text) <= _LONGEST else repr(text[: _LONGEST - 3] + "...")
