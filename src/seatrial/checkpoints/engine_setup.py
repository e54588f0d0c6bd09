# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the checkpoints of a plan would depend on, for each engine."""

from collections.abc import Callable, Mapping
from typing import Any

from seatrial.checkpoints.arguments import setup_from_arguments
from seatrial.checkpoints.settings import setup_from_settings
from seatrial.checkpoints.setup import Setup, Versions
from seatrial.engines.registry import ENGINES
from seatrial.planning.plan import Plan
from seatrial.spec.engine import EngineName
from seatrial.version import VERSION

Reading = Callable[[Mapping[str, Any], Versions, int], Setup]
"""Reads a setup from an engine's arguments."""

SETUPS: Mapping[EngineName, Reading] = {
    EngineName.MEGATRON: setup_from_arguments,
    EngineName.LLM_FOUNDRY: setup_from_settings,
}
"""How each engine's arguments are read."""


def setup_of(plan: Plan) -> Setup:
    """What the plan's own checkpoints would depend on."""
    engine = ENGINES[plan.spec.engine.name]
    versions = Versions(VERSION, engine.package, "")
    return SETUPS[engine.name](engine.arguments(plan), versions, plan.layout.world_size)
