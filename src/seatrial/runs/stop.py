# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Stopping a run, deleting one, and listing all."""

from dataclasses import dataclass

from seatrial.cluster import objects
from seatrial.cluster.errors import DeniedError, NotServedError
from seatrial.cluster.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    NETWORK_POLICY,
    POD,
    POD_MONITOR,
    RAY_JOB,
    SERVICE,
    SERVICE_ACCOUNT,
    TRAINING_RUNTIME,
    VOLUME_CLAIM,
    Kind,
)
from seatrial.errors import FindingsError
from seatrial.rendering.names import RUN_LABEL
from seatrial.runs.decision import end_of_attempt, refuse_foreign, utc
from seatrial.runs.ending import end_job
from seatrial.runs.faulty_nodes import faulty_nodes
from seatrial.runs.ledger import End, Outcome
from seatrial.runs.observe import Observed, observe
from seatrial.runs.site import Site
from seatrial.runs.status import no_run

KINDS = (
    *(RAY_JOB, JOB, TRAINING_RUNTIME, DEPLOYMENT, SERVICE, NETWORK_POLICY, POD_MONITOR),
    *(SERVICE_ACCOUNT, POD, CONFIG_MAP),
)
"""What a run is made of besides its job and its volume, in the order in which it is deleted.

The ledger is a config map, so that it goes last: until then a run that was half deleted is found.
"""


@dataclass(frozen=True, slots=True)
class Stopped:
    """What stopping a run has done."""

    attempt: int
    """The attempt that was stopped, or the newest."""
    was_running: bool
    """Whether there was something to stop."""
    outcome: Outcome | None
    """How the attempt had ended before, if it had."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What deleting a run removes, and what it keeps."""

    removed: tuple[str, ...]
    """Objects that are deleted, as `Kind name`."""
    kept: tuple[str, ...]
    """Volumes that stay."""
    unseen: tuple[str, ...] = ()
    """Kinds that the account may not look at, so that something may be left."""


def stop(site: Site, run: str) -> Stopped:
    """End the processes of a run: they save first. Volumes and the ledger stay."""
    observed = _existing(site, run)
    newest = observed.ledger.newest
    if observed.job is None:
        number = newest.number if newest else 0
        return Stopped(number, False, newest.outcome if newest else None)
    over = end_of_attempt(observed, site.now)
    faulty = faulty_nodes(observed.pods)
    end = over or End(utc(site.now), Outcome.STOPPED, "", faulty)
    if over is None:
        end_job(site, observed.job, observed.pods)
    site.ledgers.end(run, observed.job.attempt, end)
    return Stopped(observed.job.attempt, over is None, over.outcome if over else None)


def removal(site: Site, run: str, *, volumes: bool) -> Removal:
    """What deleting a run would remove."""
    observed = _existing(site, run)
    found, unseen = [], []
    if observed.job is not None:
        found.append(f"{observed.job.kind.name} {run}")
    for kind in KINDS:
        names = _names(site, kind, run)
        if names is None:
            unseen.append(kind.name)
        else:
            found += [f"{kind.name} {name}" for name in names]
    claims = [f"{VOLUME_CLAIM.name} {name}" for name in _names(site, VOLUME_CLAIM, run) or ()]
    removed = (*found, *claims) if volumes else tuple(found)
    return Removal(removed, () if volumes else tuple(claims), tuple(unseen))


def delete(site: Site, run: str, *, volumes: bool) -> Removal:
    """Delete a run: its job first, then all that bears its label; volumes only when told."""
    planned = removal(site, run, volumes=volumes)
    # Looked at again, for the job may be another by now.
    observed = observe(site.api, site.namespace, run)
    refuse_foreign(observed)
    if observed.job is not None:
        end_job(site, observed.job, observed.pods)
    for kind in (*KINDS, *((VOLUME_CLAIM,) if volumes else ())):
        for name in _names(site, kind, run) or ():
            objects.delete(site.api, kind, site.namespace, name)
    return planned


def _names(site: Site, kind: Kind, run: str) -> list[str] | None:
    """The objects of a kind that bear the run's label; nothing when they may not be seen."""
    try:
        found, _ = objects.list_all(site.api, kind, site.namespace, f"{RUN_LABEL}={run}")
    except NotServedError:
        return []
    except DeniedError:
        return None
    return [str(each["metadata"]["name"]) for each in found]


def _existing(site: Site, run: str) -> Observed:
    observed = observe(site.api, site.namespace, run)
    if not observed.exists:
        raise FindingsError([no_run(site.namespace, run)])
    refuse_foreign(observed)
    return observed
