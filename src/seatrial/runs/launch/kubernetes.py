# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Launch in a cluster: create exactly one job of the run.

The order makes an interruption safe at any point: record the attempt in the ledger, apply the
objects that the job needs, then create the job under the run's name, which the API server allows
only once.
"""

import json
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime

from seatrial.cluster import objects
from seatrial.cluster.discovery import serves
from seatrial.cluster.errors import ClusterError, ConflictError, DeniedError
from seatrial.cluster.kinds import CONFIG_MAP, LOCAL_QUEUE, POD, kind_of
from seatrial.cluster.transport import Json
from seatrial.codes.cluster import ClusterCode
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError
from seatrial.naming import older_part_name, part_name
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt, GangChoice, own_digest
from seatrial.rendering.gang import LOCAL_QUEUES, POD_GROUPS, choose_gang, is_open
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.names import spec_digest
from seatrial.rendering.render import Part, Rendering, render
from seatrial.rendering.spec_config import FILE, spec_text
from seatrial.rendering.spec_config import PART as SPEC_PART
from seatrial.runs.launch.decision import ON_CLUSTER, ActiveAttempt, FoundAttempts
from seatrial.runs.launch.differences import FieldDifference, differences
from seatrial.runs.launch.launcher import TRIES, Submitted, Wanted
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord, End, utc
from seatrial.runs.namespace import Site
from seatrial.runs.objects import (
    POD_GROUP_KINDS,
    create_or_apply,
    delete_older_names,
    is_own,
    taken_names,
)
from seatrial.runs.ownership import not_ours
from seatrial.runs.status.attempt_state import (
    end_of_attempt,
    faulty_nodes,
    is_being_submitted,
    state_of,
)
from seatrial.runs.status.observe import Observed, find_job, observe, refuse_foreign
from seatrial.runs.stop import end_job, wait_for_earlier_pods
from seatrial.storage.state_files import DamagedError, parse_json

LOCAL_QUEUE_VERSIONS = ("v1beta2", "v1beta1")
"""Versions of Kueue's API. Since 0.15 it serves v1beta2, and will drop v1beta1."""
UNSEEN = "must be created before"
"""Part of the error from Trainer's webhook for a runtime that it cannot see yet."""
SEEN_SECONDS = 10.0
"""How long an applied object may be invisible."""
SEEN_PAUSE = 0.5
"""The pause between two tries."""
_REFUSALS = (
    ClusterCode.DENIED,
    ClusterCode.INVALID,
    ClusterCode.NOT_FOUND,
    ClusterCode.NOT_SERVED,
    ClusterCode.CONFLICT,
    RunCode.NOT_OURS,
)
"""Errors after which certainly no job exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAttempts(FoundAttempts):
    """The attempts of a run in a cluster."""

    observed: Observed


@dataclass(frozen=True, slots=True)
class ClusterBackend:
    """Launches in a namespace of a cluster."""

    site: Site

    @property
    def namespace(self) -> str:
        return self.site.namespace

    @property
    def now(self) -> datetime:
        return self.site.now

    def refuse_unfit(self, wanted: Wanted) -> None:
        """Reject plans that cannot be rendered, missing permissions, and names that are taken."""
        gang = gang_in(self.site, wanted.plan)
        first = _rendered(wanted, Attempt(code_digest=own_digest(), gang=gang))
        refuse_denied(self.site, first)
        taken = taken_names(self.site, wanted.plan, first.manifests, gang.scheduler)
        if taken:
            raise FindingsError(taken)

    def hold(self, wanted: Wanted) -> AbstractContextManager[None]:
        """Take no lock: the API server ensures that ledger entries and job names are unique."""
        return nullcontext()

    def find(self, wanted: Wanted) -> ObservedAttempts:
        """Read the job, its pods and the ledger. Raises for a job that belongs to another owner."""
        site, digest = self.site, spec_digest(wanted.plan.spec)
        observed = observe(site.api, site.namespace, wanted.plan.spec.name)
        refuse_foreign(observed)
        job, state, newest = observed.job, state_of(observed), observed.ledger.newest
        if job is None or state is None:
            return ObservedAttempts(
                ledger=observed.ledger,
                is_changed=newest is not None and newest.spec_digest != digest,
                phrases=ON_CLUSTER,
                is_being_submitted=newest is not None and is_being_submitted(newest, site.now),
                observed=observed,
            )
        end, faulty = end_of_attempt(observed, site.now), faulty_nodes(observed.pods)
        return ObservedAttempts(
            ledger=observed.ledger,
            is_changed=job.spec_digest != digest,
            phrases=ON_CLUSTER,
            kind=job.kind.name,
            active=ActiveAttempt(job.attempt, state, end, faulty),
            observed=observed,
        )

    def spec_changes(self, plan: Plan) -> list[FieldDifference]:
        """Compare the spec in the cluster with this one, field by field."""
        site, run, there = self.site, plan.spec.name, None
        for name in (part_name(run, SPEC_PART), older_part_name(run, SPEC_PART)):
            found = objects.read(site.api, CONFIG_MAP, site.namespace, name)
            there = there or (found if found is not None and is_own(site, run, found) else None)
        text = ((there or {}).get("data") or {}).get(FILE) or "{}"
        try:
            before = parse_json(text)
        except DamagedError:
            before = {}
        return differences(before, json.loads(spec_text(plan.spec)))

    def end_previous(self, found: ObservedAttempts, end: End | None) -> None:
        """Delete the job of the previous attempt, and wait until none of its pods can save."""
        site, observed = self.site, found.observed
        if end is not None and observed.job is not None:
            end_job(site, observed.job, end)
        elif end is not None and observed.ledger.newest is not None:
            site.ledgers.end(observed.run, observed.ledger.newest.number, end)
        if observed.job is None:
            wait_for_earlier_pods(site, observed.run, observed.ledger)

    def submit(self, wanted: Wanted, record: AttemptRecord, *, is_begun: bool) -> Submitted | None:
        """Record the attempt in the ledger and create its objects, the job last."""
        site, run, number = self.site, wanted.plan.spec.name, record.number
        gang = record.gang_choice or gang_in(site, wanted.plan)
        record = replace(record, gang=str(gang.scheduler), queue=gang.queue)
        attempt = Attempt(number, record.excluded_nodes, own_digest(), record.submission, gang)
        made = _rendered(wanted, attempt)
        if not is_begun:
            site.ledgers.add(run, record)
        try:
            is_ours = _make(site, made, number, run)
        except FindingsError as error:
            # If a response was lost, the job may exist. The attempt then continues.
            if error.findings[0].code in _REFUSALS:
                reason = f"not submitted: {error.findings[0].rule}"
                site.ledgers.end(run, number, End(utc(site.now), AttemptOutcome.FAILED, reason))
            raise
        if not is_ours:
            return None
        kind, count = str(made.manifests[-1]["kind"]), len(made.manifests)
        selected = str(gang) if is_open(wanted.plan) else ""
        return Submitted(kind, count, tuple(made.findings), selected)

    def outrun(self, run: str) -> ClusterError:
        """Return the conflict after the last try."""
        return ConflictError(
            ClusterCode.CONFLICT,
            f"{self.namespace}/{run}",
            f"other launches of this run interfered {TRIES} times in a row.",
            "Check seatrial status, then launch again.",
        )


def gang_in(site: Site, plan: Plan) -> GangChoice:
    """Choose the gang scheduler for a plan by what the cluster serves."""
    if not is_open(plan):
        return choose_gang(plan, lambda _: False, ())
    queues = _local_queues(site)
    kinds = {POD_GROUPS[gang]: kind for gang, kind in POD_GROUP_KINDS.items()}
    return choose_gang(
        plan,
        lambda name: bool(queues) if name == LOCAL_QUEUES else serves(site.api, kinds[name]),
        queues,
    )


def _local_queues(site: Site) -> list[str]:
    """Return Kueue's active queues in the namespace; empty if there is no Kueue or no access."""
    for version in LOCAL_QUEUE_VERSIONS:
        kind = replace(LOCAL_QUEUE, version=version)
        if not serves(site.api, kind):
            continue
        with suppress(DeniedError):
            found, _ = objects.list_all(site.api, kind, site.namespace)
            active = [each for each in found if _is_active(each)]
            return sorted(str(each["metadata"]["name"]) for each in active)
        return []
    return []


def _is_active(queue: Json) -> bool:
    return (queue.get("spec") or {}).get("stopPolicy") in (None, "None")


def _rendered(wanted: Wanted, attempt: Attempt) -> Rendering:
    return render(wanted.plan, wanted.catalog, Part.RUN, attempt, wanted.place)


def _make(site: Site, rendering: Rendering, number: int, run: str) -> bool:
    """Create the objects and the job. True if the existing job belongs to this attempt."""
    *needed, job = rendering.manifests
    made = [create_or_apply(site, run, manifest) for manifest in needed]
    site.ledgers.note_objects(run, made)
    delete_older_names(site, run, needed)
    return _create(site, job, number)


def _create(site: Site, job: Manifest, number: int) -> bool:
    """Create the job. True if the existing job belongs to this attempt."""
    try:
        _create_once_seen(site, job)
    except ConflictError:
        # It exists: created by an earlier try whose response was lost, or by somebody else.
        there = find_job(site.api, site.namespace, job["metadata"]["name"])
        if there is None:
            return False
        if not there.is_ours:
            taken = not_ours(there.kind, site.namespace, there.object, there.name)
            raise FindingsError([taken]) from None
        wanted = job["metadata"]["annotations"]["seatrial.dev/spec-digest"]
        return there.attempt == number and there.spec_digest == wanted
    return True


def _create_once_seen(site: Site, job: Manifest) -> None:
    """Create the job once its operator can see the objects that it needs."""
    until = site.clock() + SEEN_SECONDS
    while True:
        try:
            objects.create(site.api, job)
        except DeniedError as error:
            # Trainer's webhook reads a cache, which may not have the newest objects yet.
            if UNSEEN not in error.findings[0].value or site.clock() >= until:
                raise
            site.sleep(SEEN_PAUSE)
        else:
            return


def refuse_denied(site: Site, rendering: Rendering) -> None:
    """Raise with every missing permission before anything is changed."""
    *needed, job = [kind_of(manifest) for manifest in rendering.manifests]
    wanted = {(verb, kind) for kind in needed for verb in ("get", "create", "patch")}
    wanted |= {(verb, job) for verb in ("get", "create", "delete")}
    wanted |= {(verb, CONFIG_MAP) for verb in ("create", "patch")} | {("list", POD)}
    denied = [
        f"{verb} {kind.plural}"
        for verb, kind in sorted(wanted, key=lambda pair: (pair[1].name, pair[0]))
        if not objects.may(site.api, verb, kind, site.namespace)
    ]
    if denied:
        raise DeniedError(
            ClusterCode.DENIED,
            f"namespace {site.namespace}",
            f"the account lacks permissions to launch: {', '.join(denied)}.",
            "Ask an administrator to bind the role seatrial-launcher (charts/seatrial, or "
            "seatrial render --part admin).",
            ", ".join(denied),
        )
