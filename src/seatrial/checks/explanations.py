# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The explanation of codes: why a rule is there, what happens without it, and who says so."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

FILES = ("explanations.toml", "cluster_explanations.toml", "spec_explanations.toml")
"""Where they are written: of the check's own rules, about clusters and checkpoints, and of what is
said while the spec is read, planned and rendered."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is behind a code."""

    why: str
    """What happens where nobody checks, and when."""
    do: str
    """What to do about it, where the finding itself cannot say it all."""
    sources: tuple[str, ...]
    """Where this is stated: a thread, a document, a file at a commit."""


@cache
def explanations() -> dict[str, Explanation]:
    """The explanations that are written, by code."""
    folder = files("seatrial.checks").joinpath("data")
    return {
        code: Explanation(facts["why"], facts.get("do", ""), tuple(facts["sources"]))
        for name in FILES
        for code, facts in tomllib.loads(folder.joinpath(name).read_text("utf-8")).items()
    }
