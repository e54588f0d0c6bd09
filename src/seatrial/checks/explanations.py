# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the explanation of each code: the reason for the rule, the consequences, the sources."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

FILES = ("explanations.toml", "cluster_explanations.toml", "spec_explanations.toml")
"""The files with explanations: rules of the check, rules about clusters and checkpoints, and
findings from reading, planning and rendering a spec."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a code."""

    why: str
    """What happens if the finding is ignored, and when."""
    do: str
    """How to fix the problem, if the finding itself does not state everything."""
    sources: tuple[str, ...]
    """Each source is a thread, a document or a file at a commit."""


@cache
def explanations() -> dict[str, Explanation]:
    """Return the explanations by code."""
    folder = files("seatrial.checks").joinpath("data")
    return {
        code: Explanation(facts["why"], facts.get("do", ""), tuple(facts["sources"]))
        for name in FILES
        for code, facts in tomllib.loads(folder.joinpath(name).read_text("utf-8")).items()
    }
