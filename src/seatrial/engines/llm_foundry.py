# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry: known by name; its options cannot be checked until the engine is built in."""

from collections.abc import Mapping

from seatrial.engines.engine import EngineCode, OptionProblem
from seatrial.spec.engine import EngineName, OptionValue


class LlmFoundryEngine:
    """MosaicML's LLM Foundry, which trains MPT."""

    name = EngineName.LLM_FOUNDRY
    version = "0.22.0"

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[OptionProblem]:
        """Say of each option that nobody has looked at it."""
        return [
            OptionProblem(
                EngineCode.UNCHECKED_OPTION,
                option,
                "options of LLM Foundry are passed through unchecked in this version.",
                "Look it up in LLM Foundry's own documentation.",
            )
            for option in options
        ]
