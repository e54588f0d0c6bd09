# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial validate`: everything that can be said of a spec without a cluster."""

import sys
from typing import Any

import typer

from seatrial.cli.output import count_line, say, say_findings, say_json
from seatrial.cli.parameters import Json, Overrides, SpecFile
from seatrial.client import Validation, validate
from seatrial.errors import FindingsError, UnreadableError
from seatrial.findings import Finding
from seatrial.planning.plan import Plan
from seatrial.spec.parallelism import Sharding
from seatrial.units import format_count

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def command(file: SpecFile, overrides: Overrides = None, as_json: Json = False) -> None:
    """Check a spec and show what it resolves to: model, layout, batch, length.

    Exit code 0 when it is valid, 1 when it breaks rules, 2 when it cannot be read.
    """
    try:
        result = validate(file, overrides or [])
    except FindingsError as error:
        if not as_json:
            raise
        say_json(_as_json(None, error.findings))
        raise typer.Exit(error.exit_code) from None
    except UnreadableError as error:
        if not as_json:
            raise
        say_json(_as_json(None, (error.finding,)))
        raise typer.Exit(error.exit_code) from None
    if as_json:
        say_json(_as_json(result, result.findings))
        return
    say_findings(result.findings, sys.stdout)
    if result.findings:
        say(f"\n{count_line(result.findings)}")
    say(f"{file} is valid: {result.spec.name}")
    if result.plan is not None:
        for label, text in summary(result.plan):
            say(f"  {label:<9} {text}")


def _as_json(result: Validation | None, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """The outcome for a program."""
    return {
        "valid": result is not None,
        "findings": [finding.to_dict() for finding in findings],
        "spec": result.spec.model_dump(mode="json", by_alias=True) if result else None,
        "plan": result.plan.to_dict() if result and result.plan else None,
        "plan_digest": result.plan.digest if result and result.plan else None,
    }


def summary(plan: Plan) -> list[tuple[str, str]]:
    """What a spec resolves to, in one line a part."""
    model, layout, batch, length = plan.model, plan.layout, plan.batch, plan.length
    parameters = f"{format_count(model.parameters)} parameters"
    if model.active_parameters != model.parameters:
        parameters += f" ({format_count(model.active_parameters)} active)"
    degrees = {"tp": layout.tp_size, "pp": layout.pp_size, "dp": layout.dp_size}
    extra = {"vp": layout.vp_size, "cp": layout.cp_size, "ep": layout.ep_size}
    degrees |= {name: size for name, size in extra.items() if size > 1}
    parts = [" · ".join(f"{name} {size}" for name, size in degrees.items())]
    if plan.sequence_parallel:
        parts.append("sequence parallel")
    parts += [f"sharding {plan.sharding}", f"recompute {plan.recompute}"]
    per_rank = sorted(set(plan.stage_parameters))
    ranks = " to ".join(f"{number:,}" for number in (per_rank[0], per_rank[-1])[: len(per_rank)])
    machines = plan.machines
    gpus = f"{machines.world_size} × {machines.accelerator}"
    if not machines.accelerator:
        gpus = f"{machines.world_size} processes"
    network = "plain TCP" if machines.fabric == "none" else machines.fabric
    held = f"{ranks} parameters"
    if plan.sharding is Sharding.FSDP:
        held += f" before they are shared out over dp {layout.dp_size}"
    evaluated = f"{length.validation_samples:,} samples to evaluate"
    if plan.spec.data.split[2]:
        evaluated += f", {length.test_samples:,} to test"
    return [
        ("model", f"{model.name}, {parameters}, sequence {model.sequence_length:,}"),
        (
            "machines",
            f"{machines.nodes} × {machines.node_type} = {gpus}, "
            f"{machines.profile}, {network}, {machines.storage}",
        ),
        ("layout", ", ".join(parts)),
        ("rank", f"{held}, vocabulary padded to {model.padded_vocab_size:,}"),
        (
            "batch",
            f"{batch.global_batch_size:,} sequences = {batch.micro_batch_size} micro "
            f"× {batch.micro_batches:,} × dp {layout.dp_size}, "
            f"{format_count(batch.tokens_per_step)} tokens a step",
        ),
        (
            "length",
            f"{length.steps:,} steps, {format_count(length.tokens)} tokens; {evaluated}",
        ),
    ]
