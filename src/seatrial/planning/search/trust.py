# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How far the time of a layout is to be trusted, with what nobody has measured of it."""

from seatrial.planning.timing.constants import Constants, table
from seatrial.planning.timing.error import StepTimeError, expected_error, is_measured
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Sharding

MEASURED_FSDP = ("llm-foundry",)
"""Stacks with published runs that share out everything; of Megatron's FSDP there are none."""


def time_error(workload: Workload, constants: Constants) -> StepTimeError:
    """The error to expect of a step's time; of Megatron's FSDP, that of the unseen at least."""
    found = expected_error(workload, constants)
    if workload.sharding is not Sharding.FSDP or workload.stack in MEASURED_FSDP:
        return found
    if is_measured(workload, constants):
        return found
    known = table()
    return StepTimeError(
        max(found.median, known.unseen_error),
        max(found.nine_of_ten, known.unseen_error_nine_of_ten),
        (*found.beyond, f"fsdp, of which no run with {workload.stack} was fitted"),
    )
