# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the nodes of a job load the same NCCL."""

import re
from collections.abc import Iterator, Sequence

from seatrial.monitoring.diagnosis.evidence import EvidenceKind
from seatrial.monitoring.diagnosis.excerpt import Excerpt, KeptLine
from seatrial.monitoring.diagnosis.knowledge import Certainty
from seatrial.monitoring.diagnosis.sighting import Sighting

_PACKAGE = re.compile(r"^(?P<package>nvidia-nccl-cu\d+)==(?P<version>[\w.]+)")
_LOADED = re.compile(r"(?:^|\s)NCCL version (?P<version>\d+\.\d+\.\d+)\+cuda")


def version_sightings(excerpts: Sequence[Excerpt]) -> Iterator[Sighting]:
    """Versions of NCCL that differ between nodes."""
    installed: dict[str, dict[str, tuple[Excerpt, KeptLine]]] = {}
    loaded: dict[str, tuple[Excerpt, KeptLine]] = {}
    for excerpt in excerpts:
        for line in excerpt.lines:
            if excerpt.kind is EvidenceKind.PACKAGES and (found := _PACKAGE.match(line.text)):
                versions = installed.setdefault(found["package"], {})
                versions.setdefault(found["version"], (excerpt, line))
            elif found := _LOADED.search(line.text):
                loaded.setdefault(found["version"], (excerpt, line))
    yield from _differing(loaded, "loaded")
    for package, versions in installed.items():
        yield from _differing(versions, f"{package} installed")


def _differing(versions: dict[str, tuple[Excerpt, KeptLine]], how: str) -> Iterator[Sighting]:
    if len(versions) < 2:
        return
    says = f"Nodes have different versions of NCCL {how}: {', '.join(sorted(versions))}"
    for excerpt, line in versions.values():
        yield Sighting(
            *("nccl-version-mismatch", Certainty.CERTAIN, says, "versions-side-by-side"),
            *(excerpt.name, line.number, line.text),
        )
