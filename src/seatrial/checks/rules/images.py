# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the image that a run starts in."""

import re
from collections.abc import Iterator

from seatrial.catalog.images import Image
from seatrial.checks.facts import (
    Inside,
    cuda_for,
    holes,
    inside_reference,
    nccl_for,
    shown,
    torch_range,
    version,
)
from seatrial.checks.rule import Checked, Situation, proposed, static
from seatrial.codes.checks import CheckCode
from seatrial.engines.registry import ENGINES
from seatrial.errors import NotInCatalogError
from seatrial.rendering.context import image_of

FIELD = "cluster.image"
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
MOVING = ("latest", "main", "master", "nightly", "dev", "devel", "edge", "stable", "head", "test")
"""Tags that registries and projects move from build to build."""


def _known(situation: Situation) -> Image | None:
    """The image in the catalog, when it has one of that name."""
    try:
        return situation.catalog.image(situation.plan.machines.image)
    except NotInCatalogError:
        return None


def _inside(situation: Situation) -> Inside:
    """The software inside, as the catalog or the reference says."""
    found = _known(situation)
    if found is None:
        return inside_reference(situation.plan.machines.image)
    by_tag = inside_reference(found.reference)
    return Inside(
        version(found.engine_version) if found.engine_included else by_tag.engine,
        version(found.torch) or by_tag.torch,
        version(found.cuda) or by_tag.cuda,
        version(found.nccl) or by_tag.nccl,
        by_tag.at_most,
    )


def _instead(situation: Situation) -> tuple[str, ...]:
    """The override to the profile's own image, when that is another one."""
    engine = situation.spec.engine.name
    usual = situation.catalog.profile(situation.plan.machines.profile).images.get(engine, "")
    return (f"{FIELD}={usual}",) if usual and usual != situation.plan.machines.image else ()


def _by_reference(situation: Situation, fix: str) -> str:
    """What to do, with the profile's own image where it has another one."""
    instead = _instead(situation)
    return f"Use {instead[0].partition('=')[2]}, or {fix}" if instead else f"Use {fix}"


def no_name(situation: Situation) -> Iterator[Checked]:
    """References that no registry and no node takes."""
    name = situation.plan.machines.image
    if not name or not situation.in_pods or _known(situation) is not None:
        return
    wrong = _wrong_part(name)
    if wrong:
        yield situation.error(
            CheckCode.IMAGE_NAME,
            FIELD,
            f"{wrong}: the pods would stay in InvalidImageName.",
            "Give it as REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST, as docker "
            "images --digests shows it.",
            name,
        )


def _wrong_part(reference: str) -> str:
    """What of a reference is not as registries have it (distribution's grammar of references)."""
    named, at, digest = reference.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return f"{digest} is no digest, which has sha256: and 64 digits of 0-9a-f"
    first, slash, rest = named.partition("/")
    # What has a dot, a colon or a capital letter before the first slash is a registry.
    is_host = bool(slash) and (re.search(r"[.:A-Z]", first) or first == "localhost")
    path, colon, tag = (rest if is_host else named).partition(":")
    if colon and not _TAG.fullmatch(tag):
        return f"{tag!r} is no tag"
    if any(not _COMPONENT.fullmatch(part) for part in path.split("/")):
        lower = " in capitals" if path != path.lower() else ""
        return f"{path!r} is no name of a repository{lower}"
    return ""


def moving(situation: Situation) -> Iterator[Checked]:
    """A tag that can mean another image when a pod starts again."""
    name = situation.plan.machines.image
    if not name or "@sha256:" in name:
        return
    known = _known(situation)
    if situation.in_pods and image_of(name, situation.catalog).floating:
        return  # Rendering says so already.
    tag = (known.reference if known else name).rpartition("/")[2].partition(":")[2]
    words = tag.lower().replace("_", "-").split("-")
    floats = known.floating and not known.digest if known else False
    if floats or tag.lower() in MOVING or "latest" in words or "nightly" in words:
        yield situation.warning(
            CheckCode.MOVING_IMAGE,
            FIELD,
            f"the tag {tag or 'latest'} moves: a pod that starts again, or a node that joins "
            "later, may run other code than the rest.",
            "Give the image by its digest: REPOSITORY@sha256:...",
            name,
        )


def old_torch(situation: Situation) -> Iterator[Checked]:
    """A PyTorch that the engine does not work with."""
    engine, inside = situation.spec.engine.name, _inside(situation)
    torch = inside.torch
    first, beyond = torch_range(engine)
    if not torch or not first:
        return
    if torch < first or (beyond and torch >= beyond and not inside.at_most):
        wanted = (
            f"{shown(first)} or newer" if not beyond else f"{shown(first)}, below {shown(beyond)}"
        )
        yield situation.error(
            CheckCode.OLD_TORCH,
            FIELD,
            f"the image has PyTorch {inside.shown(torch)}, and {engine} "
            f"{ENGINES[engine].version} needs {wanted}.",
            _by_reference(situation, "another image with the right version."),
            situation.plan.machines.image,
            proposed(*_instead(situation)),
        )


def other_engine(situation: Situation) -> Iterator[Checked]:
    """An image with another version of the engine than the plan's arguments are for."""
    engine = ENGINES[situation.spec.engine.name]
    inside = _inside(situation)
    wanted, found = version(engine.version), inside.engine
    differs = found[:2] < wanted[:2] if inside.at_most else found[:2] != wanted[:2]
    if found and differs and engine.is_version_bound:
        yield situation.warning(
            CheckCode.OTHER_ENGINE,
            FIELD,
            f"the image brings {engine.name} {inside.shown(found)}, and the arguments of the plan "
            f"are those of {engine.version}: names and meanings differ.",
            _by_reference(situation, "an image without an engine of its own."),
            situation.plan.machines.image,
            proposed(*_instead(situation)),
        )


def known_holes(situation: Situation) -> Iterator[Checked]:
    """Software with vulnerabilities that loading a file opens."""
    inside, engine = _inside(situation), situation.spec.engine.name
    for name, number in (("engine", inside.engine), ("torch", inside.torch)):
        open_ones = [
            hole
            for hole in holes()
            if hole.software == name and hole.engine in ("", engine) and () < number < hole.below
        ]
        if open_ones:
            what = "PyTorch" if name == "torch" else engine
            names = ", ".join(given for hole in open_ones for given in hole.names)
            last = max(hole.below for hole in open_ones)
            yield situation.warning(
                CheckCode.KNOWN_HOLES,
                FIELD,
                f"{what} {inside.shown(number)} in the image has {names}: {open_ones[0].what}. "
                f"{shown(last)} is the first without.",
                _by_reference(situation, "another image with a newer one."),
                situation.plan.machines.image,
                proposed(*_instead(situation)),
            )
            return


def old_for_gpu(situation: Situation) -> Iterator[Checked]:
    """An image from before the GPUs, or their network, came out."""
    machines, inside = situation.plan.machines, _inside(situation)
    if not machines.accelerator or not machines.image:
        return
    generation = situation.catalog.accelerator(machines.accelerator).architecture
    cuda, nccl = cuda_for(generation), nccl_for(machines.fabric, generation)
    rule = ""
    if inside.cuda and cuda and inside.cuda < cuda:
        rule = f"CUDA {inside.shown(inside.cuda)} in the image has no code for {generation}, "
        rule += f"which begins with {shown(cuda)}."
    elif () < inside.nccl[: len(nccl.fails)] <= nccl.fails and machines.nodes > 1:
        rule = f"NCCL {inside.shown(inside.nccl)} in the image does not work with the "
        rule += f"{machines.fabric} adapters of {machines.node_type}; {shown(nccl.works)} does."
    if rule:
        fix = _by_reference(situation, "another image with a newer one.")
        instead = _instead(situation)
        yield situation.error(
            CheckCode.OLD_FOR_GPU, FIELD, rule, fix, machines.image, proposed(*instead)
        )


RULES = (
    static(CheckCode.IMAGE_NAME, look=no_name),
    static(CheckCode.MOVING_IMAGE, look=moving),
    static(CheckCode.OLD_TORCH, look=old_torch),
    static(CheckCode.OTHER_ENGINE, look=other_engine),
    static(CheckCode.KNOWN_HOLES, look=known_holes),
    static(CheckCode.OLD_FOR_GPU, look=old_for_gpu),
)
