# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Environment variables that a program of the worker sets for itself and for what it starts.

torch, NCCL and the engines read these from the environment alone, most of them while they are
loaded. Each program calls `set_variables` once, at its start; nothing else in the worker writes to
the environment.
"""

import os
from collections.abc import Mapping

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""torch's own switch; `1` holds where a caller asks for the opposite, and in child processes."""
ANY_PICKLE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
"""The opposite of it; with both, torch loads nothing."""
ON_CPU = {"TORCHDYNAMO_DISABLE": "1"}
"""No compilation."""
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""For ranks, which share the cores of a host."""


def set_variables(
    always: Mapping[str, str] | None = None, unless_set: Mapping[str, str] | None = None
) -> None:
    """Set what every program needs to load checkpoints safely, and what this one needs.

    Args:
        always: Set whatever the user has set.
        unless_set: Set where the user has set nothing.
    """
    os.environ.pop(ANY_PICKLE, None)
    os.environ.update({WEIGHTS_ONLY: "1", **(always or {})})
    for name, value in (unless_set or {}).items():
        os.environ.setdefault(name, value)
