# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where manifests hold something that looks like a secret: every word of them is looked at."""

from collections.abc import Iterable, Iterator
from typing import Any

from seatrial.rendering.manifest import Manifest
from seatrial.spec.secrets import looks_secret, shown_key


def secrets_in(manifests: Iterable[Manifest]) -> list[str]:
    """The places, such as `PyTorchJob/slim-7b spec.template`; what stands there is not shown."""
    return [
        f"{made['kind']}/{made['metadata']['name']} {path}"
        for made in manifests
        for path, text, name in _texts(made, "")
        if looks_secret(text, name)
    ]


def _texts(value: Any, path: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Every text in a manifest, with its path and what it is called there."""
    if isinstance(value, dict):
        # The value of a variable is called by the variable's name.
        called = str(value.get("name", ""))
        for key, below in value.items():
            inner = called if key == "value" else str(key)
            place = f"{path}.{shown_key(str(key))}".lstrip(".")
            yield place, str(key), inner
            yield from _texts(below, place, inner)
    elif isinstance(value, list | tuple):
        for number, below in enumerate(value):
            yield from _texts(below, f"{path}[{number}]", name)
    elif isinstance(value, str):
        yield path, value, name
