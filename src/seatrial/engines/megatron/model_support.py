# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Find parts of a model that Megatron cannot train as planned, or would silently change."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from seatrial.codes.engines import EngineCode
from seatrial.engines.engine import Problem
from seatrial.engines.megatron.model_flags import has_yarn
from seatrial.engines.megatron.parser_options import VERSION
from seatrial.planning.plan import Plan
from seatrial.spec.model import Architecture, Norm, Positions
from seatrial.spec.model_parts import RopeScaling, RopeScalingKind, RouterScore

LLAMA3_CONSTANTS = {
    "original_positions": 8192,
    "low_frequency_factor": 1.0,
    "high_frequency_factor": 4.0,
}
"""The constants of Llama 3.1 in `RotaryEmbedding._apply_scaling`, which no flag changes."""
LATENT_CONSTANTS: dict[str, float] = {"rounded": True}
"""The constants of YaRN in latent attention (`MLASelfAttention`), which no flag changes."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A condition under which Megatron cannot train a model as planned."""

    field: str
    holds: Callable[[Plan, Architecture], bool]
    rule: str
    fix: str


def model_problems(plan: Plan) -> Iterator[Problem]:
    """Yield the parts of the model that Megatron cannot train as planned."""
    model = plan.model.architecture
    for case in CASES:
        if case.holds(plan, model):
            yield Problem(EngineCode.UNSUPPORTED, case.field, case.rule, case.fix)
    if model.rope_scaling is not None:
        yield from _constants(model, model.rope_scaling)


def _constants(model: Architecture, scaling: RopeScaling) -> Iterator[Problem]:
    """Reject constants of a rotary scaling that Megatron has no flag for."""
    if scaling.kind is RopeScalingKind.LLAMA3:
        fixed, where = LLAMA3_CONSTANTS, "the llama3 scaling"
    elif has_yarn(model) and model.latent_attention is not None:
        fixed, where = LATENT_CONSTANTS, "YaRN in latent attention"
    else:
        return
    for name, value in fixed.items():
        if getattr(scaling, name) != value:
            yield Problem(
                EngineCode.UNSUPPORTED,
                f"model.dimensions.rope_scaling.{name}",
                f"Megatron has no flag for {name} of {where}; it uses {str(value).lower()}.",
                f"Use {str(value).lower()}.",
            )


def _option(plan: Plan, name: str) -> tuple[str, ...]:
    """Return the values of an engine option that the spec sets; empty if it does not."""
    for given, value in plan.spec.engine.options.items():
        if given.replace("_", "-") == name:
            return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)
    return ()


def _local(plan: Plan) -> bool:
    return _option(plan, "transformer-impl") == ("local",)


def _is_fractional(value: float) -> bool:
    return not float(value).is_integer()


def _rotary_size(model: Architecture) -> int:
    """Return the number of values of each head that are rotated."""
    if model.latent_attention is not None:
        return model.latent_attention.rope_head_dim
    return int(model.head_dim * model.rotary_fraction)


def _linear(model: Architecture) -> RopeScaling | None:
    """Return the scaling of rotary positions if it is linear."""
    scaling = model.rope_scaling
    return scaling if scaling is not None and scaling.kind is RopeScalingKind.LINEAR else None


def _exchange(plan: Plan, *allowed: str) -> bool:
    """True if the spec sets an exchange between context-parallel ranks that is not allowed."""
    return plan.layout.cp_size > 1 and not set(_option(plan, "cp-comm-type")) <= set(allowed)


def _uneven_heads(plan: Plan, model: Architecture) -> bool:
    """True if the a2a exchange cannot split the heads of a rank."""
    heads = max(1, model.kv_heads // plan.layout.tp_size)
    return plan.layout.cp_size > 1 and model.attention_sinks and heads % plan.layout.cp_size != 0


CASES = (
    Unsupported(
        "model.dimensions.positions",
        lambda plan, model: model.positions is Positions.ALIBI,
        "Megatron does not support ALiBi positions.",
        "Use learned or rope.",
    ),
    Unsupported(
        "model.dimensions.norm",
        lambda plan, model: model.norm is Norm.LAYERNORM_NO_BIAS,
        "Megatron does not support LayerNorm without bias.",
        "Use layernorm or rmsnorm.",
    ),
    Unsupported(
        "model.dimensions.norm_centered_at_one",
        lambda plan, model: model.norm_centered_at_one and _local(plan),
        "only Transformer Engine's norms support weights that are stored minus 1.",
        "Remove engine.options.transformer-impl.",
    ),
    Unsupported(
        "model.dimensions.head_dim",
        lambda plan, model: model.positions is Positions.ROPE and _rotary_size(model) % 2 == 1,
        "rotary positions rotate pairs of values, but an odd number of values of each head is "
        "rotated.",
        "Use an even size of the heads (head_dim, or rope_head_dim of latent attention), or a "
        "rotary_fraction that results in an even number.",
    ),
    Unsupported(
        "model.dimensions.rope_theta",
        lambda plan, model: model.positions is Positions.ROPE and _is_fractional(model.rope_theta),
        "Megatron supports only integers as the base of rotary frequencies.",
        "Use an integer.",
    ),
    Unsupported(
        "model.dimensions.rope_scaling.factor",
        lambda plan, model: (
            (scaling := _linear(model)) is not None and _is_fractional(scaling.factor)
        ),
        "Megatron supports only integers as the factor of a linear scaling.",
        "Use an integer.",
    ),
    Unsupported(
        "model.dimensions.rope_scaling.kind",
        lambda plan, model: (
            model.latent_attention is not None
            and model.rope_scaling is not None
            and not has_yarn(model)
        ),
        "with latent attention, Megatron ignores every scaling other than YaRN.",
        "Use yarn, or remove rope_scaling.",
    ),
    Unsupported(
        "model.dimensions.rotary_fraction",
        lambda plan, model: has_yarn(model) and model.rotary_fraction < 1,
        "with YaRN, Megatron rotates whole heads.",
        "Use 1.0, or a different rope_scaling.",
    ),
    Unsupported(
        "model.dimensions.mtp_layers",
        lambda plan, model: (
            model.mtp_layers > 0 and has_yarn(model) and model.latent_attention is None
        ),
        "Megatron supports multi-token prediction with YaRN only in latent attention.",
        "Use 0, or a different rope_scaling.",
    ),
    Unsupported(
        "model.dimensions.no_rope_every",
        lambda plan, model: model.no_rope_every is not None and model.latent_attention is not None,
        "with latent attention, Megatron applies rotary positions in every layer.",
        "Remove no_rope_every.",
    ),
    Unsupported(
        "parallelism.sequence_parallel",
        lambda plan, model: (
            model.latent_attention is not None
            and plan.layout.tp_size > 1
            and not plan.sequence_parallel
        ),
        f"with tensor parallelism but without sequence parallelism, Megatron {VERSION} computes "
        "wrong gradients in latent attention (NVIDIA/Megatron-LM#1699).",
        "Use true, or parallelism.tp_size=1.",
    ),
    Unsupported(
        "parallelism.cp_size",
        lambda plan, model: (
            plan.layout.cp_size > 1
            and model.latent_attention is not None
            and (model.window is not None or model.attention_sinks)
        ),
        "Transformer Engine does not support context parallelism for latent attention with "
        "windows or sinks.",
        "Use cp_size 1.",
    ),
    Unsupported(
        "parallelism.cp_size",
        _uneven_heads,
        "with attention sinks, context-parallel ranks split the key/value heads of a "
        "tensor-parallel rank, which are not divisible by cp_size.",
        "Use a smaller cp_size or tp_size.",
    ),
    Unsupported(
        "engine.options.cp-comm-type",
        lambda plan, model: model.attention_sinks and _exchange(plan, "a2a"),
        "Transformer Engine supports context parallelism with attention sinks only as a2a.",
        "Remove this option.",
    ),
    Unsupported(
        "engine.options.cp-comm-type",
        lambda plan, model: (
            model.window is not None
            and not model.attention_sinks
            and _exchange(plan, "a2a", "all_gather")
        ),
        "Transformer Engine supports context parallelism with sliding windows only as a2a or "
        "all_gather.",
        "Remove this option.",
    ),
    Unsupported(
        "engine.options.attention-backend",
        lambda plan, model: (
            model.attention_sinks and _option(plan, "attention-backend") == ("flash",)
        ),
        "flash attention does not support attention sinks.",
        "Remove this option.",
    ),
    Unsupported(
        "model.dimensions.moe.normalize_top_k",
        lambda plan, model: (
            model.moe is not None
            and model.moe.score is RouterScore.SIGMOID
            and not model.moe.normalize_top_k
            and model.moe.top_k > 1
        ),
        "Megatron always scales the weights of a token's experts to a sum of 1 with sigmoid "
        "scores.",
        "Use true.",
    ),
    Unsupported(
        "model.dimensions.moe.groups_per_token",
        lambda plan, model: (
            model.moe is not None and (model.moe.groups_per_token or 0) > model.moe.top_k
        ),
        "Megatron chooses at least one expert in each group of a token, but top_k is smaller.",
        "Use at most top_k.",
    ),
)
