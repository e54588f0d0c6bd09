# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's own training loop, from the megatron-core package."""

from collections.abc import Mapping

from seatrial.engines.engine import EngineCode, Problem
from seatrial.engines.megatron.options import option_problems
from seatrial.planning.plan import Plan
from seatrial.spec.architecture import Norm, Positions
from seatrial.spec.engine import EngineName, OptionValue
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Precision


class MegatronEngine:
    """The engine that the field trains with."""

    name = EngineName.MEGATRON
    version = "0.19.2"

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """What is wrong with options that a spec passes through to Megatron."""
        return option_problems(options)

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """What Megatron has no code for."""
        model = plan.model.architecture
        found = []
        if model.positions is Positions.ALIBI:
            fix = "Use learned or rope."
            found.append(_unsupported("model.dimensions.positions", "ALiBi positions", fix))
        if model.norm is Norm.LAYERNORM_NO_BIAS:
            fix = "Use layernorm or rmsnorm."
            found.append(_unsupported("model.dimensions.norm", "LayerNorm without bias", fix))
        if plan.sharding is Sharding.FSDP and plan.spec.training.precision is Precision.FP16:
            fix = "Use bf16, or sharding: optimizer."
            found.append(_unsupported("training.precision", "FSDP in fp16", fix))
        options = {name.replace("_", "-") for name in plan.spec.engine.options}
        per_token = "calculate-per-token-loss" in options
        if plan.layout.cp_size > 1 and "eod-mask-loss" in options and not per_token:
            # Measured on the CPU runtime: the loss differs from one rank's by 1e-2.
            rule = "with context parallelism, masked tokens weigh differently on each rank."
            fix = "Add engine.options.calculate-per-token-loss=true."
            field = "engine.options.eod-mask-loss"
            found.append(Problem(EngineCode.UNSUPPORTED, field, rule, fix))
        if "reset-attention-mask" in options and _layers(plan) != "local":
            # NVIDIA/Megatron-LM issue 2357: the layers ask Transformer Engine for a causal mask,
            # which then does not look at the one that it is given.
            rule = (
                "Transformer Engine ignores the mask: documents of a sample would see each other."
            )
            fix = "Remove it, or add engine.options.transformer-impl=local."
            field = "engine.options.reset-attention-mask"
            found.append(Problem(EngineCode.UNSUPPORTED, field, rule, fix))
        return found


def _layers(plan: Plan) -> object:
    """Whose layers the spec asks for; Transformer Engine's unless it says otherwise."""
    options = {name.replace("_", "-"): value for name, value in plan.spec.engine.options.items()}
    return options.get("transformer-impl", "transformer_engine")


def _unsupported(field: str, what: str, fix: str) -> Problem:
    return Problem(EngineCode.UNSUPPORTED, field, f"Megatron has no {what}.", fix)
