# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The environment that the engine and the worker ask for, beside that of the fabric."""

from seatrial.planning.beginning import parent_location
from seatrial.planning.plan import Plan
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.parallelism import Sharding


def engine_environment(plan: Plan) -> dict[str, str]:
    """Variables without which the engine refuses the plan, or would run another one.

    Tensor and context parallelism want one connection, so that communication is issued in order;
    FSDP wants more than one (`megatron/training/arguments.py`, validate_args).
    """
    wanted = {}
    if plan.sharding is Sharding.FSDP:
        wanted["CUDA_DEVICE_MAX_CONNECTIONS"] = "8"
    elif plan.layout.tp_size > 1 or plan.layout.cp_size > 1:
        wanted["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    revision = tokenizer_name(plan.model.tokenizer)[1]
    if revision:
        # The engine has no flag for it; the worker fetches that revision first.
        wanted["SEATRIAL_TOKENIZER_REVISION"] = revision
    return wanted | _beginning(plan)


def _beginning(plan: Plan) -> dict[str, str]:
    """What the worker brings in or goes on from; the engine has no flag for either."""
    weights, parent = plan.spec.initial_weights, plan.spec.continue_from
    if weights is not None and weights.huggingface is not None:
        return {"SEATRIAL_INITIAL_WEIGHTS": weights.huggingface}
    if parent is None:
        return {}
    told = {"SEATRIAL_CONTINUE_FROM": parent_location(plan.spec)}
    if parent.step != "latest":
        told["SEATRIAL_CONTINUE_STEP"] = str(parent.step)
    if parent.reset_schedule:
        told["SEATRIAL_CONTINUE_ANEW"] = "1"
    return told
