# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The plan that a run keeps beside its spec: made once, used by every command until that changes.

A run that was launched keeps its layout: new constants, or a calibration, tell more about it and
do not change it. Only `seatrial plan --again` chooses anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seatrial.codes.planning import PlanCode
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.planning.calibration import FILE, Calibration, read_calibration
from seatrial.planning.choices import Choices
from seatrial.planning.plan import Plan
from seatrial.planning.plan_record import Inputs, KeptPlan, inputs_of, read_record, record_text
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import Basis
from seatrial.planning.search.choose import constants_of
from seatrial.planning.search.problem import measured_on, problem_of
from seatrial.storage.state_files import DamagedError, read_state, write_state

Tell = Callable[[str], None]
"""Told what a person should know, in a sentence."""
PLANNED_AGAIN = "Planned again: "
"""How news of choices that no longer hold begin."""


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """What is kept beside a spec."""

    inputs: Inputs
    """What a plan of the spec depends on now."""
    calibration: Calibration | None
    """The user's own measurements, when there are any for these machines."""
    run: PlannedRun | None
    """The plan that is kept, when it still holds."""
    news: str
    """Why they do not, or which figures behind them are old; empty when there is neither."""
    findings: tuple[Finding, ...] = ()
    """What speaks against what is kept: a calibration that no longer holds."""

    @property
    def choices(self) -> Choices | None:
        """What the kept plan chose, when it still holds."""
        return self.run.choices if self.run is not None else None


def plan_file(spec_file: Path, name: str) -> Path:
    """Where the plan of a run is kept."""
    return spec_file.parent / ".seatrial" / name / "plan.json"


def find(basis: Basis, spec_file: Path) -> FoundPlan:
    """The kept plan of a spec, if nothing that it depends on has changed."""
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
        trouble = trouble or (f"{file} does not follow from its spec" if kept else "")
        news = f"{PLANNED_AGAIN}{trouble}." if trouble else ""
        return FoundPlan(inputs, calibration, None, news, findings)
    changed = " and ".join(inputs.changed_since(kept.inputs))
    news = (
        f"The layout in {file} stays, though {changed} changed since it was chosen; "
        f"to choose anew: seatrial plan {spec_file} --again."
    )
    return FoundPlan(inputs, calibration, run, news if changed else "", findings)


def _stale(calibration: Calibration, file: Path, spec_file: Path) -> Finding:
    """The finding about a calibration of constants that are no longer used."""
    return Finding(
        PlanCode.STALE_CALIBRATION,
        Severity.WARNING,
        Where(file=str(file)),
        f"the calibration corrects constants that have changed since ({calibration.version}), "
        "and is not used.",
        f"factor {calibration.scale:.3f}",
        f"Calibrate again: seatrial calibrate {spec_file} --events EVENT_LOG.",
    )


def _damaged(file: Path, error: DamagedError, spec_file: Path) -> Finding:
    """The finding about a calibration that cannot be read."""
    return Finding(
        RunCode.DAMAGED,
        Severity.WARNING,
        Where(file=str(file)),
        f"this calibration is damaged, and is not used: {error}.",
        "",
        f"Delete it, and calibrate again: seatrial calibrate {spec_file} --events EVENT_LOG.",
    )


def _read_kept(file: Path, inputs: Inputs) -> tuple[KeptPlan | None, str]:
    """The plan in a file if it was made for this question, else why it is not used."""
    try:
        kept = read_record(read_state(file))
    except FileNotFoundError:
        return None, ""
    except DamagedError as error:
        return None, f"{file} is damaged: {error}"
    if kept is None:
        return None, f"{file} is not as it was written"
    if not inputs.ask_the_same(kept.inputs):
        changed = ", ".join(inputs.changed_since(kept.inputs))
        return None, f"{changed} changed since {file} was written"
    return kept, ""


def _plan_kept(basis: Basis, calibration: Calibration | None, kept: KeptPlan) -> PlannedRun | None:
    """The plan that kept choices lead to; `None` if that is not the plan that was kept."""
    try:
        run = plan_run(basis, calibration=calibration, kept=kept.choices)
    except (FindingsError, ValueError, TypeError):
        return None
    return run if run.plan.digest == kept.plan_digest else None


def write(inputs: Inputs, run: PlannedRun, spec_file: Path) -> str:
    """Write the plan beside its spec; why not, in words, when that cannot be."""
    file = plan_file(spec_file, run.plan.spec.name)
    try:
        write_state(file, record_text(inputs, run.choices, run.plan))
    except OSError as error:
        return f"{file} cannot be written: {error.strerror}"
    return ""


@dataclass(frozen=True, slots=True)
class PlanBeside:
    """The plan of a spec, with what was kept beside it before."""

    found: FoundPlan
    run: PlannedRun
    is_new: bool
    """True if the planner chose anew; False if the kept choices still hold."""


def reuse_or_plan(
    basis: Basis, spec_file: Path, *, again: bool = False, alternatives: bool = False
) -> PlanBeside:
    """Plan a spec by the choices that are kept beside it, or anew; nothing is written.

    Args:
        basis: The spec, with its model and its machines.
        spec_file: The file beside which the plan and the calibration are kept.
        again: Choose anew, though the kept choices still hold.
        alternatives: Also find what else could have been chosen.
    """
    found = find(basis, spec_file)
    if found.run is not None and not (again or alternatives):
        return PlanBeside(found, found.run, is_new=False)
    choices = None if again else found.choices
    run = plan_run(basis, calibration=found.calibration, kept=choices, alternatives=alternatives)
    return PlanBeside(found, run, is_new=choices is None)


def plan_beside(basis: Basis, spec_file: Path, tell: Tell | None, *, keep: bool) -> Plan:
    """The plan of a spec with `auto` fields: the kept one, or a new one that is kept."""
    planned = reuse_or_plan(basis, spec_file)
    found = planned.found
    say = tell or (lambda _: None)
    # Overrides are for one call: the kept plan is not this call's, and is not held against it.
    news = found.news if keep or not planned.is_new else ""
    for words in (news, *(f"{note.rule} {note.fix}" for note in found.findings)):
        if words:
            say(words)
    trouble = write(found.inputs, planned.run, spec_file) if keep and planned.is_new else ""
    if trouble:
        say(f"The plan is not kept, and the next command may plan otherwise: {trouble}.")
    return planned.run.plan
