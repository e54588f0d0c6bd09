# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Launching into a cluster: bring it from what there is to one job of the run, once.

The order makes it safe to die anywhere: an attempt is written into the ledger, then what the job
needs is applied, then the job is created under the run's name, which the API server gives once.
"""

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime

from seatrial.cluster import objects
from seatrial.cluster.errors import ClusterError, ConflictError, DeniedError
from seatrial.cluster.kinds import CONFIG_MAP, POD, kind_of
from seatrial.codes.cluster import ClusterCode
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError
from seatrial.naming import older_part_name, part_name
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt, own_digest
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
from seatrial.runs.objects import create_or_apply, delete_older_names, is_own, taken_names
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

UNSEEN = "must be created before"
"""What Trainer's webhook says of a runtime that it does not see."""
SEEN_SECONDS = 10.0
"""How long something that was applied may be unseen."""
SEEN_PAUSE = 0.5
"""Seconds between two tries."""
_REFUSALS = (
    ClusterCode.DENIED,
    ClusterCode.INVALID,
    ClusterCode.NOT_FOUND,
    ClusterCode.NOT_SERVED,
    ClusterCode.CONFLICT,
    RunCode.NOT_OURS,
)
"""Errors after which it is certain that there is no job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAttempts(FoundAttempts):
    """The attempts of a run in a cluster."""

    observed: Observed


@dataclass(frozen=True, slots=True)
class ClusterBackend:
    """Launches into a namespace of a cluster."""

    site: Site

    @property
    def namespace(self) -> str:
        return self.site.namespace

    @property
    def now(self) -> datetime:
        return self.site.now

    def refuse_unfit(self, wanted: Wanted) -> None:
        """Refuse what cannot be rendered, what the account may not, and names that are taken."""
        first = _rendered(wanted, Attempt(code_digest=own_digest()))
        refuse_denied(self.site, first)
        taken = taken_names(self.site, wanted.plan, first.manifests)
        if taken:
            raise FindingsError(taken)

    def hold(self, wanted: Wanted) -> AbstractContextManager[None]:
        """Nobody is kept away: the ledger and the name of the job are given once."""
        return nullcontext()

    def find(self, wanted: Wanted) -> ObservedAttempts:
        """Look at the job, its pods and the ledger; raises for a job that is not ours."""
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
        """What differs between the spec in the cluster and this one, field by field."""
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
        """Delete the job of the attempt before, and wait until no pod of it can save any more."""
        site, observed = self.site, found.observed
        if end is not None and observed.job is not None:
            end_job(site, observed.job, end)
        elif end is not None and observed.ledger.newest is not None:
            site.ledgers.end(observed.run, observed.ledger.newest.number, end)
        if observed.job is None:
            wait_for_earlier_pods(site, observed.run, observed.ledger)

    def submit(self, wanted: Wanted, record: AttemptRecord, *, is_begun: bool) -> Submitted | None:
        """Write the attempt into the ledger, and make its objects, the job last."""
        site, run, number = self.site, wanted.plan.spec.name, record.number
        attempt = Attempt(number, record.excluded_nodes, own_digest(), record.submission)
        made = _rendered(wanted, attempt)
        if not is_begun:
            site.ledgers.add(run, record)
        try:
            is_ours = _make(site, made, number, run)
        except FindingsError as error:
            # After an answer that was lost, the job may be there: then the attempt goes on.
            if error.findings[0].code in _REFUSALS:
                reason = f"not submitted: {error.findings[0].rule}"
                site.ledgers.end(run, number, End(utc(site.now), AttemptOutcome.FAILED, reason))
            raise
        if not is_ours:
            return None
        kind, count = str(made.manifests[-1]["kind"]), len(made.manifests)
        return Submitted(kind, count, tuple(made.findings))

    def outrun(self, run: str) -> ClusterError:
        """The conflict that is told when all tries are used up."""
        return ConflictError(
            ClusterCode.CONFLICT,
            f"{self.namespace}/{run}",
            f"others launched this run at the same time, {TRIES} times in a row.",
            "See seatrial status, and launch again.",
        )


def _rendered(wanted: Wanted, attempt: Attempt) -> Rendering:
    return render(wanted.plan, wanted.catalog, Part.RUN, attempt, wanted.place)


def _make(site: Site, rendering: Rendering, number: int, run: str) -> bool:
    """Make what the job needs, then the job; True if the job that is there is of this attempt."""
    *needed, job = rendering.manifests
    made = [create_or_apply(site, run, manifest) for manifest in needed]
    site.ledgers.note_objects(run, made)
    delete_older_names(site, run, needed)
    return _create(site, job, number)


def _create(site: Site, job: Manifest, number: int) -> bool:
    """Create the job; whether the one that is there is of this attempt."""
    try:
        _create_once_seen(site, job)
    except ConflictError:
        # It exists: made by the try before, whose answer was lost, or by somebody else.
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
    """Create the job, once its operator has seen what it needs."""
    until = site.clock() + SEEN_SECONDS
    while True:
        try:
            objects.create(site.api, job)
        except DeniedError as error:
            # Trainer's webhook asks a cache, which may lack what was applied a moment ago.
            if UNSEEN not in error.findings[0].value or site.clock() >= until:
                raise
            site.sleep(SEEN_PAUSE)
        else:
            return


def refuse_denied(site: Site, rendering: Rendering) -> None:
    """Refuse with everything that the account lacks, before anything is touched."""
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
            f"launching takes rights that the account lacks there: {', '.join(denied)}.",
            "Let an administrator bind the role seatrial-launcher: charts/seatrial, or "
            "seatrial render --part admin.",
            ", ".join(denied),
        )
