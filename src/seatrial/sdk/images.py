# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Container images of runs and clusters: list, save, build and push them."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seatrial.catalog.catalog import Catalog, Kind, default_catalog
from seatrial.errors import NotInCatalogError, SeatrialError, UsageError
from seatrial.rendering.image_commands import (
    BUILDING,
    COPYING,
    Argv,
    ImageTool,
    archive_name,
    build_command,
    full_reference,
    images_in,
    mirrored,
    push_commands,
    save_commands,
)
from seatrial.rendering.render import Part
from seatrial.sdk.output_files import write_new
from seatrial.sdk.plan import Overrides, PathOrText
from seatrial.sdk.render import render
from seatrial.sdk.site import SiteComponents, site
from seatrial.storage.state_files import write_state
from seatrial.version import VERSION

Tell = Callable[[str], object]
_ERROR_STREAM = 2
INDEX = "images.txt"
"""The list of what a directory holds: the digest and the name of each archive, and its image."""


@dataclass(frozen=True, slots=True)
class NeededImage:
    """An image that a run or a cluster pulls."""

    reference: str
    """The full reference, by digest if it is known."""
    used_by: str
    """The object, or the component of the cluster."""
    published: bool = True
    """False for Seatrial's own images, which you build and push."""

    def to_dict(self) -> dict[str, Any]:
        """Return the image for JSON output."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ImageList:
    """The images of a run and of its cluster."""

    images: tuple[NeededImage, ...]
    not_listed: tuple[str, ...]
    """Components whose images the catalog does not list."""


def list_images(
    target: PathOrText, overrides: Overrides = (), *, catalog: Catalog | None = None
) -> ImageList:
    """Return every image that a run and its cluster pull.

    Args:
        target: The spec of a run, or a cluster profile such as `aks`.
        overrides: Fields to override.
        catalog: The catalog to use.
    """
    facts = catalog or default_catalog()
    found = site(target, overrides, catalog=facts)
    used = _of_run(target, overrides, found, facts)
    used |= {
        image: f"component {release.name}" for release in found.releases for image in release.images
    }
    images = {_pinned(name, facts): (name, by) for name, by in used.items()}
    not_listed = [
        each.name
        for each in found.releases
        if not (each.images or each.part_of or each.component.managed)
    ]
    return ImageList(
        tuple(
            NeededImage(full, by, published=_is_published(name, facts))
            for full, (name, by) in images.items()
        ),
        tuple(not_listed),
    )


def _of_run(
    target: PathOrText, overrides: Overrides, found: SiteComponents, catalog: Catalog
) -> dict[str, str]:
    """Return the images of a run's pods, or the default images of a profile."""
    if Path(target).is_file():
        manifests = [
            manifest
            for part in (Part.RUN, Part.DATA)
            for manifest in render(target, overrides, part).manifests
        ]
        return images_in(manifests)
    profile = catalog.profile(found.needs.profile)
    return {
        catalog.image(name).reference: f"profile {found.needs.profile}, {purpose}"
        for purpose, name in profile.images.items()
    }


def _pinned(reference: str, catalog: Catalog) -> str:
    """Return the full reference, by digest if the catalog knows it."""
    try:
        image = catalog.image(reference)
    except NotInCatalogError:
        return full_reference(reference)
    return full_reference(image.references[-1])


def _is_published(reference: str, catalog: Catalog) -> bool:
    try:
        return catalog.image(reference).published
    except NotInCatalogError:
        return True


def save_images(
    references: Sequence[str], directory: PathOrText, *, tool: str = "", tell: Tell | None = None
) -> list[Path]:
    """Write images to archives in a directory, and list them in `images.txt`.

    An archive that is already there is kept.

    Args:
        references: The images.
        directory: Where the archives go.
        tool: `skopeo`, `podman` or `docker`. Default: the first that is installed.
        tell: Receives a line before each image.
    """
    chosen = find_tool("save", COPYING, tool)
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    saved, lines = [], []
    for reference in references:
        archive = place / archive_name(reference)
        if not archive.exists():
            _say(tell, f"saving {full_reference(reference)}")
            partial = archive.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            _run_all(save_commands(chosen, reference, partial))
            partial.rename(archive)
        saved.append(archive)
        lines.append(f"{_sha256(archive)}  {archive.name}  {full_reference(reference)}\n")
    write_new(place / INDEX, "".join(lines), force=True)
    return saved


def push_images(
    sources: Sequence[str], registry: str, *, tool: str = "", tell: Tell | None = None
) -> list[str]:
    """Push images to a registry under their own paths, and return the new references.

    Args:
        sources: Image references, or one directory that `save_images` wrote.
        registry: The registry and an optional path, such as `registry.example.com/mirror`.
        tool: `skopeo`, `podman` or `docker`. Default: the first that is installed.
        tell: Receives a line before each image.
    """
    chosen = find_tool("push", COPYING, tool)
    pushed = []
    for reference, archive in _sources(sources):
        target = mirrored(reference, registry)
        _say(tell, f"pushing {target}")
        _run_all(push_commands(chosen, reference, target, archive))
        pushed.append(target)
    return pushed


def _sources(sources: Sequence[str]) -> list[tuple[str, Path | None]]:
    """Return the images to push, with their archives if they come from a directory."""
    if len(sources) != 1 or not Path(sources[0]).is_dir():
        return [(each, None) for each in sources]
    directory = Path(sources[0])
    index = directory / INDEX
    if not index.is_file():
        raise UsageError(f"{directory} has no {INDEX}. Write it with seatrial images save.")
    found: list[tuple[str, Path | None]] = []
    for line in index.read_text(encoding="utf-8").splitlines():
        digest, name, reference = line.split(maxsplit=2)
        archive = directory / Path(name).name
        if not archive.is_file() or _sha256(archive) != digest:
            raise UsageError(
                f"{archive} is missing or does not match its digest in {index}. "
                "Save the image again."
            )
        found.append((reference, archive))
    return found


def build_image(
    name: str,
    *,
    tag: str = "",
    base: str = "",
    context: PathOrText = ".",
    tool: str = "",
) -> str:
    """Build one of Seatrial's own images from a checkout, and return its tag.

    Args:
        name: The image, such as `worker-data`.
        tag: The tag of the new image. Default: the reference in the catalog.
        base: The base image. Default: the one in the Dockerfile.
        context: A checkout of Seatrial.
        tool: `docker`, `podman` or `buildah`. Default: the first that is installed.
    """
    catalog = default_catalog()
    names = [each for each in catalog.names(Kind.IMAGES) if catalog.image(each).dockerfile]
    if name not in names:
        raise UsageError(f"There is no image {name!r} to build. Use one of: {', '.join(names)}.")
    image = catalog.image(name)
    checkout = Path(context).resolve()
    if not (checkout / image.dockerfile).is_file():
        raise UsageError(
            f"{checkout} has no {image.dockerfile}. Run this in a checkout of Seatrial, or name "
            "one with --context: the wheel does not contain the Dockerfiles."
        )
    chosen = find_tool("build", BUILDING, tool)
    wanted = tag or image.reference
    arguments = {"VERSION": VERSION, **({"BASE": base} if base else {})}
    with tempfile.TemporaryDirectory(prefix="seatrial-image-") as work:
        secrets = pip_secrets(Path(work))
        argv = build_command(chosen, image, checkout, wanted, arguments, secrets)
        _run_all([argv])
    return wanted


def pip_secrets(work: Path) -> list[str]:
    """Return how pip reaches its index, as secrets of a build that no layer contains."""
    options, lines = [], []
    if index := os.environ.get("PIP_INDEX_URL"):
        lines.append(f"index-url = {index}")
    if certificates := os.environ.get("PIP_CERT"):
        options.append(f"id=certificates,src={certificates}")
        lines.append("cert = /run/secrets/certificates")
    settings = work / "pip.conf"
    write_state(settings, "\n".join(["[global]", *lines]) + "\n")
    return [*options, f"id=pip,src={settings}"]


def find_tool(command: str, usable: Sequence[ImageTool], wanted: str = "") -> ImageTool:
    """Return the tool to use. Raises UsageError if it, or every usable one, is missing."""
    names = ", ".join(usable)
    if wanted and wanted not in usable:
        raise UsageError(f"images {command} cannot use {wanted!r}. Use one of: {names}.")
    for tool in usable:
        if wanted in ("", tool) and shutil.which(tool):
            return tool
    missing = wanted or f"one of {names}"
    raise UsageError(f"images {command} needs {missing} on the PATH. Install it and try again.")


def _run_all(commands: Sequence[Argv]) -> None:
    """Run commands. Their output is progress, so it goes to the error stream."""
    for argv in commands:
        done = subprocess.run(argv, stdout=_ERROR_STREAM, check=False)  # noqa: S603  (no shell)
        if done.returncode:
            raise SeatrialError(
                f"{argv[0]} {argv[1]} failed with exit code {done.returncode}. Its messages are "
                "above."
            )


def _say(tell: Tell | None, text: str) -> None:
    if tell is not None:
        tell(text)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
