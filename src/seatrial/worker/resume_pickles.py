# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Loading without running: the engine's own loading, with pickles that may name little.

torch reads the list of tensors with a plain unpickler, and objects with one that may do anything
(2.13.0, `torch/distributed/checkpoint/filesystem.py` and `default_planner.py`). Here the first
knows the classes of such a list and no other, and the second is torch's own for weights only.
"""

import os
import pickle
from typing import Any

from torch.distributed.checkpoint import filesystem

from seatrial.checkpoints.pickles import METADATA_GLOBALS

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""torch's own switch; it holds where a caller asks for the opposite."""


class RestrictedUnpickler(pickle.Unpickler):
    """Makes the classes of a list of tensors, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """The class; UnpicklingError for any that such a list does not need."""
        if (module, name) not in METADATA_GLOBALS:
            raise pickle.UnpicklingError(
                f"the list of tensors asks for {module}.{name}, which no checkpoint needs; "
                "nothing of it was run"
            )
        return super().find_class(module, name)


class _RestrictedPickle:
    """The module `pickle`, as far as the engine's reader of checkpoints is concerned."""

    def __getattr__(self, name: str) -> Any:
        return getattr(pickle, name)

    @staticmethod
    def load(file: Any, **_: Any) -> Any:
        return RestrictedUnpickler(file).load()


def install() -> None:
    """Restrict what this process unpickles of checkpoints."""
    os.environ[WEIGHTS_ONLY] = "1"
    filesystem.pickle = _RestrictedPickle()
