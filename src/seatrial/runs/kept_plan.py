# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The plan that a run keeps beside its spec: made once, used by every command until that changes.

A run that was launched keeps its layout: new constants, or a calibration, tell more about it and
do not change it. Only `seatrial plan --again` chooses anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seatrial.catalog.catalog import Catalog
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.planning.calibration import FILE, Calibration, read_calibration
from seatrial.planning.codes import PlanCode
from seatrial.planning.plan import Plan
from seatrial.planning.resolve import basis
from seatrial.planning.search.fill import Choices
from seatrial.planning.search.planner import PlannedRun, constants_of, plan_run, plan_with
from seatrial.planning.search.pose import measured_on, problem_of
from seatrial.planning.search.record import Inputs, KeptPlan, inputs_of, read_record, record_text
from seatrial.spec.loader import LoadedSpec
from seatrial.whole_files import write_whole

Tell = Callable[[str], None]
"""Told what a person should know, in a sentence."""
PLANNED_AGAIN = "Planned again: "
"""How news of choices that no longer hold begin."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is kept beside a spec."""

    inputs: Inputs
    """What a plan of the spec depends on now."""
    calibration: Calibration | None
    """The user's own measurements, when there are any for these machines."""
    choices: Choices | None
    """The choices that are kept, when they still hold."""
    news: str
    """Why they do not, or which figures behind them are old; empty when there is neither."""
    findings: tuple[Finding, ...] = ()
    """What speaks against what is kept: a calibration that no longer holds."""


def plan_file(spec_file: Path, name: str) -> Path:
    """Where the plan of a run is kept."""
    return spec_file.parent / ".seatrial" / name / "plan.json"


def find(loaded: LoadedSpec, catalog: Catalog, spec_file: Path) -> Found:
    """The kept choices of a spec, if nothing that they depend on has changed."""
    known = basis(loaded, catalog)
    file = plan_file(spec_file, loaded.spec.name)
    calibration = read_calibration(file.parent, measured_on(loaded.spec, known))
    constants = constants_of(problem_of(loaded.spec, known, catalog))
    findings: tuple[Finding, ...] = ()
    if calibration is not None and (constants is None or not calibration.corrects(constants)):
        findings = (_stale(calibration, file.parent / FILE, spec_file),)
        calibration = None
    inputs = inputs_of(loaded.spec, known, catalog, calibration)
    kept, trouble = _still_valid(loaded, catalog, file, inputs)
    if kept is None:
        news = f"{PLANNED_AGAIN}{trouble}." if trouble else ""
        return Found(inputs, calibration, None, news, findings)
    changed = " and ".join(inputs.changed_since(kept.inputs))
    news = (
        f"The layout in {file} stays, though {changed} changed since it was chosen; "
        f"to choose anew: seatrial plan {spec_file} --again."
    )
    return Found(inputs, calibration, kept.choices, news if changed else "", findings)


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


def _still_valid(
    loaded: LoadedSpec, catalog: Catalog, file: Path, inputs: Inputs
) -> tuple[KeptPlan | None, str]:
    """The plan in a file if its choices still hold, and why they do not, if there are any."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    if not text:
        return None, ""
    kept = read_record(text)
    if kept is None:
        return None, f"{file} is not as it was written"
    if not inputs.ask_the_same(kept.inputs):
        changed = ", ".join(inputs.changed_since(kept.inputs))
        return None, f"{changed} changed since {file} was written"
    if _digest(loaded, catalog, kept.choices) != kept.plan_digest:
        return None, f"{file} does not follow from its spec"
    return kept, ""


def _digest(loaded: LoadedSpec, catalog: Catalog, choices: Choices) -> str:
    """The digest of the plan that choices lead to; empty when they lead to none."""
    try:
        return plan_with(loaded, catalog, choices).digest
    except (FindingsError, ValueError, TypeError):
        return ""


def write(inputs: Inputs, run: PlannedRun, spec_file: Path) -> str:
    """Write the plan beside its spec; why not, in words, when that cannot be."""
    file = plan_file(spec_file, run.plan.spec.name)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, record_text(inputs, run.choices, run.plan))
    except OSError as error:
        return f"{file} cannot be written: {error.strerror}"
    return ""


def plan_of(
    loaded: LoadedSpec, catalog: Catalog, spec_file: Path, tell: Tell | None, *, keep: bool
) -> Plan:
    """The plan of a spec with `auto` fields: the kept one, or a new one that is kept."""
    found = find(loaded, catalog, spec_file)
    say = tell or (lambda _: None)
    # Overrides are for one call: the kept plan is not this call's, and is not held against it.
    news = found.news if keep or found.choices is not None else ""
    for words in (news, *(f"{note.rule} {note.fix}" for note in found.findings)):
        if words:
            say(words)
    if found.choices is not None:
        return plan_with(loaded, catalog, found.choices)
    run = plan_run(loaded, catalog, calibration=found.calibration)
    trouble = write(found.inputs, run, spec_file) if keep else ""
    if trouble:
        say(f"The plan is not kept, and the next command may plan otherwise: {trouble}.")
    return run.plan
