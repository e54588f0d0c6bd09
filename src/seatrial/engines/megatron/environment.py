# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The environment that the engine asks for, beside that of the fabric."""

from seatrial.planning.plan import Plan
from seatrial.spec.parallelism import Sharding


def engine_environment(plan: Plan) -> dict[str, str]:
    """Variables without which the engine refuses the plan.

    Tensor and context parallelism want one connection, so that communication is issued in order;
    FSDP wants more than one (`megatron/training/arguments.py`, validate_args).
    """
    if plan.sharding is Sharding.FSDP:
        return {"CUDA_DEVICE_MAX_CONNECTIONS": "8"}
    if plan.layout.tp_size > 1 or plan.layout.cp_size > 1:
        return {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    return {}
