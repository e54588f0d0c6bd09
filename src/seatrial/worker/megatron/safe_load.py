# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron's own loaders, replaced by Seatrial's (`worker/checkpointing/safe_load.py`)."""

import sys
from typing import Any, BinaryIO

from seatrial.checkpoints.fp8_rules import EXTRA_STATE_RULES
from seatrial.worker.checkpointing import safe_load


def install() -> None:
    """Route all checkpoint loading in this process through Seatrial's loader.

    Call this after importing Megatron, which replaces torch's loader with its own.
    """
    safe_load.install()
    own = sys.modules.get("megatron.core.safe_globals")
    if own is not None:
        # Pickles from Megatron's processes name this function.
        own.safe_load_from_bytes = safe_load.load_from_bytes  # type: ignore[attr-defined]
        # Megatron's layers import this when they load their state.
        own.SafeUnpickler = _ExtraStateUnpickler  # type: ignore[attr-defined]
    for name, module in list(sys.modules.items()):
        if name.startswith("megatron.") and "safe_numpy_load" in vars(module):
            # Megatron's indices are numbers, which need no pickle.
            module.safe_numpy_load = safe_load.load_numbers  # type: ignore[attr-defined]


class _ExtraStateUnpickler:
    """Replaces Megatron's SafeUnpickler, whose allow-list does not restrict arguments.

    It reads FP8 state, which is stored in the bytes of a tensor.
    """

    def __init__(self, file: BinaryIO, **_: Any) -> None:
        self._file = file

    def load(self) -> Any:
        return safe_load.load_pickle(self._file.read(), EXTRA_STATE_RULES)
