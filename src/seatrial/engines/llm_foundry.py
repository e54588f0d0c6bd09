# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry: what it can train; its options cannot be checked until the engine is built in."""

from collections.abc import Mapping

from seatrial.engines.engine import EngineCode, Problem
from seatrial.planning.plan import Plan
from seatrial.spec.architecture import Family
from seatrial.spec.engine import EngineName, OptionValue
from seatrial.spec.parallelism import Sharding


class LlmFoundryEngine:
    """MosaicML's LLM Foundry, which trains MPT."""

    name = EngineName.LLM_FOUNDRY
    version = "0.22.0"

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """Say of each option that nobody has looked at it."""
        return [
            Problem(
                EngineCode.UNCHECKED_OPTION,
                f"engine.options.{option}",
                "options of LLM Foundry are passed through unchecked in this version.",
                "Look it up in LLM Foundry's own documentation.",
            )
            for option in options
        ]

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """It trains MPT, and cuts a model only by sharding it over the data-parallel ranks."""
        found = []
        if plan.model.architecture.family is not Family.MPT:
            rule = "LLM Foundry trains models of the MPT family."
            field = "model.preset" if plan.spec.model.preset else "model.dimensions.family"
            fix = "Use a preset such as mpt-7b, or engine.name=megatron."
            found.append(Problem(EngineCode.UNSUPPORTED, field, rule, fix))
        for axis in ("tp", "pp", "cp"):
            size = getattr(plan.layout, f"{axis}_size")
            if size > 1:
                rule = f"LLM Foundry has no {axis}: it shards over the data-parallel ranks only."
                field = f"parallelism.{axis}_size"
                found.append(Problem(EngineCode.UNSUPPORTED, field, rule, f"Use {axis}_size 1."))
        if plan.sharding is Sharding.OPTIMIZER:
            rule = "LLM Foundry shards everything (fsdp) or nothing."
            fix = "Use fsdp or none."
            found.append(Problem(EngineCode.UNSUPPORTED, "parallelism.sharding", rule, fix))
        return found
