# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Create, change and delete the objects of a run, and no others.

Every change names the version of the object that was read before. If somebody replaces the object
in between, the API server rejects the change.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

from seatrial.cluster import objects
from seatrial.cluster.discovery import JOB_KINDS
from seatrial.cluster.errors import ConflictError, DeniedError, NotServedError
from seatrial.cluster.kinds import (
    CONFIG_MAP,
    JOB,
    JOB_SET,
    POD,
    POD_GROUP,
    SERVICE,
    VOLCANO_POD_GROUP,
    VOLUME_CLAIM,
    ObjectKind,
    kind_of,
)
from seatrial.cluster.transport import Json
from seatrial.errors import FindingsError
from seatrial.findings import Finding
from seatrial.naming import PART_SEPARATOR, older_part_name, part_name
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import GangScheduler
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.train_job import JOB as NODE_JOB
from seatrial.rendering.train_job import NODES
from seatrial.runs.ledger.kubernetes import ledger_name
from seatrial.runs.namespace import Site
from seatrial.runs.ownership import belongs_to, has_labels_of, not_ours
from seatrial.runs.status.observe import find_job
from seatrial.spec.cluster import Gang, Operator

TRIES = 5
"""How often an apply is retried after concurrent writes by others."""
PAUSE_SECONDS = 0.2
POD_GROUP_KINDS = {Gang.COSCHEDULING: POD_GROUP, Gang.VOLCANO: VOLCANO_POD_GROUP}
"""The object with which each gang scheduler starts pods together."""
_JOBS = {JOB_SET.name, *(kind.name for kind in JOB_KINDS.values())}
"""The kinds that own what an operator creates for a run."""


def is_own(site: Site, run: str, item: Json) -> bool:
    """True if an object in the cluster belongs to the run."""
    # Read the ledger only if the API server has no record of the creator.
    return belongs_to(item, run) or (
        has_labels_of(item, run) and belongs_to(item, run, site.ledgers.objects_of(run))
    )


def foreign_objects(site: Site, run: str, named: Iterable[tuple[ObjectKind, str]]) -> list[Finding]:
    """Return a finding for each of these names that belongs to another owner."""
    return _foreign(site, run, named, lambda item: is_own(site, run, item))


def taken_names(
    site: Site, plan: Plan, manifests: Iterable[Manifest], gang: GangScheduler
) -> list[Finding]:
    """Return a finding for each object of another owner that blocks a launch.

    Checks the objects that a launch writes, jobs with the run's name, and the objects that the
    operator creates or overwrites for the job. If one is created after this check, the write itself
    fails.
    """
    run = plan.spec.name
    *needed, _ = manifests
    found = foreign_objects(site, run, [(CONFIG_MAP, ledger_name(run)), *names_of(needed)])
    job = find_job(site.api, site.namespace, run)
    if job is not None and not job.is_ours:
        found.append(not_ours(job.kind, site.namespace, job.object, run))
    made = _operator_objects(plan, gang)
    return found + _foreign(site, run, made, lambda item: _is_made_by_operator(item, run))


def _operator_objects(plan: Plan, gang: GangScheduler) -> list[tuple[ObjectKind, str]]:
    """Return the operator's objects for the job, whose names others may use.

    Trainer applies its JobSet and both operators update their PodGroup, whoever created it. The
    other names would block the first pod.
    """
    run = plan.spec.name
    made = [(kind, run) for name, kind in POD_GROUP_KINDS.items() if name.value == gang.value]
    if plan.machines.operator is Operator.TRAINJOB:
        made += [(JOB_SET, run), (JOB, f"{run}-{NODE_JOB}-0"), (SERVICE, part_name(run, NODES))]
    if plan.machines.operator is Operator.PYTORCHJOB:
        made += [(kind, f"{run}-master-0") for kind in (POD, SERVICE)]
    return made


def _is_made_by_operator(item: Json, run: str) -> bool:
    """True if an operator created the object for a job of the run."""
    owners = item["metadata"].get("ownerReferences") or ()
    return any(each.get("kind") in _JOBS and each.get("name") == run for each in owners)


def _foreign(
    site: Site, run: str, named: Iterable[tuple[ObjectKind, str]], is_known: Callable[[Json], bool]
) -> list[Finding]:
    found = []
    for kind, name in named:
        try:
            there = objects.read(site.api, kind, site.namespace, name)
        except (DeniedError, NotServedError):
            # The API server reports this when the object is changed.
            continue
        if there is not None and not is_known(there):
            found.append(not_ours(kind, site.namespace, there, run))
    return found


def names_of(manifests: Iterable[Manifest]) -> list[tuple[ObjectKind, str]]:
    return [(kind_of(each), str(each["metadata"]["name"])) for each in manifests]


def create_or_apply(site: Site, run: str, manifest: Manifest) -> Json:
    """Create or update an object of a run, and return it. Raises if it belongs to another owner."""
    for left in range(TRIES - 1, -1, -1):
        there = own_object(site, run, manifest)
        try:
            if there is None:
                return objects.create(site.api, manifest)
            return objects.apply_over(site.api, with_its_volume(manifest, there), there)
        except ConflictError:
            # Somebody wrote, created or deleted it after the read.
            if not left:
                raise
            site.sleep(PAUSE_SECONDS * (TRIES - left))
    raise AssertionError("the loop ends by itself")


def create_once(site: Site, run: str, manifest: Manifest) -> Json:
    """Create an object of a run. Return the existing one if an earlier response was lost."""
    try:
        return objects.create(site.api, manifest)
    except ConflictError:
        there = own_object(site, run, manifest)
        if there is None:
            raise
        return there


def delete_own(site: Site, run: str, kind: ObjectKind, name: str) -> bool:
    """Delete an object if it belongs to the run. Return True if it did."""
    there = objects.read(site.api, kind, site.namespace, name)
    if there is None or not is_own(site, run, there):
        return False
    return objects.delete(site.api, kind, site.namespace, name, uid=there["metadata"]["uid"])


def delete_older_names(site: Site, run: str, manifests: Iterable[Manifest]) -> None:
    """Delete objects that an earlier version of Seatrial created under other names."""
    for kind, name in names_of(manifests):
        _, separator, part = name.rpartition(PART_SEPARATOR)
        with suppress(DeniedError):
            if separator:
                delete_own(site, run, kind, older_part_name(run, part))


def own_object(site: Site, run: str, manifest: Manifest) -> Json | None:
    """Return the object with the manifest's name, or None. Raises if it has another owner."""
    kind, name = kind_of(manifest), str(manifest["metadata"]["name"])
    there = objects.read(site.api, kind, site.namespace, name)
    if there is not None and not is_own(site, run, there):
        raise FindingsError([not_ours(kind, site.namespace, there, run)])
    return there


def with_its_volume(manifest: Manifest, there: Json) -> Manifest:
    """Set the volume of an existing claim, because a claim cannot change its volume."""
    volume = (there.get("spec") or {}).get("volumeName")
    if manifest["kind"] != VOLUME_CLAIM.name or "volumeName" not in manifest["spec"] or not volume:
        return manifest
    return manifest | {"spec": manifest["spec"] | {"volumeName": volume}}
