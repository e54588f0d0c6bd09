# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Facts that only the check needs, from the files in `checks/data`, each with its source there."""

import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

Version = tuple[int, ...]
"""A version as numbers: `2.7.0a0` is (2, 7, 0)."""
_DIGITS_OF_CUDA = 2
"""A tag such as cu128 has the major version in its first two digits."""
_PARTS_OF_RELEASE = 2
"""A tag such as 25.11.01 is a patch of 25.11."""
_SOFTWARE = ("engine", "torch", "cuda", "nccl")
"""What a release may state the version of."""


class Harm(StrEnum):
    """What is wrong with setting a variable."""

    DEBUGGING = "debugging"
    """It is for finding faults."""
    SLOWING = "slowing"
    """It switches off a fast path."""
    DEVICES = "devices"
    """It takes GPUs away."""


@dataclass(frozen=True, slots=True)
class HarmfulVariable:
    """A variable that does harm on any fabric."""

    name: str
    kind: Harm
    """What is wrong with it."""
    values: tuple[str, ...]
    """The values that do harm, in lower case; empty: any."""
    why: str
    """What it does, as the end of a sentence."""
    source: str
    """Where this is stated."""
    needs_rdma: bool = False
    """Whether it does harm only where the fabric has RDMA."""
    fabrics: tuple[str, ...] = ()
    """The fabrics on which it does harm; empty: any."""

    def concerns(self, fabric: str, *, rdma: bool) -> bool:
        """Whether it does harm on a fabric."""
        return (rdma or not self.needs_rdma) and (not self.fabrics or fabric in self.fabrics)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Variables that nobody reads on some fabrics, though somebody does on others."""

    prefix: str
    fabrics: tuple[str, ...]
    """Where nobody reads them."""
    why: str
    """Why not, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What is known of the software in an image; empty where nothing is."""

    engine: Version = ()
    """Version of Megatron inside."""
    torch: Version = ()
    """Version of PyTorch inside."""
    cuda: Version = ()
    """Version of CUDA inside."""
    nccl: Version = ()
    """Version of NCCL inside."""
    at_most: bool = False
    """Whether these are of the next release that is known, so that it has none that is newer."""

    def shown(self, number: Version) -> str:
        """A version of these as people write it."""
        return f"{shown(number)} or older" if self.at_most else shown(number)


@dataclass(frozen=True, slots=True)
class Hole:
    """Vulnerabilities of versions of some software."""

    software: str
    """`engine` or `torch`."""
    engine: str
    """The engine; empty where it concerns all."""
    below: Version
    """The first version without them."""
    names: tuple[str, ...]
    what: str
    """What an attacker can do, as a sentence begins."""


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files("seatrial.checks").joinpath("data", name).read_text("utf-8"))


@cache
def nccl_variables() -> frozenset[str]:
    """Every variable that NCCL reads, or read."""
    text = files("seatrial.checks").joinpath("data", "nccl_variables.txt").read_text("utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


@cache
def harmful_variables() -> tuple[HarmfulVariable, ...]:
    """Variables that do harm on any fabric."""
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
    """Why nobody reads a variable on a fabric; empty where somebody may."""
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


def version(text: str) -> Version:
    """The numbers at the beginning of a version."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def shown(number: Version) -> str:
    """A version as people write it."""
    return ".".join(map(str, number))


def inside_reference(reference: str) -> Inside:
    """What the reference of an image says of the software inside."""
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
    """What is known of the release of a tag, whose patch level does not count.

    Releases come one after the other, so that of one that is not listed the next one's versions are
    the newest that it can have.
    """
    for release in releases if tag else ():
        listed, asked = version(release["tag"]), tag[:_PARTS_OF_RELEASE]
        if listed >= asked:
            software = {name: version(release[name]) for name in _SOFTWARE if name in release}
            return Inside(**software, at_most=listed > asked)
    return Inside()


def torch_range(engine: str) -> tuple[Version, Version]:
    """The first PyTorch that an engine works with, and the first that it does not; () for none."""
    known = _versions()["engines"].get(engine, {})
    return version(known.get("torch_from", "")), version(known.get("torch_below", ""))


def holes() -> tuple[Hole, ...]:
    """Known vulnerabilities."""
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
    """The first CUDA for a generation of GPUs; () when nothing is known."""
    for found in _versions()["generations"]:
        if found["architecture"].lower() == architecture.lower():
            return version(found["cuda_from"])
    return ()


@dataclass(frozen=True, slots=True)
class Network:
    """What is known of NCCL on a fabric of a generation of GPUs; empty where nothing is."""

    fails: Version = ()
    """The newest NCCL that was found not to work."""
    works: Version = ()


def nccl_for(fabric: str, architecture: str) -> Network:
    """Which NCCL a fabric of a generation of GPUs does not work with, and which it does."""
    for found in _versions()["networks"]:
        if (found["fabric"], found["architecture"].lower()) == (fabric, architecture.lower()):
            return Network(version(found["nccl_fails"]), version(found["nccl_works"]))
    return Network()


@cache
def _gated() -> tuple[str, ...]:
    return tuple(found["name"] for found in _read("hub.toml")["gated"])


def is_gated(repository: str) -> bool:
    """Whether Hugging Face gives a repository only to accounts that have agreed to something."""
    return any(fnmatchcase(repository, name) for name in _gated())
