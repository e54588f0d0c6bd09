# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What every catalog entry has: a title, other names, and a source for each of its facts."""

from pydantic import BaseModel, ConfigDict, Field


class Facts(BaseModel):
    """A frozen group of facts; an unknown key is an error, so that a typo cannot hide."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Entry(Facts):
    """One named thing of the catalog, such as a node type."""

    title: str
    """What it is, in words for a table."""
    source: str = Field(min_length=8)
    """Where the facts come from: an address, a paper, or `repository@commit path`."""
    sources: dict[str, str] = {}
    """Sources of single facts that come from elsewhere, by field name."""
    aliases: tuple[str, ...] = ()
    """Other names under which it is found."""
    note: str = ""
    """What a user should know before relying on it."""
