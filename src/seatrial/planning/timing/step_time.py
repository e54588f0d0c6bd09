# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How long an optimizer step takes, part by part."""

from seatrial.planning.timing.constants import Constants
from seatrial.planning.timing.formula import part_times, pieces
from seatrial.planning.timing.parts import StepTime
from seatrial.planning.timing.quantities import quantities
from seatrial.planning.timing.traffic import stage_counts
from seatrial.planning.workload import Workload


def step_time(workload: Workload, constants: Constants) -> StepTime:
    """The predicted time of one optimizer step of the workload."""
    counts = stage_counts(workload)
    sizes, rates = quantities(workload, counts), constants.rates_for(workload)
    each = pieces(sizes, rates)
    scale = constants.scale
    parts = {part: scale * seconds for part, seconds in part_times(sizes, each, rates).items()}
    stages = tuple(scale * each.stage(count) for count in counts)
    return StepTime(
        parts=parts,
        stages=stages,
        model_flops=sizes.model_flops,
        gpus=workload.layout.world_size,
        error=constants.error_for(workload),
    )
