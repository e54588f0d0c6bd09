# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The process that saves beside the training, on a CPU.

The engine starts it anew (`spawn`), so it has none of what was put in place for the training: it
would ask for a GPU, end, and leave the training to wait for a save that never comes.
"""

from importlib import import_module
from typing import Any

from seatrial.worker.cpu.ending import end_with_parent
from seatrial.worker.cpu.redirection import redirect


def async_loop(*args: Any, **kwargs: Any) -> None:
    """The engine's own loop, after torch.cuda has its answers here too."""
    end_with_parent()
    redirect()
    engine = import_module("megatron.core.dist_checkpointing.strategies.async_utils")
    engine.PersistentAsyncCaller.async_loop(*args, **kwargs)
