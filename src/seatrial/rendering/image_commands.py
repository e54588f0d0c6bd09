# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The commands that save, build and push container images, as argument lists."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from seatrial.catalog.images import Image
from seatrial.rendering.manifest import Manifest

Argv = list[str]


class ImageTool(StrEnum):
    """A program that handles container images."""

    SKOPEO = "skopeo"
    """Copies images between registries and archives, without a daemon."""
    PODMAN = "podman"
    DOCKER = "docker"
    BUILDAH = "buildah"


COPYING = (ImageTool.SKOPEO, ImageTool.PODMAN, ImageTool.DOCKER)
"""The tools that can save and push images, the preferred one first."""
BUILDING = (ImageTool.DOCKER, ImageTool.PODMAN, ImageTool.BUILDAH)
"""The tools that can build images, the preferred one first."""


def full_reference(reference: str) -> str:
    """Add Docker Hub's host name, so that no tool asks which registry is meant."""
    first, _, rest = reference.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        return reference
    return f"docker.io/{reference}" if rest else f"docker.io/library/{reference}"


def mirrored(reference: str, registry: str) -> str:
    """Return the name of an image in another registry: the same path without the old host."""
    path = full_reference(reference).partition("/")[2]
    if "@" in path:
        # A push makes a tag; the digest of a tag is its name in a mirror without one.
        name, _, digest = path.partition("@")
        has_tag = ":" in name.rpartition("/")[2]
        path = name if has_tag else f"{name}:{digest.partition(':')[2][:12]}"
    return f"{registry.rstrip('/')}/{path}"


def archive_name(reference: str) -> str:
    """Return a file name for an image."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', full_reference(reference))}.tar"


def save_commands(tool: ImageTool, reference: str, archive: Path) -> list[Argv]:
    """Return the commands that write an image to an archive which docker and podman can load."""
    source = full_reference(reference)
    if tool is ImageTool.SKOPEO:
        name = source.partition("@")[0]
        target = (
            f"docker-archive:{archive}:{name}"
            if ":" in name.rpartition("/")[2]
            else (f"docker-archive:{archive}")
        )
        return [["skopeo", "copy", f"docker://{_one_pin(source)}", target]]
    return [
        [str(tool), "pull", source],
        [str(tool), "save", "--output", str(archive), source],
    ]


def push_commands(
    tool: ImageTool, reference: str, target: str, archive: Path | None = None
) -> list[Argv]:
    """Return the commands that push an image, or its archive, under another name."""
    source = full_reference(reference)
    if tool is ImageTool.SKOPEO:
        place = f"docker-archive:{archive}" if archive else f"docker://{_one_pin(source)}"
        return [["skopeo", "copy", place, f"docker://{target}"]]
    load = [[str(tool), "load", "--input", str(archive)]] if archive else []
    return [*load, [str(tool), "tag", source, target], [str(tool), "push", target]]


def _one_pin(reference: str) -> str:
    """Drop the tag of a reference with a digest: skopeo refuses both."""
    name, at, digest = reference.partition("@")
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}@{digest}" if at else reference


def build_command(
    tool: ImageTool,
    image: Image,
    context: Path,
    tag: str,
    arguments: Mapping[str, str],
    secrets: Iterable[str] = (),
) -> Argv:
    """Return the command that builds one of Seatrial's images from a checkout."""
    dockerfile = context / image.dockerfile
    argv = [str(tool), "build", "--file", str(dockerfile), "--tag", tag]
    if tool is not ImageTool.DOCKER:
        # Docker finds this file by itself. The OCI format would ignore SHELL, and with it pipefail.
        argv += ["--ignorefile", f"{dockerfile}.dockerignore", "--format", "docker", "--layers"]
    argv += ["--target", image.target] if image.target else []
    for name, value in arguments.items():
        argv += ["--build-arg", f"{name}={value}"]
    for secret in secrets:
        argv += ["--secret", secret]
    return [*argv, str(context)]


def images_in(manifests: Iterable[Manifest]) -> dict[str, str]:
    """Return the images of all containers, each with the first object that uses it."""
    found: dict[str, str] = {}
    for manifest in manifests:
        for image in _images(manifest):
            found.setdefault(image, f"{manifest['kind']} {manifest['metadata']['name']}")
    return found


def _images(value: object) -> Iterable[str]:
    """Yield the images in the pods of an object."""
    if isinstance(value, dict):
        image = value.get("image")
        if isinstance(image, str) and "name" in value:
            yield image
        for below in value.values():
            yield from _images(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _images(below)
