# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The CPU runtime: everything that lets the engine's own loop train on a CPU, put in place."""

import sys

from seatrial.worker.megatron.cpu.adam import offer_as_apex
from seatrial.worker.megatron.cpu.redirection import redirect
from seatrial.worker.megatron.engine_patches import ON_CPU, apply_patches


def install(*, with_wandb: bool = False) -> None:
    """Make this process ready for the engine on a CPU; before the engine is imported.

    Args:
        with_wandb: Whether the engine is going to use wandb, which it loads in any case.
    """
    if not with_wandb:
        # A quarter of the time that a rank takes to start; None makes the import fail, which the
        # engine allows for.
        sys.modules.setdefault("wandb", None)  # type: ignore[arg-type]
    redirect()
    offer_as_apex()
    apply_patches(ON_CPU)
