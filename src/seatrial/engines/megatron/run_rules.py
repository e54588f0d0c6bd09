# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules specific to Megatron: environment variables, contradictory options, and FP8 widths."""

from collections.abc import Iterator

from seatrial.codes.checks import CheckCode
from seatrial.engines.engine import RunProblem
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.engines.megatron.contradictions import CONTRADICTIONS, Passed
from seatrial.engines.megatron.passthrough_options import MODELLED
from seatrial.engines.megatron.performance_rules import OPTIONS
from seatrial.planning.options import OptionCase, given_options
from seatrial.planning.plan import Origin, Plan
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Precision

MULTIPLES = {Precision.FP8: 16, Precision.MXFP8: 32}
"""Numbers that matrix widths must be multiples of: Transformer Engine's error message states the
one for fp8, and an mxfp8 block has 32 numbers."""
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
"""The number of queues between a process and its GPU."""
BEFORE_BLACKWELL = ("Volta", "Turing", "Ampere", "Ada", "Hopper")
ATTENTION = ("NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "NVTE_UNFUSED_ATTN")
"""Variables that Megatron sets and asserts for its attention backend (transformer_config)."""


def run_problems(plan: Plan, generation: str, domain: int) -> list[RunProblem]:
    """Return the settings that Megatron's own validation or Transformer Engine would reject."""
    return [
        *_connections(plan, generation),
        *_attention(plan),
        *_options(plan),
        *_performance(plan, generation, domain),
        *_widths(plan),
    ]


def _connections(plan: Plan, generation: str) -> Iterator[RunProblem]:
    """Check the number of connections between a process and its GPU, which Megatron enforces."""
    value = plan.spec.cluster.env.get(CONNECTIONS)
    rule = ""
    if plan.sharding is Sharding.FSDP:
        if value == "1":
            rule = "with FSDP, Megatron requires this variable to be greater than 1 or unset."
    elif value not in _connections_for(plan) and generation in BEFORE_BLACKWELL:
        rule = (
            "with tensor or context parallelism, Megatron requires 1 on GPUs before Blackwell, so "
            "that communication is issued in order."
        )
    if rule and value is not None:
        fix = "Remove the variable: Seatrial sets the value that the layout needs."
        yield RunProblem(CheckCode.CONNECTIONS, f"cluster.env.{CONNECTIONS}", rule, fix, value)


def _connections_for(plan: Plan) -> tuple[str | None, ...]:
    """Return the numbers of connections that Megatron accepts on GPUs before Blackwell."""
    given = plan.spec.cluster.env.get(CONNECTIONS)
    splits = plan.layout.tp_size > 1 or plan.layout.cp_size > 1
    # It only warns if the exchange of experts overlaps, which needs several.
    return ("1",) if splits and plan.spec.performance.expert_overlap is not True else (given,)


def _attention(plan: Plan) -> Iterator[RunProblem]:
    """Check the variables that Megatron sets for its attention, and rejects with other values."""
    if any(name.replace("_", "-") == "attention-backend" for name in plan.spec.engine.options):
        return
    for name in ATTENTION:
        value = plan.spec.cluster.env.get(name)
        if value is not None and value != "1":
            rule = f"Megatron sets {name} to 1 for its default attention backend, and fails if "
            fix = (
                "Remove the variable. To select a different backend, set "
                "engine.options.attention-backend."
            )
            yield RunProblem(
                CheckCode.ENGINES_OWN, f"cluster.env.{name}", f"{rule}it is {value}.", fix, value
            )


def _options(plan: Plan) -> Iterator[RunProblem]:
    """Check options that Megatron rejects with this plan, or would ignore."""
    written = {name.replace("_", "-"): name for name in plan.spec.engine.options}
    if not written:
        return
    passed = Passed(plan, dict(engine_arguments(plan)))
    for found in CONTRADICTIONS:
        if found.option not in written or not passed.on(found.option) or not found.holds(passed):
            continue
        yield RunProblem(
            CheckCode.OPTION_NEEDS if found.by else CheckCode.OPTION_AGAINST,
            f"engine.options.{written[found.option]}",
            found.rule,
            f"Set {found.by}, or remove this option." if found.by else "Remove this option.",
            passed.word(found.option),
            found.by,
        )
    yield from _of_experts(plan)


def _performance(plan: Plan, generation: str, domain: int) -> Iterator[RunProblem]:
    """Check the performance options in the spec; the planner's are allowed."""
    case = OptionCase(
        plan.spec,
        plan.model.architecture,
        plan.layout,
        plan.sequence_parallel,
        plan.sharding,
        plan.recompute,
        plan.machines.accelerator,
        generation,
        domain,
        options=given_options(plan.spec),
    )
    for option in OPTIONS:
        field = f"performance.{option.name}"
        if plan.origins.get(field) is not Origin.YOU:
            continue
        for found in option.problems(case):
            needs = bool(found.by) and not found.clashes
            yield RunProblem(
                CheckCode.OPTION_NEEDS if needs else CheckCode.OPTION_AGAINST,
                field,
                found.rule,
                f"Set {found.by}, or remove this option." if found.by else "Remove this option.",
                str(getattr(case.options, option.name)).lower(),
                found.by,
            )


def _of_experts(plan: Plan) -> Iterator[RunProblem]:
    """Warn about expert options for a model without experts."""
    if plan.model.architecture.is_moe:
        return
    for name, value in plan.spec.engine.options.items():
        option = name.replace("_", "-")
        if option.startswith("moe-") and option not in MODELLED:
            yield RunProblem(
                CheckCode.OPTION_AGAINST,
                f"engine.options.{name}",
                "the model has no experts, so this option has no effect.",
                "Remove this option.",
                str(value),
                is_warning=True,
            )


def _widths(plan: Plan) -> Iterator[RunProblem]:
    """Check for widths that matrix multiplications in the precision do not support."""
    multiple = MULTIPLES.get(plan.spec.training.precision)
    if multiple is None or plan.spec.model.dimensions is None:
        return
    tp = plan.layout.tp_size
    for name in ("hidden_size", "ffn_hidden_size"):
        width = int(getattr(plan.model.architecture, name))
        step = multiple * (tp if name == "ffn_hidden_size" else 1)
        if width % step:
            fitting = -(-width // step) * step
            yield RunProblem(
                CheckCode.WIDTHS,
                f"model.dimensions.{name}",
                f"{width:,} split across {tp} ranks is not a multiple of {multiple}, which matrix "
                f"multiplications in {plan.spec.training.precision} require.",
                f"Use {fitting}, or training.precision=bf16.",
                str(width),
                f"model.dimensions.{name}={fitting}",
            )
