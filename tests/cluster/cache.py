# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A place outside the checkout for what is costly to make, so that checkouts share it."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path


def cache_directory() -> Path:
    """Where it is; the same as for environments (scripts/environment.sh)."""
    if given := os.environ.get("SEATRIAL_CACHE"):
        return Path(given)
    above = os.environ.get("XDG_CACHE_HOME")
    return (Path(above) if above else Path.home() / ".cache") / "seatrial"


def key_of(parts: Iterable[str | bytes]) -> str:
    """A short name for inputs: other inputs, another name."""
    digest = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode()
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()[:16]


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The directory of that name, made by whoever comes first; others wait for it.

    It appears whole or not at all: what is under way has another name.
    """
    place = cache_directory() / name
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            partial = place.with_name(f"{place.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            make(partial)
            partial.rename(place)
    return place
