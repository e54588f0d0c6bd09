# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the explanations of codes: the reason for a rule, the consequences, and the sources."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

FILES = ("explanations.toml", "cluster_explanations.toml", "spec_explanations.toml")
"""The files with explanations: rules of the check, rules about clusters and checkpoints, and
findings of reading, planning and rendering a spec."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The background of a code."""

    why: str
    """What happens if the finding is ignored, and when."""
    do: str
    """How to fix it, if the finding itself does not state everything."""
    sources: tuple[str, ...]
    """The sources: a thread, a document, a file at a commit."""


@cache
def explanations() -> dict[str, Explanation]:
    """Return the explanations by code."""
    folder = files("seatrial.checks").joinpath("data")
    return {
        code: Explanation(facts["why"], facts.get("do", ""), tuple(facts["sources"]))
        for name in FILES
        for code, facts in tomllib.loads(folder.joinpath(name).read_text("utf-8")).items()
    }
