# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Launching: bring a cluster from what there is to one job of the run, once.

The order makes it safe to die anywhere: an attempt is written into the ledger, then what the job
needs is applied, then the job is created under the run's name, which the API server gives once.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import uuid4

from seatrial.catalog.catalog import Catalog
from seatrial.cluster import objects
from seatrial.cluster.errors import ConflictError, DeniedError
from seatrial.cluster.kinds import CONFIG_MAP, POD, kind_of
from seatrial.codes.cluster import ClusterCode
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import Finding, Severity
from seatrial.naming import older_part_name, part_name
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt, own_digest
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.names import spec_digest
from seatrial.rendering.render import Part, Rendering, render
from seatrial.rendering.rules import Place, unnamed_place
from seatrial.rendering.spec_config import FILE, spec_text
from seatrial.rendering.spec_config import PART as SPEC_PART
from seatrial.runs.launch.decision import LaunchDecision, LaunchStep, begun, decide, utc
from seatrial.runs.launch.differences import FieldDifference, differences
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptTakenError, End
from seatrial.runs.namespace import Site
from seatrial.runs.objects import create_or_apply, delete_older_names, is_own, taken_names
from seatrial.runs.ownership import not_ours
from seatrial.runs.status.observe import Observed, find_job, observe
from seatrial.runs.stop import end_job, wait_for_earlier_pods
from seatrial.storage.state_files import DamagedError, parse_json

Confirm = Callable[[list[FieldDifference]], bool]
"""Asked whether a changed spec shall take the place of the one before."""
UNSEEN = "must be created before"
"""What Trainer's webhook says of a runtime that it does not see."""
SEEN_SECONDS = 10.0
"""How long something that was applied may be unseen."""
SEEN_PAUSE = 0.5
"""Seconds between two tries."""
_TRIES = 5
"""How often somebody else may be in the way."""
_REFUSALS = (
    ClusterCode.DENIED,
    ClusterCode.INVALID,
    ClusterCode.NOT_FOUND,
    ClusterCode.NOT_SERVED,
    ClusterCode.CONFLICT,
    RunCode.NOT_OURS,
)
"""Errors after which it is certain that there is no job."""


@dataclass(frozen=True, slots=True)
class Launched:
    """What a launch has done."""

    run: str
    """The run's name."""
    attempt: int
    """The attempt that is there now."""
    is_new: bool
    """Whether this launch has begun it."""
    why: str
    """Why it was, or was not."""
    kind: str
    """The kind of job."""
    objects: int
    """Objects that were applied; 0 when nothing was done."""
    excluded_nodes: tuple[str, ...] = ()
    """Nodes that the attempt stays away from."""
    findings: tuple[Finding, ...] = ()
    """Warnings of the rendering."""
    namespace: str = ""
    """The namespace of the cluster where it is; empty on this host."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be launched."""

    plan: Plan
    catalog: Catalog
    place: Place = unnamed_place
    """Where fields of the spec stand."""
    readmitted: tuple[str, ...] = ()
    """Nodes that an earlier attempt left out and that are mended: the next one may use them."""

    def rendered(self, number: int, excluded: tuple[str, ...], submission: str = "") -> Rendering:
        """The manifests of an attempt."""
        attempt = Attempt(number, excluded, own_digest(), submission)
        return render(self.plan, self.catalog, Part.RUN, attempt, self.place)


def launch(site: Site, wanted: Wanted, confirm: Confirm) -> Launched:
    """Make sure that the run is there once, as its spec says.

    Raises FindingsError when the spec has changed and `confirm` says no, and ClusterError when
    the cluster refuses.
    """
    run = wanted.plan.spec.name
    # What cannot be rendered is refused before anything is touched.
    first = wanted.rendered(1, ())
    refuse_denied(site, first)
    taken = taken_names(site, wanted.plan, first.manifests)
    if taken:
        raise FindingsError(taken)
    agreed = False
    for _ in range(_TRIES):
        observed = observe(site.api, site.namespace, run)
        decision = decide(observed, spec_digest(wanted.plan.spec), site.now)
        if decision.step is LaunchStep.NOTHING:
            kind = observed.job.kind.name if observed.job else ""
            why, where = decision.why, site.namespace
            damage = observed.ledger.damage
            return Launched(
                run, decision.number, False, why, kind, 0, findings=damage, namespace=where
            )
        decision = _readmitting(decision, wanted.readmitted)
        if decision.asks and not agreed:
            changes = spec_changes(site, wanted.plan)
            if not confirm(changes):
                raise FindingsError([_changed(wanted, changes)])
            agreed = True
        if decision.ended is not None:
            _end_before(site, observed, decision.ended)
        if observed.job is None:
            wait_for_earlier_pods(site, run, observed.ledger)
        done = _submit(site, wanted, decision)
        if done is not None:
            return replace(done, findings=(*done.findings, *observed.ledger.damage))
    raise ConflictError(
        ClusterCode.CONFLICT,
        f"{site.namespace}/{run}",
        f"others launched this run at the same time, {_TRIES} times in a row.",
        "See seatrial status, and launch again.",
    )


def _readmitting(decision: LaunchDecision, nodes: tuple[str, ...]) -> LaunchDecision:
    """The decision without nodes that are mended; the attempts after it leave them in too."""
    unknown = [name for name in nodes if name not in decision.excluded_nodes]
    if unknown:
        left_out = ", ".join(decision.excluded_nodes) or "no node"
        raise UsageError(
            f"{', '.join(unknown)} is not left out of attempt {decision.number}, so it cannot be "
            f"readmitted. Left out: {left_out}."
        )
    left = tuple(name for name in decision.excluded_nodes if name not in nodes)
    return replace(decision, excluded_nodes=left)


def _end_before(site: Site, observed: Observed, end: End) -> None:
    """End the previous attempt: its job, if there is one, and its record."""
    if observed.job is not None:
        end_job(site, observed.job, end)
    elif observed.ledger.newest is not None:
        site.ledgers.end(observed.run, observed.ledger.newest.number, end)


def _submit(site: Site, wanted: Wanted, decision: LaunchDecision) -> Launched | None:
    """Begin an attempt; nothing when somebody else was faster, so that all is to be looked at."""
    plan, run = wanted.plan, wanted.plan.spec.name
    submission = uuid4().hex
    if decision.is_begun:
        there = site.ledgers.read(run).attempt(decision.number)
        submission = there.submission if there else submission
    made = wanted.rendered(decision.number, decision.excluded_nodes, submission)
    digests = (spec_digest(plan.spec), plan.digest, own_digest())
    if not decision.is_begun:
        operator = str(plan.machines.operator)
        record = begun(decision, submission, operator, digests, site.now)
        try:
            site.ledgers.add(run, record)
        except AttemptTakenError:
            return None
    try:
        is_ours = _make(site, made, decision.number, run)
    except FindingsError as error:
        # After an answer that was lost, the job may be there: then the attempt goes on.
        if error.findings[0].code in _REFUSALS:
            reason = f"not submitted: {error.findings[0].rule}"
            site.ledgers.end(
                run, decision.number, End(utc(site.now), AttemptOutcome.FAILED, reason)
            )
        raise
    if not is_ours:
        return None
    return Launched(
        run,
        decision.number,
        True,
        decision.why,
        str(made.manifests[-1]["kind"]),
        len(made.manifests),
        decision.excluded_nodes,
        made.findings,
        site.namespace,
    )


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


def spec_changes(site: Site, plan: Plan) -> list[FieldDifference]:
    """What differs between the spec in the cluster and this one, field by field."""
    run, there = plan.spec.name, None
    for name in (part_name(run, SPEC_PART), older_part_name(run, SPEC_PART)):
        found = objects.read(site.api, CONFIG_MAP, site.namespace, name)
        there = there or (found if found is not None and is_own(site, run, found) else None)
    text = ((there or {}).get("data") or {}).get(FILE) or "{}"
    try:
        before = parse_json(text)
    except DamagedError:
        before = {}
    return differences(before, json.loads(spec_text(plan.spec)))


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


def _changed(wanted: Wanted, changes: list[FieldDifference]) -> Finding:
    listed = "; ".join(map(str, changes[:20])) or "nothing that the spec in the cluster shows"
    return Finding(
        RunCode.CHANGED,
        Severity.ERROR,
        wanted.place("name"),
        f"{wanted.plan.spec.name} was launched with another spec: {listed}.",
        wanted.plan.spec.name,
        "Let the new one take its place by --yes (it goes on from the last checkpoint), or give "
        "the run another name.",
    )
