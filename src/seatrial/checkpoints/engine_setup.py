# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the checkpoints of a plan would depend on, as its engine says."""

from seatrial.checkpoints.setup import Setup, Versions
from seatrial.planning.plan import Plan
from seatrial.spec.engine import engine_named
from seatrial.version import VERSION


def setup_of(plan: Plan) -> Setup:
    """What the plan's own checkpoints would depend on."""
    engine = engine_named(plan.spec.engine.name)
    versions = Versions(VERSION, engine.package, "")
    arguments, ranks = engine.arguments(plan), plan.layout.world_size
    setup: Setup = engine.checkpoints.setup(arguments, versions, ranks)
    return setup
