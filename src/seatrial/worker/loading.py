# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine is told while it loads: the step that was chosen, and nothing beside it."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from seatrial.checkpoints.stopping import StopCode, StopError


@contextmanager
def loading(told: Namespace, step: int | None) -> Iterator[None]:
    """Have the engine load a step, and end with a code that says so where it cannot.

    Args:
        told: The engine's arguments. They become a part of what is saved, and the choice must not:
            they are as before afterwards.
        step: The step that was chosen; none leaves it to the engine.
    """
    asked, beside = told.ckpt_step, told.non_persistent_ckpt_type
    # The engine prefers its non-persistent checkpoints where they are as new
    # (checkpointing.py, _load_base_checkpoint), and nothing verifies those.
    told.non_persistent_ckpt_type = None
    if step is not None:
        told.ckpt_step = step
    try:
        yield
    except SystemExit as end:
        # The engine ends with 0 where it cannot read its tracker or a checkpoint.
        if end.code:
            raise
        raise StopError(
            StopCode.NO_CHECKPOINT,
            f"{told.load}: the engine gave up loading. See its last lines for the reason.",
        ) from end
    finally:
        told.ckpt_step, told.non_persistent_ckpt_type = asked, beside
