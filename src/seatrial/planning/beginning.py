# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where the state lies that a run begins from: its parent's checkpoints, or weights brought in."""

from seatrial.planning.plan import Plan
from seatrial.spec.run import RunSpec

BROUGHT_IN = "initial-weights"
"""The directory beside a run's checkpoints that Hugging Face weights are brought into."""


def parent_location(spec: RunSpec) -> str:
    """Where the parent's checkpoints lie: as the spec says, or where it would have them."""
    parent = spec.continue_from
    if parent is None:
        return ""
    mount = spec.cluster.storage.mount.rstrip("/")
    return parent.checkpoints or f"{mount}/{parent.run}/checkpoints"


def weights_location(plan: Plan) -> str | None:
    """The checkpoint whose weights a run begins with; none where they are drawn.

    Those of Hugging Face are made one by the worker, before the first step of the run.
    """
    weights = plan.spec.initial_weights
    if weights is None:
        return None
    return weights.checkpoint or f"{plan.checkpoint_location.rstrip('/')}/{BROUGHT_IN}"
