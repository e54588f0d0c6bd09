# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Environment variables that a worker program sets for itself and its child processes.

torch, NCCL and the engines read these only from the environment, most of them at import. Each
program calls `set_variables` once, at its start. No other code in the worker writes to the
environment.
"""

import os
from collections.abc import Mapping

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""torch's own switch. `1` overrides callers that request the opposite, also in child processes."""
ANY_PICKLE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
"""The opposite switch; if both are set, torch refuses to load."""
ON_CPU = {"TORCHDYNAMO_DISABLE": "1"}
"""Disables compilation."""
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""For ranks, which share a host's cores."""


def set_variables(
    always: Mapping[str, str] | None = None, unless_set: Mapping[str, str] | None = None
) -> None:
    """Set the variables for safe loading of checkpoints, and this program's own variables.

    Args:
        always: Values that override the user's values.
        unless_set: Defaults that the user can override.
    """
    os.environ.pop(ANY_PICKLE, None)
    os.environ.update({WEIGHTS_ONLY: "1", **(always or {})})
    for name, value in (unless_set or {}).items():
        os.environ.setdefault(name, value)
