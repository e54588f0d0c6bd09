# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's own training loop, from the megatron-core package."""

from collections.abc import Mapping

from seatrial.engines.engine import OptionProblem
from seatrial.engines.megatron.options import option_problems
from seatrial.spec.engine import EngineName, OptionValue


class MegatronEngine:
    """The engine that the field trains with."""

    name = EngineName.MEGATRON
    version = "0.19.2"

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[OptionProblem]:
        """What is wrong with options that a spec passes through to Megatron."""
        return option_problems(options)
