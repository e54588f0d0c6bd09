# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The process that saves beside the training: it too hashes what it writes.

The engine starts it anew, so that it has nothing of what was put in place for the training.
"""

from importlib import import_module
from typing import Any

from seatrial.worker.settings import Device, settings


def async_loop(*args: Any, **kwargs: Any) -> None:
    """The engine's own loop, after the writer is prepared, and on a CPU the runtime."""
    if settings().device is Device.CPU:
        # Else it asks for a GPU, ends, and leaves the training to wait for a save for ever.
        import_module("seatrial.worker.process").end_with_parent()
        import_module("seatrial.worker.megatron.cpu.redirection").redirect()
    import_module("seatrial.worker.megatron.commit_digests").install_writing()
    engine = import_module("megatron.core.dist_checkpointing.strategies.async_utils")
    engine.PersistentAsyncCaller.async_loop(*args, **kwargs)
