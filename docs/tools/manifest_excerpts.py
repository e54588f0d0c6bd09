# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Excerpts of rendered manifests for the pages, from the plans that the dry runs cover.

A page has a comment above a YAML block, and `make console` writes the block:

    <!-- manifest: RECIPE on PROFILE by OPERATOR: KIND: path, path -->

A path goes down by keys; an item of a list is meant by its `name`.
"""

import re
from dataclasses import dataclass
from typing import Any

from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Part, render
from seatrial.rendering.yaml_text import yaml_text
from seatrial.spec.cluster import Operator
from tests.unit.rendering.scenes import CATALOG, FIRST, retargeted

WANTED = re.compile(
    r"(?P<recipe>\S+) on (?P<profile>\S+) by (?P<operator>[\w-]+): (?P<kind>\w+): (?P<paths>.+)"
)


@dataclass(frozen=True, slots=True)
class Excerpt:
    recipe: str
    profile: str
    """The kind of cluster that it is rendered for, on its default machines and storage."""
    operator: Operator
    kind: str
    paths: tuple[str, ...]

    @property
    def text(self) -> str:
        found = next(each for each in self._manifests() if each["kind"] == self.kind)
        shown: Manifest = {
            "apiVersion": found["apiVersion"],
            "kind": self.kind,
            "metadata": {"name": found["metadata"]["name"]},
        }
        for path in self.paths:
            _take(found, shown, path.split("."), path)
        return yaml_text(shown)

    def _manifests(self) -> list[Manifest]:
        plan = retargeted(self.recipe, self.profile, self.operator)
        parts = (Part.RUN, Part.ADMIN)
        return [each for part in parts for each in render(plan, CATALOG, part, FIRST).manifests]


def excerpt(wanted: str) -> Excerpt:
    found = WANTED.fullmatch(wanted)
    if found is None:
        raise SystemExit(f"a page asks for the manifest {wanted!r}, which is not understood.")
    return Excerpt(
        found["recipe"],
        found["profile"],
        Operator(found["operator"]),
        found["kind"],
        tuple(path.strip() for path in found["paths"].split(",")),
    )


def _take(source: Any, shown: Any, words: list[str], path: str) -> None:
    """Copy what a path means from the manifest into the excerpt."""
    word, below = words[0], words[1:]
    if isinstance(source, list):
        item = next((each for each in source if each.get("name") == word), None)
        if item is None:
            raise SystemExit(f"no item of the list is called {word}: {path}")
        kept = next((each for each in shown if each["name"] == word), None)
        if kept is None:
            kept = {"name": word}
            shown.append(kept)
        if below:
            _take(item, kept, below, path)
        else:
            kept.update(item)
        return
    if word not in source:
        raise SystemExit(f"the manifest has no {word}: {path}")
    if not below:
        shown[word] = source[word]
        return
    _take(source[word], shown.setdefault(word, type(source[word])()), below, path)
