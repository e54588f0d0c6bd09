# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the container image of a run."""

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
"""Tags that are usually moved to each new build."""


def _known(situation: Situation) -> Image | None:
    """Return the catalog entry of the image, if there is one."""
    try:
        return situation.catalog.image(situation.plan.machines.image)
    except NotInCatalogError:
        return None


def _inside(situation: Situation) -> Inside:
    """Return the software versions in the image, from the catalog or the reference."""
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
    """Return the override to the profile's default image, if the run uses a different one."""
    engine = situation.spec.engine.name
    usual = situation.catalog.profile(situation.plan.machines.profile).images.get(engine, "")
    return (f"{FIELD}={usual}",) if usual and usual != situation.plan.machines.image else ()


def _by_reference(situation: Situation, fix: str) -> str:
    """Return a fix that also offers the profile's default image, if the run does not use it."""
    instead = _instead(situation)
    return f"Use {instead[0].partition('=')[2]}, or {fix}" if instead else f"Use {fix}"


def no_name(situation: Situation) -> Iterator[Checked]:
    """Report an invalid image reference."""
    name = situation.plan.machines.image
    if not name or not situation.in_pods or _known(situation) is not None:
        return
    wrong = _wrong_part(name)
    if wrong:
        yield situation.error(
            CheckCode.IMAGE_NAME,
            FIELD,
            f"{wrong}: the pods would stay in InvalidImageName.",
            "Use REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST. docker images "
            "--digests shows both.",
            name,
        )


def _wrong_part(reference: str) -> str:
    """Return what is wrong with a reference (grammar of the distribution project); "" if valid."""
    named, at, digest = reference.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return f"{digest} is not a digest (sha256: and 64 lowercase hexadecimal digits)"
    first, slash, rest = named.partition("/")
    # A first part with a dot, a colon or a capital letter is a registry.
    is_host = bool(slash) and (re.search(r"[.:A-Z]", first) or first == "localhost")
    path, colon, tag = (rest if is_host else named).partition(":")
    if colon and not _TAG.fullmatch(tag):
        return f"{tag!r} is not a valid tag"
    if any(not _COMPONENT.fullmatch(part) for part in path.split("/")):
        lower = ", which must be lowercase" if path != path.lower() else ""
        return f"{path!r} is not a valid repository name{lower}"
    return ""


def moving(situation: Situation) -> Iterator[Checked]:
    """Report a tag that can refer to a different image when a pod restarts."""
    name = situation.plan.machines.image
    if not name or "@sha256:" in name:
        return
    known = _known(situation)
    if situation.in_pods and image_of(name, situation.catalog).floating:
        return  # Rendering reports this.
    tag = (known.reference if known else name).rpartition("/")[2].partition(":")[2]
    words = tag.lower().replace("_", "-").split("-")
    floats = known.floating and not known.digest if known else False
    if floats or tag.lower() in MOVING or "latest" in words or "nightly" in words:
        yield situation.warning(
            CheckCode.MOVING_IMAGE,
            FIELD,
            f"the tag {tag or 'latest'} is mutable: a pod that restarts, or a node that joins "
            "later, can run different code from the others.",
            "Pin the image to a digest: REPOSITORY@sha256:...",
            name,
        )


def old_torch(situation: Situation) -> Iterator[Checked]:
    """Report a PyTorch version that the engine does not support."""
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
            f"the image has PyTorch {inside.shown(torch)}, but {engine} "
            f"{ENGINES[engine].version} needs {wanted}.",
            _by_reference(situation, "an image with a supported version."),
            situation.plan.machines.image,
            proposed(*_instead(situation)),
        )


def other_engine(situation: Situation) -> Iterator[Checked]:
    """Report an image whose engine version differs from the version that the plan is for."""
    engine = ENGINES[situation.spec.engine.name]
    inside = _inside(situation)
    wanted, found = version(engine.version), inside.engine
    differs = found[:2] < wanted[:2] if inside.at_most else found[:2] != wanted[:2]
    if found and differs and engine.is_version_bound:
        yield situation.warning(
            CheckCode.OTHER_ENGINE,
            FIELD,
            f"the image contains {engine.name} {inside.shown(found)}, but the plan has arguments "
            f"for {engine.version}: argument names and meanings differ between versions.",
            _by_reference(situation, "an image without an engine."),
            situation.plan.machines.image,
            proposed(*_instead(situation)),
        )


def known_holes(situation: Situation) -> Iterator[Checked]:
    """Report software with vulnerabilities that loading a file can exploit."""
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
                f"{what} {inside.shown(number)} in the image is affected by {names}: "
                f"{open_ones[0].what}. Fixed in {shown(last)}.",
                _by_reference(situation, "an image with a newer version."),
                situation.plan.machines.image,
                proposed(*_instead(situation)),
            )
            return


def old_for_gpu(situation: Situation) -> Iterator[Checked]:
    """Report an image that is too old for the GPUs or their network."""
    machines, inside = situation.plan.machines, _inside(situation)
    if not machines.accelerator or not machines.image:
        return
    generation = situation.catalog.accelerator(machines.accelerator).architecture
    cuda, nccl = cuda_for(generation), nccl_for(machines.fabric, generation)
    rule = ""
    if inside.cuda and cuda and inside.cuda < cuda:
        rule = f"CUDA {inside.shown(inside.cuda)} in the image does not support {generation}, "
        rule += f"which needs {shown(cuda)} or newer."
    elif () < inside.nccl[: len(nccl.fails)] <= nccl.fails and machines.nodes > 1:
        rule = f"NCCL {inside.shown(inside.nccl)} in the image does not work with the "
        rule += (
            f"{machines.fabric} adapters of {machines.node_type}; NCCL {shown(nccl.works)} does."
        )
    if rule:
        fix = _by_reference(situation, "an image with a newer version.")
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
