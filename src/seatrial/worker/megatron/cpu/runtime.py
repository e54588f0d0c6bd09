# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The CPU runtime: installs the replacements that let the engine's loop train on CPU."""

import sys

from seatrial.worker.megatron.cpu.adam import offer_as_apex
from seatrial.worker.megatron.cpu.redirection import redirect
from seatrial.worker.megatron.engine_patches import ON_CPU, apply_patches


def install(*, with_wandb: bool = False) -> None:
    """Prepare this process for the engine on CPU. Call this before importing the engine.

    Args:
        with_wandb: True if the engine will use wandb, which it always tries to import.
    """
    if not with_wandb:
        # Importing wandb takes a quarter of a rank's startup time. None makes the import fail,
        # which the engine handles.
        sys.modules.setdefault("wandb", None)  # type: ignore[arg-type]
    redirect()
    offer_as_apex()
    apply_patches(ON_CPU)
