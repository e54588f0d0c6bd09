# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The plan that is stored next to a spec: every command uses it until the spec changes.

A launched run keeps its layout: new constants or a calibration change the estimates, not the
layout. Only `seatrial plan --again` searches again.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from seatrial.codes.planning import PlanCode
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.planning.calibration import FILE, Calibration, read_calibration
from seatrial.planning.choices import Choices
from seatrial.planning.plan import Plan
from seatrial.planning.plan_record import (
    Inputs,
    KeptPlan,
    inputs_of,
    layout_digest,
    read_record,
    record_text,
    spec_file_of,
)
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import Basis
from seatrial.planning.search.choose import constants_of
from seatrial.planning.search.problem import measured_on, problem_of
from seatrial.storage.state_files import DamagedError, read_state, write_state

Tell = Callable[[str], None]
"""Reports a message to the user."""
PLANNED_AGAIN = "Planned again: "
"""Start of the message that choices are no longer valid."""


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """The plan and the calibration that are stored next to a spec."""

    inputs: Inputs
    """The current inputs of a plan for the spec."""
    calibration: Calibration | None
    """The user's measurements; None if there are none for these machines."""
    run: PlannedRun | None
    """The stored plan; None if it is no longer valid."""
    news: str
    """Why the plan is no longer valid, or which of its inputs are old; empty if neither."""
    findings: tuple[Finding, ...] = ()
    """A finding if the calibration is no longer valid."""

    @property
    def choices(self) -> Choices | None:
        """The choices of the stored plan; None if it is no longer valid."""
        return self.run.choices if self.run is not None else None


def plan_file(spec_file: Path, name: str) -> Path:
    """Return the file in which the plan of a spec is stored.

    Specs in the same directory can have the same run name. The first one uses `plan.json`, and
    others use a file that contains their own name.
    """
    directory = spec_file.parent / ".seatrial" / name
    own, shared = directory / f"plan-{spec_file.name}.json", directory / "plan.json"
    if own.is_file():
        return own
    other = ""
    with suppress(OSError, DamagedError):
        other = spec_file_of(read_state(shared))
    taken = other not in ("", spec_file.name) and (spec_file.parent / other).is_file()
    return own if taken else shared


def find(basis: Basis, spec_file: Path) -> FoundPlan:
    """Return the stored plan of a spec, if none of its inputs has changed."""
    file = plan_file(spec_file, basis.loaded.spec.name)
    findings: tuple[Finding, ...] = ()
    try:
        calibration = read_calibration(file.parent, measured_on(basis))
    except DamagedError as error:
        calibration, findings = None, (_damaged(file.parent / FILE, error, spec_file),)
    constants = constants_of(problem_of(basis))
    if calibration is not None and (constants is None or not calibration.corrects(constants)):
        findings = (_stale(calibration, file.parent / FILE, spec_file),)
        calibration = None
    inputs = inputs_of(basis, calibration)
    kept, trouble = _read_kept(file, inputs)
    run = _plan_kept(basis, calibration, kept) if kept is not None else None
    if kept is None or run is None:
        trouble = trouble or (f"{file} does not match its spec" if kept else "")
        news = f"{PLANNED_AGAIN}{trouble}." if trouble else ""
        return FoundPlan(inputs, calibration, None, news, findings)
    changed = " and ".join(inputs.changed_since(kept.inputs))
    news = (
        f"{changed[:1].upper()}{changed[1:]} changed after the layout in {file} was chosen. "
        f"The run keeps this layout; to search again: seatrial plan {spec_file} --again."
    )
    return FoundPlan(inputs, calibration, run, news if changed else "", findings)


def _stale(calibration: Calibration, file: Path, spec_file: Path) -> Finding:
    """Return the finding about a calibration for outdated constants."""
    return Finding(
        PlanCode.STALE_CALIBRATION,
        Severity.WARNING,
        Where(file=str(file)),
        f"the calibration is ignored: the constants that it corrects have changed since then "
        f"({calibration.version}).",
        f"factor {calibration.scale:.3f}",
        f"Calibrate again: seatrial calibrate {spec_file} --events EVENT_LOG.",
    )


def _damaged(file: Path, error: DamagedError, spec_file: Path) -> Finding:
    """Return the finding about a calibration that cannot be read."""
    return Finding(
        RunCode.DAMAGED,
        Severity.WARNING,
        Where(file=str(file)),
        f"the calibration is damaged and is ignored: {error}.",
        "",
        f"Delete it and calibrate again: seatrial calibrate {spec_file} --events EVENT_LOG.",
    )


def _read_kept(file: Path, inputs: Inputs) -> tuple[KeptPlan | None, str]:
    """Return the plan in a file if it is for these inputs, else the reason why it is not used."""
    try:
        kept = read_record(read_state(file))
    except FileNotFoundError:
        return None, ""
    except DamagedError as error:
        return None, f"{file} is damaged: {error}"
    if kept is None:
        return None, f"{file} was modified"
    if not inputs.ask_the_same(kept.inputs):
        changed = ", ".join(inputs.changed_since(kept.inputs))
        return None, f"{changed} changed since {file} was written"
    return kept, ""


def _plan_kept(basis: Basis, calibration: Calibration | None, kept: KeptPlan) -> PlannedRun | None:
    """Plan with the stored choices. Return None if the result differs from the stored plan."""
    try:
        run = plan_run(basis, calibration=calibration, kept=kept.choices)
    except (FindingsError, ValueError, TypeError):
        return None
    return run if layout_digest(run.plan) == kept.layout_digest else None


def write(inputs: Inputs, run: PlannedRun, spec_file: Path) -> str:
    """Write the plan next to its spec; return the error message if that fails."""
    file = plan_file(spec_file, run.plan.spec.name)
    try:
        write_state(file, record_text(inputs, run.choices, run.plan, spec_file.name))
    except OSError as error:
        return f"cannot write {file}: {error.strerror}"
    return ""


@dataclass(frozen=True, slots=True)
class PlanBeside:
    """The plan of a spec, and the plan that was stored next to it."""

    found: FoundPlan
    run: PlannedRun
    is_new: bool
    """True if the planner chose again; False if the stored choices are still valid."""


def reuse_or_plan(
    basis: Basis, spec_file: Path, *, again: bool = False, alternatives: bool = False
) -> PlanBeside:
    """Plan a spec with the choices stored next to it, or from scratch. Writes no file.

    Args:
        basis: The spec, with its model and its machines.
        spec_file: The spec; the plan and the calibration are stored next to it.
        again: Choose again, even if the stored choices are still valid.
        alternatives: Also find the next best layouts.
    """
    found = find(basis, spec_file)
    if found.run is not None and not (again or alternatives):
        return PlanBeside(found, found.run, is_new=False)
    choices = None if again else found.choices
    run = plan_run(basis, calibration=found.calibration, kept=choices, alternatives=alternatives)
    return PlanBeside(found, run, is_new=choices is None)


def plan_beside(basis: Basis, spec_file: Path, tell: Tell | None, *, keep: bool) -> Plan:
    """Return the plan of a spec with `auto` fields: the stored one, or a new one."""
    planned = reuse_or_plan(basis, spec_file)
    found = planned.found
    say = tell or (lambda _: None)
    # Overrides apply to one call, so differences from the stored plan are expected.
    news = found.news if keep or not planned.is_new else ""
    for words in (news, *(f"{note.rule} {note.fix}" for note in found.findings)):
        if words:
            say(words)
    trouble = write(found.inputs, planned.run, spec_file) if keep and planned.is_new else ""
    if trouble:
        say(f"The plan is not stored, so the next command may plan differently: {trouble}.")
    return planned.run.plan
