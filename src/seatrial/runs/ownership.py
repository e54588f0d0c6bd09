# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Decide which objects belong to a run. Seatrial never changes or deletes any others.

An object belongs to a run if it has both labels of the run, no other tool claims it, and Seatrial
created it. Manifests are copied with their labels, so labels alone prove nothing. The API server
records who set the run's label: only Seatrial, for an object that it created. If that record is
missing, the uid in the run's ledger decides.
"""

from collections.abc import Container

from seatrial.cluster.kinds import ObjectKind
from seatrial.cluster.objects import MANAGER
from seatrial.cluster.transport import Json
from seatrial.codes.runs import RunCode
from seatrial.findings import Finding, Severity, Where
from seatrial.rendering.names import MANAGED_BY, MANAGED_BY_LABEL, RUN_LABEL
from seatrial.secrets.redaction import redact

_HELM = "meta.helm.sh/release-name"
_HELM_NAMESPACE = "meta.helm.sh/release-namespace"
_TOOLS = {
    "argocd.argoproj.io/tracking-id": "Argo CD application",
    "argocd.argoproj.io/instance": "Argo CD application",
    "kustomize.toolkit.fluxcd.io/name": "Flux kustomization",
    "helm.toolkit.fluxcd.io/name": "Flux Helm release",
}
"""Labels and annotations with which tools mark their objects, and what the value names."""
_LONGEST = 120
"""The maximum length of a cluster name in a message."""


_UNRECORDED = "before-first-apply"
"""The manager to which the API server assigns the fields of an object without a record."""


def belongs_to(item: Json, run: str, made: Container[str] = ()) -> bool:
    """True if Seatrial created the object for this run and no other tool claims it.

    Args:
        item: The object as the API server returns it.
        run: The name of the run.
        made: The uids in the run's ledger, for objects without recorded managers.
    """
    head = item["metadata"]
    if not has_labels_of(item, run) or head.get("ownerReferences") or _tool_of(item):
        return False
    managers = _label_managers(item)
    return managers == {MANAGER} if managers else head.get("uid") in made


def has_labels_of(item: Json, run: str) -> bool:
    """True if the object has both labels of this run."""
    labels = item["metadata"].get("labels") or {}
    return labels.get(MANAGED_BY_LABEL) == MANAGED_BY and labels.get(RUN_LABEL) == run


def owner_of(item: Json) -> str:
    """Name the owner of an object, from its metadata: a controller, a tool or a field manager."""
    head = item["metadata"]
    labels = head.get("labels") or {}
    for owner in head.get("ownerReferences") or ():
        return _printable(f"{owner.get('kind')} {owner.get('name')}")
    if tool := _tool_of(item):
        return _printable(tool)
    run, managed_by = labels.get(RUN_LABEL), labels.get(MANAGED_BY_LABEL)
    if run and belongs_to(item, run):
        return _printable(f"Seatrial's run {run}")
    if managed_by and managed_by != MANAGED_BY:
        return _printable(f"{managed_by} ({MANAGED_BY_LABEL})")
    written = [e for e in head.get("managedFields") or () if not e.get("subresource")]
    authors = [str(e.get("manager")) for e in sorted(written, key=lambda e: str(e.get("time")))]
    others = [each for each in authors if each not in (MANAGER, _UNRECORDED)]
    return _printable(f"whoever created it with {others[0]}") if others else "an unknown owner"


def _tool_of(item: Json) -> str:
    """Return the deployment tool that claims an object. Empty if none does."""
    head = item["metadata"]
    labels, notes = head.get("labels") or {}, head.get("annotations") or {}
    if _HELM in notes:
        place = f" in namespace {notes[_HELM_NAMESPACE]}" if _HELM_NAMESPACE in notes else ""
        return f"Helm release {notes[_HELM]}{place}"
    for key, tool in _TOOLS.items():
        if name := notes.get(key) or labels.get(key):
            return f"{tool} {str(name).partition(':')[0]}"
    return ""


def _label_managers(item: Json) -> set[str]:
    """Return who set the run's label, as recorded by the API server. Empty without a record.

    The creator of an object sets it. A later apply of the same value shares ownership, so an object
    that somebody else created and Seatrial applied has two managers.
    """
    found = set()
    for entry in item["metadata"].get("managedFields") or ():
        head = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
        if f"f:{RUN_LABEL}" in (head.get("f:labels") or {}):
            found.add(str(entry.get("manager")))
    return found - {_UNRECORDED} if found != {_UNRECORDED, MANAGER} else set()


def not_ours(kind: ObjectKind, namespace: str, item: Json, run: str) -> Finding:
    """Return the finding for an object with the run's name and another owner."""
    owner = owner_of(item)
    return Finding(
        RunCode.NOT_OURS,
        Severity.ERROR,
        Where(field=kind.about(namespace, item["metadata"]["name"])),
        f"an object with this name already exists. Seatrial did not create it for {run}; it "
        f"belongs to {owner}.",
        owner,
        "Rename the run, or ask the owner to rename or delete the object. Seatrial changes and "
        f"deletes only objects that it created for {run}{_copied(item, run)}.",
    )


def _copied(item: Json, run: str) -> str:
    return "; the run's labels alone are not enough" if has_labels_of(item, run) else ""


def _printable(text: str) -> str:
    """Make a name from the cluster printable. Redact it before it is cut."""
    plain = redact("".join(letter if letter.isprintable() else "?" for letter in text))
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"
