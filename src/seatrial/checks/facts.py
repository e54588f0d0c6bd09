# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Facts for the check, from the files in `checks/data`, which state their sources."""

import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

from seatrial.catalog.components import Version
from seatrial.catalog.components import version as version

_DIGITS_OF_CUDA = 2
"""In a tag such as cu128, the first two digits are the major version."""
_PARTS_OF_RELEASE = 2
"""A tag such as 25.11.01 is a patch of 25.11."""
_SOFTWARE = ("engine", "torch", "cuda", "nccl")
"""Software whose version may be listed for a release."""


class Harm(StrEnum):
    """Why a variable should not be set."""

    DEBUGGING = "debugging"
    """The variable is meant for debugging."""
    SLOWING = "slowing"
    """The variable disables a fast path."""
    DEVICES = "devices"
    """The variable hides GPUs."""


@dataclass(frozen=True, slots=True)
class HarmfulVariable:
    """A variable that causes problems, on any fabric unless `fabrics` lists some."""

    name: str
    kind: Harm
    values: tuple[str, ...]
    """The harmful values, in lower case; empty for any value."""
    why: str
    """The effect of the variable, as the end of a sentence."""
    source: str
    """The source of this fact."""
    needs_rdma: bool = False
    """True if it is harmful only on fabrics with RDMA."""
    fabrics: tuple[str, ...] = ()
    """The fabrics on which it is harmful; empty for any fabric."""

    def concerns(self, fabric: str, *, rdma: bool) -> bool:
        """True if the variable is harmful on a fabric."""
        return (rdma or not self.needs_rdma) and (not self.fabrics or fabric in self.fabrics)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Variables that have no effect on some fabrics."""

    prefix: str
    fabrics: tuple[str, ...]
    """The fabrics on which they have no effect."""
    why: str
    """Why they have no effect there, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Inside:
    """The software versions in an image; empty if unknown."""

    engine: Version = ()
    """Version of Megatron."""
    torch: Version = ()
    """Version of PyTorch."""
    cuda: Version = ()
    """Version of CUDA."""
    nccl: Version = ()
    """Version of NCCL."""
    at_most: bool = False
    """True if these are the versions of the next known release, and thus upper bounds."""

    def shown(self, number: Version) -> str:
        """Format one of these versions."""
        return f"{shown(number)} or older" if self.at_most else shown(number)


@dataclass(frozen=True, slots=True)
class Hole:
    """Vulnerabilities in a range of software versions."""

    software: str
    """`engine` or `torch`."""
    engine: str
    """The engine; empty for all engines."""
    below: Version
    """The first version without these vulnerabilities."""
    names: tuple[str, ...]
    what: str
    """What an attacker can do, as the start of a sentence."""


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files("seatrial.checks").joinpath("data", name).read_text("utf-8"))


@cache
def nccl_variables() -> frozenset[str]:
    """Return all variables that a version of NCCL reads."""
    text = files("seatrial.checks").joinpath("data", "nccl_variables.txt").read_text("utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


@cache
def harmful_variables() -> tuple[HarmfulVariable, ...]:
    """Return the variables that cause problems on any fabric."""
    return tuple(
        HarmfulVariable(
            found["name"],
            Harm(found["kind"]),
            tuple(found["values"]),
            found["why"],
            found["source"],
            found.get("needs_rdma", False),
            tuple(found.get("fabrics", ())),
        )
        for found in _read("variables.toml")["variables"]
    )


@cache
def _elsewhere() -> tuple[Elsewhere, ...]:
    return tuple(
        Elsewhere(found["prefix"], tuple(found["fabrics"]), found["why"])
        for found in _read("variables.toml")["elsewhere"]
    )


def unread_on(fabric: str, name: str) -> str:
    """Return why a variable has no effect on a fabric; "" if it may have one."""
    return next(
        (
            each.why
            for each in _elsewhere()
            if fabric in each.fabrics and name.startswith(each.prefix)
        ),
        "",
    )


@cache
def _versions() -> dict[str, Any]:
    return _read("software_versions.toml")


def shown(number: Version) -> str:
    """Format a version, such as 2.7.0."""
    return ".".join(map(str, number))


def inside_reference(reference: str) -> Inside:
    """Return the software versions that an image reference implies."""
    repository, _, tag = reference.partition("@")[0].rpartition(":")
    for series in _versions()["series"]:
        if series["repository"] == repository:
            return _release(series["releases"], version(tag))
    for known in _versions()["tags"]:
        match = re.match(known["pattern"], tag) if known["repository"] == repository else None
        if match:
            cuda = match["cuda"]
            if "." not in cuda:
                cuda = f"{cuda[:_DIGITS_OF_CUDA]}.{cuda[_DIGITS_OF_CUDA:]}"
            return Inside(torch=version(match["torch"]), cuda=version(cuda))
    return Inside()


def _release(releases: list[dict[str, str]], tag: Version) -> Inside:
    """Return the software versions in the release with this tag, regardless of its patch level.

    Releases are ordered: if one is not listed, the versions in the next one are upper bounds.
    """
    for release in releases if tag else ():
        listed, asked = version(release["tag"]), tag[:_PARTS_OF_RELEASE]
        if listed >= asked:
            software = {name: version(release[name]) for name in _SOFTWARE if name in release}
            return Inside(**software, at_most=listed > asked)
    return Inside()


def torch_range(engine: str) -> tuple[Version, Version]:
    """Return an engine's first supported PyTorch and the first unsupported one; () for no bound."""
    known = _versions()["engines"].get(engine, {})
    return version(known.get("torch_from", "")), version(known.get("torch_below", ""))


def holes() -> tuple[Hole, ...]:
    """Return the known vulnerabilities."""
    return tuple(
        Hole(
            found["software"],
            found["engine"],
            version(found["below"]),
            tuple(found["names"]),
            found["what"],
        )
        for found in _versions()["holes"]
    )


def cuda_for(architecture: str) -> Version:
    """Return the first CUDA version that supports a GPU generation; () if unknown."""
    for found in _versions()["generations"]:
        if found["architecture"].lower() == architecture.lower():
            return version(found["cuda_from"])
    return ()


@dataclass(frozen=True, slots=True)
class Network:
    """NCCL versions on a fabric with a GPU generation; empty if unknown."""

    fails: Version = ()
    """The newest NCCL version that is known not to work."""
    works: Version = ()


def nccl_for(fabric: str, architecture: str) -> Network:
    """Return which NCCL versions fail and which work on a fabric with a GPU generation."""
    for found in _versions()["networks"]:
        if (found["fabric"], found["architecture"].lower()) == (fabric, architecture.lower()):
            return Network(version(found["nccl_fails"]), version(found["nccl_works"]))
    return Network()


@cache
def _gated() -> tuple[str, ...]:
    return tuple(found["name"] for found in _read("hub.toml")["gated"])


def is_gated(repository: str) -> bool:
    """True if a Hugging Face repository requires an account that has accepted its terms."""
    return any(fnmatchcase(repository, name) for name in _gated())
