# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Container images, and the engine and versions that they contain."""

from collections.abc import Iterable

from pydantic import Field

from seatrial.catalog.entry import Entry, Kind, Reference


class Image(Entry):
    """One container image that a run can use."""

    reference: str = Field(pattern=r"^[a-z0-9][a-z0-9./_-]*:[A-Za-z0-9._-]+$")
    """Repository and version tag; `latest` only if `floating` is true."""
    floating: bool = False
    """True if the tag moves with every build, because no source states a fixed tag."""
    digest: str = Field(default="", pattern=r"^(sha256:[0-9a-f]{64})?$")
    """Content digest; empty if unknown."""
    engine: str
    """The training engine in the image, or the engine that a run installs into it."""
    engine_version: str = ""
    """Version of the engine in the image; empty if the image does not include it."""
    engine_included: bool
    """True if the image includes the engine; otherwise the run's init container installs it."""
    brings_seatrial: bool = False
    """True if the image includes Seatrial's worker and its engine, as only Seatrial's images do;
    otherwise the run's init container installs both."""
    torch: str = ""
    """Version of PyTorch in the image."""
    cuda: str = ""
    """Version of CUDA in the image."""
    python: str = ""
    """Version of Python in the image."""
    nccl: str = ""
    """Version of NCCL in the image."""
    transformer_engine: str = ""
    """Version of Transformer Engine in the image."""
    hyperpod_agent: str = ""
    """Version of `hyperpod-elastic-agent`, which HyperPod's operator needs; empty without it."""
    fabrics: tuple[str, ...] = ()
    """Fabrics whose user-space libraries the image includes."""
    published: bool = True
    """True if the image can be pulled; false for Seatrial's images that are not yet released."""

    dockerfile: str = ""
    """Path of its Dockerfile in a checkout of Seatrial; empty for images of others."""
    target: str = ""
    """Stage of the Dockerfile; empty for the last one."""

    @property
    def references(self) -> tuple[str, ...]:
        """The equivalent references to this image, without Docker Hub's host name."""
        tagged = self.reference.removeprefix("docker.io/")
        repository = tagged.rpartition(":")[0]
        return (tagged, f"{repository}@{self.digest}") if self.digest else (tagged,)

    def named_entries(self) -> Iterable[Reference]:
        return [(("fabrics",), Kind.FABRICS, name) for name in self.fabrics]
