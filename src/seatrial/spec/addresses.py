# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Addresses of files: a path, or a URL in a supported object store."""

import re
from typing import Annotated

from pydantic import AfterValidator

from seatrial.naming import nearest
from seatrial.spec.base import broken
from seatrial.spec.secrets import shown

SCHEMES = ("hf", "s3", "abfs", "abfss", "az", "gs")
"""URL schemes of the stores that Seatrial can read."""

_OTHER_NAMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az", "wasb": "abfs"}
_OTHER_NAMES |= {"wasbs": "abfss", "huggingface": "hf"}
_KNOWN = ", ".join(f"{scheme}://" for scheme in SCHEMES)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/*)(.*)", re.DOTALL)
_NO_COLON = re.compile(rf"({'|'.join(SCHEMES)})//+(.*)", re.DOTALL)


def _address(text: str) -> str:
    """Check that the text is a path without `~`, or a URL in a supported object store."""
    if text.startswith("~"):
        raise broken(
            f"{shown(text)} starts with a home directory, which is different in a pod.",
            "Use an absolute path, such as /home/me/corpus.",
        )
    if parts := _NO_COLON.fullmatch(text):
        raise broken(f"{shown(text)} has no colon after the scheme.", _fix(parts[1], parts[2]))
    parts = _SCHEME.fullmatch(text)
    if parts is None:
        return text
    scheme, slashes, rest = parts.groups()
    if scheme in SCHEMES and slashes == "//" and rest:
        return text
    if not slashes and scheme.lower() not in SCHEMES:
        # A relative path that contains a colon.
        return text
    raise broken(f"{shown(text)} is not a supported address.", _fix(scheme.lower(), rest))


def _fix(scheme: str, rest: str) -> str:
    """Return the fix: the address to write instead."""
    if scheme in ("http", "https", "ftp"):
        return f"{scheme}:// is not supported: copy the files to a path or to one of {_KNOWN}."
    if scheme == "file":
        return "Write only the path, without file://."
    known = scheme if scheme in SCHEMES else _OTHER_NAMES.get(scheme) or nearest(scheme, SCHEMES)
    if known is None:
        return f"Use a path, or one of {_KNOWN}."
    whole = f"{known}://{rest or 'BUCKET/PATH'}"
    return f"Write {shown(whole)}."


Address = Annotated[str, AfterValidator(_address)]
"""A path, or a URL in a supported object store."""


def check_address(value: object) -> object:
    """Check an address before a pattern, whose message would not say what to write instead."""
    return _address(value) if isinstance(value, str) else value


STORED = r"(s3|gs|az|abfss?)://\S+"
"""A regular expression for addresses in object stores, for fields that also take a Hub name."""


def is_stored(address: str) -> bool:
    """True if the address is in an object store, not on the Hub or a path."""
    return "://" in address and not address.startswith("hf://")


def tokenizer_name(address: str) -> tuple[str, str]:
    """Split an address into the tokenizer's name or path, and its Hub revision (empty if none)."""
    if not address.startswith("hf://"):
        return address, ""
    name, _, revision = address.removeprefix("hf://").partition("@")
    return name, revision
