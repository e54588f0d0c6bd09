# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Container images: which engine, at which version, is inside."""

from collections.abc import Iterable

from pydantic import Field

from seatrial.catalog.entry import Entry, Kind, Reference


class Image(Entry):
    """One container image that a run can use."""

    reference: str = Field(pattern=r"^[a-z0-9][a-z0-9./_-]*:[A-Za-z0-9._-]+$")
    """Repository and version tag; never `latest` unless `floating` says so."""
    floating: bool = False
    """Whether the tag moves with every build, because no source states one that stays."""
    digest: str = Field(default="", pattern=r"^(sha256:[0-9a-f]{64})?$")
    """Content digest, where it is known."""
    engine: str
    """The training engine inside, or the one that a run installs into it."""
    engine_version: str = ""
    """Version of the engine inside; empty when the image does not bring it."""
    engine_included: bool
    """Whether the engine is in the image; otherwise a run's init container installs it."""
    brings_seatrial: bool = False
    """Whether Seatrial's worker is in the image, with its engine; otherwise a run's init container
    installs both, for only images of ours have it."""
    torch: str = ""
    """Version of PyTorch inside."""
    cuda: str = ""
    """Version of CUDA inside."""
    python: str = ""
    """Version of Python inside."""
    nccl: str = ""
    """Version of NCCL inside."""
    transformer_engine: str = ""
    """Version of Transformer Engine inside."""
    fabrics: tuple[str, ...] = ()
    """Fabrics whose user-space libraries the image brings."""
    published: bool = True
    """Whether it can be pulled today; false for images of ours that are not released yet."""

    @property
    def references(self) -> tuple[str, ...]:
        """The references that mean this image, without Docker Hub's own host."""
        tagged = self.reference.removeprefix("docker.io/")
        repository = tagged.rpartition(":")[0]
        return (tagged, f"{repository}@{self.digest}") if self.digest else (tagged,)

    def named_entries(self) -> Iterable[Reference]:
        return [(("fabrics",), Kind.FABRICS, name) for name in self.fabrics]
