# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Launching a run, wherever it runs: look, decide, let a change be confirmed, submit once.

A backend looks and acts (`kubernetes.py`, `host.py`); `decision.py` decides.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol
from uuid import uuid4

from seatrial.catalog.catalog import Catalog
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError, SeatrialError, UsageError
from seatrial.findings import Finding, Severity
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import own_digest
from seatrial.rendering.names import spec_digest
from seatrial.rendering.rules import Place, unnamed_place
from seatrial.runs.launch.decision import FoundAttempts, LaunchDecision, LaunchStep, decide
from seatrial.runs.launch.differences import FieldDifference
from seatrial.runs.ledger.ledger import AttemptRecord, AttemptTakenError, End, utc

Confirm = Callable[[list[FieldDifference]], bool]
"""Asked whether a changed spec shall take the place of the one before."""
TRIES = 5
"""How often somebody else may be in the way."""


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


@dataclass(frozen=True, slots=True)
class Submitted:
    """What a backend made of an attempt."""

    kind: str
    """The kind of job."""
    objects: int
    """Objects that were applied."""
    findings: tuple[Finding, ...] = ()
    """Warnings of the rendering."""


class LaunchBackend[Found: FoundAttempts](Protocol):
    """Where a run is launched: a namespace of a cluster, or this host."""

    @property
    def namespace(self) -> str:
        """The namespace of the cluster; empty on this host."""

    @property
    def now(self) -> datetime:
        """The time of day."""

    def refuse_unfit(self, wanted: Wanted) -> None:
        """Raise with every reason why the run cannot be launched, before anything is touched."""

    def hold(self, wanted: Wanted) -> AbstractContextManager[None]:
        """Keep other launches of the run away, as far as that is possible."""

    def find(self, wanted: Wanted) -> Found:
        """Look at what there is of the run."""

    def spec_changes(self, plan: Plan) -> list[FieldDifference]:
        """What differs between the spec that was launched and this one, field by field."""

    def end_previous(self, found: Found, end: End | None) -> None:
        """End what is left of the attempt before, and note its end unless that is None."""

    def submit(self, wanted: Wanted, record: AttemptRecord, *, is_begun: bool) -> Submitted | None:
        """Write an attempt down unless it is begun, and start it; None if another was faster.

        Raises AttemptTakenError if another launch wrote one of this number down before.
        """

    def outrun(self, run: str) -> SeatrialError:
        """The error for a run that others launched at the same time, again and again."""


def launch[Found: FoundAttempts](
    backend: LaunchBackend[Found], wanted: Wanted, confirm: Confirm
) -> Launched:
    """Make sure that the run is there once, as its spec says.

    Raises FindingsError when it cannot be launched, and when the spec has changed and `confirm`
    says no; ClusterError when the cluster refuses.
    """
    backend.refuse_unfit(wanted)
    with backend.hold(wanted):
        return _launch_held(backend, wanted, confirm)


def _launch_held[Found: FoundAttempts](
    backend: LaunchBackend[Found], wanted: Wanted, confirm: Confirm
) -> Launched:
    run = wanted.plan.spec.name
    agreed: list[FieldDifference] | None = None
    for _ in range(TRIES):
        found = backend.find(wanted)
        decision = decide(found, backend.now)
        damage, where = found.ledger.damage, backend.namespace
        if decision.step is LaunchStep.NOTHING:
            why, kind = decision.why, found.kind
            return Launched(
                run, decision.number, False, why, kind, 0, findings=damage, namespace=where
            )
        decision = _readmit(decision, wanted.readmitted)
        if decision.asks:
            changes = backend.spec_changes(wanted.plan)
            # Another launch may have submitted another spec since the last question.
            if changes != agreed and not confirm(changes):
                raise FindingsError([_changed(wanted, changes, found.phrases.changed_fix)])
            agreed = changes
        backend.end_previous(found, decision.ended)
        record = _record(found, wanted.plan, decision, backend.now)
        with suppress(AttemptTakenError):
            made = backend.submit(wanted, record, is_begun=decision.is_begun)
            if made is not None:
                return Launched(
                    run,
                    record.number,
                    True,
                    decision.why,
                    made.kind,
                    made.objects,
                    record.excluded_nodes,
                    (*made.findings, *damage),
                    where,
                )
    raise backend.outrun(run)


def _readmit(decision: LaunchDecision, nodes: tuple[str, ...]) -> LaunchDecision:
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


def _record(
    found: FoundAttempts, plan: Plan, decision: LaunchDecision, now: datetime
) -> AttemptRecord:
    """The record of the attempt to be submitted; of one that is begun, the one that is there."""
    there = found.ledger.attempt(decision.number) if decision.is_begun else None
    if there is not None:
        return replace(there, excluded_nodes=decision.excluded_nodes)
    return AttemptRecord(
        decision.number,
        uuid4().hex,
        utc(now),
        str(plan.machines.operator),
        spec_digest(plan.spec),
        plan.digest,
        own_digest(),
        decision.excluded_nodes,
    )


def _changed(wanted: Wanted, changes: list[FieldDifference], fix: str) -> Finding:
    listed = "; ".join(map(str, changes[:20])) or "no field that the launched spec shows"
    return Finding(
        RunCode.CHANGED,
        Severity.ERROR,
        wanted.place("name"),
        f"{wanted.plan.spec.name} was launched with another spec: {listed}.",
        wanted.plan.spec.name,
        fix,
    )
