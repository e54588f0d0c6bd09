# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial validate`: check specs and show the values they resolve to."""

import os
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import typer

from seatrial.cli.options import Json, SpecFiles, examples
from seatrial.errors import ExitCode, FindingsError, UnreadableError, UsageError
from seatrial.findings import Finding
from seatrial.planning.plan import Origin, Plan
from seatrial.reports.terminal import (
    count_line,
    counted,
    say,
    say_error,
    say_findings,
    say_json,
    say_text,
    seatrial_words,
)
from seatrial.sdk.plan import Validation, validate
from seatrial.spec.parallelism import Sharding
from seatrial.units import format_count

app = typer.Typer(rich_markup_mode=None, add_completion=False)

NOT_CHECKED = "memory, time and cost; data; cluster"
"""What a valid spec can still fail on."""
STANDARD_INPUT = "/dev/stdin"


@dataclass(frozen=True, slots=True)
class ValidationOutcome:
    """The result of validating one file."""

    file: str
    """The file as it was named."""
    result: Validation | None
    """Spec and plan, or `None` if the file is invalid."""
    findings: tuple[Finding, ...]
    """Errors, or warnings and notes."""
    exit_code: int
    """The exit code if this were the only file."""


@app.command(
    epilog=examples("seatrial validate run.yaml", "seatrial validate run.yaml training.tokens=10B")
)
def command(arguments: SpecFiles, as_json: Json = False) -> None:
    """Check specs and show the values they resolve to: model, machines, layout, batch, length.

    Exit code 0 if all are valid, 1 if one has errors, 2 if one cannot be read.
    """
    files = [argument for argument in arguments if not _is_override(argument)]
    overrides = [argument for argument in arguments if _is_override(argument)]
    if not files:
        raise UsageError(f"no spec given. Try: seatrial validate run.yaml {arguments[0]}")
    outcomes = [_outcome(file, overrides) for file in files]
    if as_json:
        data = [_as_json(outcome) for outcome in outcomes]
        say_json(data if len(files) > 1 else data[0])
    else:
        for position, outcome in enumerate(outcomes):
            _say(outcome, overrides, first=position == 0)
    code = max(outcome.exit_code for outcome in outcomes)
    if code:
        raise typer.Exit(code)


def _is_override(argument: str) -> bool:
    """True if an argument overrides a field instead of naming a file."""
    return "=" in argument and not os.path.exists(argument)


def _outcome(file: str, overrides: list[str]) -> ValidationOutcome:
    """Validate one file. Its errors do not stop the others from being checked."""
    try:
        result = validate(STANDARD_INPUT if file == "-" else file, overrides)
    except FindingsError as error:
        return ValidationOutcome(file, None, error.findings, error.exit_code)
    except UnreadableError as error:
        return ValidationOutcome(file, None, (error.finding,), error.exit_code)
    return ValidationOutcome(file, result, result.findings, ExitCode.OK)


def _say(outcome: ValidationOutcome, overrides: list[str], *, first: bool) -> None:
    """Print a result."""
    result = outcome.result
    if result is None:
        if not first:
            say_error("")
        say_findings(outcome.findings)
        say_error(f"\n{count_line(outcome.findings)}")
        return
    if not first:
        say()
    if outcome.findings:
        say_findings(outcome.findings, sys.stdout)
        say(f"\n{count_line(outcome.findings)}")
    say_text(f"{outcome.file} is valid: {result.spec.name}", rest="  ")
    for label, text in summary(result.plan):
        say_text(text, f"  {label:<9} ")
    planned = seatrial_words("plan", outcome.file, *overrides)
    if any(origin is Origin.PLANNER for origin in _layout_origins(result.plan)):
        say_text(f"chosen by the planner; for the reasons: {planned}", f"  {'auto':<9} ")
    say_text(NOT_CHECKED, "  not checked  ")
    if outcome.file != "-":
        say(f"next  {planned}")


def _as_json(outcome: ValidationOutcome) -> dict[str, Any]:
    """Return a result for `--json`."""
    result = outcome.result
    return {
        "file": outcome.file,
        "valid": result is not None,
        "findings": [finding.to_dict() for finding in outcome.findings],
        "spec": result.spec.model_dump(mode="json", by_alias=True) if result else None,
        "plan": result.plan.to_dict() if result else None,
        "plan_digest": result.plan.digest if result else None,
    }


def _layout_origins(plan: Plan) -> list[Origin]:
    """Return who set each field; the planner sets most performance options of every run."""
    return [who for field, who in plan.origins.items() if not field.startswith("performance.")]


def summary(plan: Plan) -> list[tuple[str, str]]:
    """Return the resolved values, one line per part."""
    model, batch, length = plan.model, plan.batch, plan.length
    parameters = f"{format_count(model.parameters)} parameters"
    if model.active_parameters != model.parameters:
        parameters += f" ({format_count(model.active_parameters)} active)"
    evaluated = f"{length.validation_samples:,} validation samples"
    if plan.spec.data.split[2]:
        evaluated += f", {length.test_samples:,} test samples"
    parts = [
        ("model", f"{model.name}, {parameters}, sequence {model.sequence_length:,}"),
        ("machines", _machines(plan)),
        ("image", plan.machines.image),
        ("layout", _layout(plan)),
        ("rank", f"{_held(plan)}, vocabulary padded to {model.padded_vocab_size:,}"),
        (
            "batch",
            f"{batch.global_batch_size:,} sequences = {batch.micro_batch_size:,} micro "
            f"× {batch.micro_batches:,} × dp {plan.layout.dp_size:,}, "
            f"{format_count(batch.tokens_per_step)} tokens per step{_early_batches(plan)}",
        ),
        ("length", f"{length.steps:,} steps, {format_count(length.tokens)} tokens; {evaluated}"),
    ]
    return [(label, text) for label, text in parts if text]


def _early_batches(plan: Plan) -> str:
    """Return the smaller batch sizes before the last one, as text."""
    early = [
        f"{phase.global_batch_size:,} until step {after.first_step:,}"
        for phase, after in pairwise(plan.length.phases)
    ]
    return f"; before: {', '.join(early)}" if early else ""


def _machines(plan: Plan) -> str:
    machines = plan.machines
    ranks = f"{machines.world_size:,} × {machines.accelerator}"
    if not machines.accelerator:
        ranks = counted(machines.world_size, "process", "processes")
    network = "plain TCP" if machines.fabric == "none" else machines.fabric
    nodes = f"{machines.nodes:,} × {machines.node_type} = {ranks}"
    return f"{nodes}, {machines.profile}, {network}, {machines.storage}"


def _layout(plan: Plan) -> str:
    """Describe the parallel sizes, sharding and recompute."""
    sizes = ("tp", "pp", "vp", "cp", "ep", "dp")
    parts = [plan.layout.words(*sizes, always=("tp", "pp", "dp"))]
    if plan.sequence_parallel:
        parts.append("sequence parallel")
    return ", ".join([*parts, f"sharding {plan.sharding}", f"recompute {plan.recompute}"])


def _held(plan: Plan) -> str:
    """Describe the number of parameters that a rank holds."""
    numbers = sorted(set(plan.stage_parameters))
    ends = numbers if len(numbers) == 1 else (numbers[0], numbers[-1])
    held = f"{' to '.join(f'{number:,}' for number in ends)} parameters"
    if plan.sharding is Sharding.FSDP:
        held += f" before sharding over dp {plan.layout.dp_size:,}"
    return held
