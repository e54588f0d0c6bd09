# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Show what applying manifests would change in a cluster, with a server-side dry run."""

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seatrial.cluster import objects
from seatrial.cluster.errors import ClusterError
from seatrial.cluster.kinds import CONFIG_MAP, kind_of
from seatrial.cluster.transport import Json
from seatrial.findings import Finding
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.names import RUN_LABEL
from seatrial.rendering.render import Rendering
from seatrial.runs.launch.differences import FieldDifference, differences
from seatrial.runs.namespace import Site
from seatrial.runs.objects import with_its_volume
from seatrial.runs.ownership import has_labels_of, not_ours
from seatrial.storage.state_files import parse_json

_SERVERS_OWN = (
    *("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
"""Metadata fields that the server writes."""


class DiffVerdict(StrEnum):
    """The effect of applying an object."""

    NEW = "new"
    """It would be created."""
    CHANGED = "changed"
    """Some of its fields would change."""
    SAME = "same"
    """No change."""
    REFUSED = "refused"
    """The API server rejects it, or the name belongs to another owner's object."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The effect of applying one manifest."""

    name: str
    """The object, as `Kind name`."""
    verdict: DiffVerdict
    changes: tuple[FieldDifference, ...] = ()
    """The fields that would change. All fields for a new object."""
    finding: Finding | None = None
    """The reason for a refusal."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "object": self.name,
            "verdict": str(self.verdict),
            "changes": [change.to_dict() for change in self.changes],
            "finding": self.finding.to_dict() if self.finding else None,
        }


def compare(site: Site, rendering: Rendering) -> list[Comparison]:
    """Ask the API server for the effect of each manifest: a server-side apply as a dry run."""
    return [_compared(site, manifest) for manifest in rendering.manifests]


def _compared(site: Site, manifest: Manifest) -> Comparison:
    kind, head = kind_of(manifest), manifest["metadata"]
    name = f"{kind.name} {head['name']}"
    try:
        there = objects.read(site.api, kind, head.get("namespace", ""), head["name"])
        run = (head.get("labels") or {}).get(RUN_LABEL)
        # Manifests may also be applied with kubectl. Such objects have only the labels.
        if there is not None and run and not has_labels_of(there, run):
            taken = not_ours(kind, head.get("namespace", ""), there, run)
            return Comparison(name, DiffVerdict.REFUSED, finding=taken)
        would = objects.preview(site.api, with_its_volume(manifest, there or {}))
    except ClusterError as error:
        return Comparison(name, DiffVerdict.REFUSED, finding=error.findings[0])
    if there is None:
        return Comparison(name, DiffVerdict.NEW, tuple(differences({}, _own(manifest))))
    changes = tuple(differences(_own(there), _own(would)))
    return Comparison(name, DiffVerdict.CHANGED if changes else DiffVerdict.SAME, changes)


def _own(item: Json) -> Json:
    """Return an object without the server's own fields."""
    head = {key: value for key, value in item["metadata"].items() if key not in _SERVERS_OWN}
    parts = {key: value for key, value in item.items() if key not in ("status", "metadata")}
    if item["kind"] == CONFIG_MAP.name:
        parts["data"] = {key: _opened(text) for key, text in (item.get("data") or {}).items()}
    return {**parts, "metadata": head}


def _opened(text: str) -> Any:
    """Parse a ConfigMap's file if it is JSON, such as the spec. Otherwise return its text."""
    with suppress(ValueError):
        return parse_json(text)
    return text
