# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Launch a run on any backend: observe, decide, confirm changes, submit once.

The backends (`kubernetes.py`, `host.py`) observe and act, and `decision.py` decides.
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
"""Returns True to replace the launched spec with a changed one."""
TRIES = 5
"""The number of tries when other launches interfere."""


@dataclass(frozen=True, slots=True)
class Launched:
    """The result of a launch."""

    run: str
    """The run's name."""
    attempt: int
    """The current attempt."""
    is_new: bool
    """True if this launch started it."""
    why: str
    """The reason for starting it, or for not starting it."""
    kind: str
    """The kind of its job, such as `PyTorchJob`."""
    objects: int
    """The number of applied objects. 0 if the launch had no effect."""
    excluded_nodes: tuple[str, ...] = ()
    """Nodes that the attempt avoids."""
    findings: tuple[Finding, ...] = ()
    """Warnings of the renderer."""
    namespace: str = ""
    """The namespace in the cluster. Empty on this host."""
    gang: str = ""
    """The gang scheduler that the launch selected for `gang: auto`. Empty if it selected none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The run to launch."""

    plan: Plan
    catalog: Catalog
    place: Place = unnamed_place
    """Maps fields of the spec to their lines."""
    readmitted: tuple[str, ...] = ()
    """Repaired nodes that an earlier attempt excluded, and that the next one may use."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submitted attempt."""

    kind: str
    objects: int
    """The number of applied objects."""
    findings: tuple[Finding, ...] = ()
    """Warnings of the renderer."""
    gang: str = ""
    """The gang scheduler that was selected for `gang: auto`. Empty if none was."""


class LaunchBackend[Found: FoundAttempts](Protocol):
    """Where a run is launched: a namespace in a cluster, or this host."""

    @property
    def namespace(self) -> str:
        """The namespace in the cluster. Empty on this host."""

    @property
    def now(self) -> datetime:
        """The current time."""

    def refuse_unfit(self, wanted: Wanted) -> None:
        """Raise with every reason why the run cannot be launched, before anything is changed."""

    def hold(self, wanted: Wanted) -> AbstractContextManager[None]:
        """Lock out other launches of the run, if possible."""

    def find(self, wanted: Wanted) -> Found:
        """Read the current state of the run."""

    def spec_changes(self, plan: Plan) -> list[FieldDifference]:
        """Compare the launched spec with this one, field by field."""

    def end_previous(self, found: Found, end: End | None) -> None:
        """Stop the previous attempt. Record its end unless `end` is None."""

    def submit(self, wanted: Wanted, record: AttemptRecord, *, is_begun: bool) -> Submitted | None:
        """Record an attempt if it is not recorded, and start it. None if another launch was faster.

        Raises AttemptTakenError if another launch has recorded an attempt with this number.
        """

    def outrun(self, run: str) -> SeatrialError:
        """Return the error for a run that others keep launching at the same time."""


def launch[Found: FoundAttempts](
    backend: LaunchBackend[Found], wanted: Wanted, confirm: Confirm
) -> Launched:
    """Ensure that the run exists once, as specified.

    Raises FindingsError if it cannot be launched, or if the spec changed and `confirm` returns
    False. Raises ClusterError if the cluster rejects it.
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
            # Another launch may have submitted a different spec since the confirmation.
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
                    made.gang,
                )
    raise backend.outrun(run)


def _readmit(decision: LaunchDecision, nodes: tuple[str, ...]) -> LaunchDecision:
    """Readmit repaired nodes. Later attempts use them too."""
    unknown = [name for name in nodes if name not in decision.excluded_nodes]
    if unknown:
        left_out = ", ".join(decision.excluded_nodes) or "none"
        raise UsageError(
            f"attempt {decision.number} does not exclude {', '.join(unknown)}, so --readmit does "
            f"not apply. Excluded nodes: {left_out}."
        )
    left = tuple(name for name in decision.excluded_nodes if name not in nodes)
    return replace(decision, excluded_nodes=left)


def _record(
    found: FoundAttempts, plan: Plan, decision: LaunchDecision, now: datetime
) -> AttemptRecord:
    """Return the record of the attempt: the existing one if it is already recorded."""
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
    listed = "; ".join(map(str, changes[:20])) or "no field of the stored spec differs"
    return Finding(
        RunCode.CHANGED,
        Severity.ERROR,
        wanted.place("name"),
        f"{wanted.plan.spec.name} was launched with a different spec: {listed}.",
        wanted.plan.spec.name,
        fix,
    )
