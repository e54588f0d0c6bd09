# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How long an optimizer step takes, part by part."""

from seatrial.planning.timing.constants import Constants
from seatrial.planning.timing.formula import part_times, transfer_time
from seatrial.planning.timing.layer_times import known_counts, layer_times
from seatrial.planning.timing.parts import StepTime
from seatrial.planning.timing.quantities import step_quantities
from seatrial.planning.workload import Workload


def step_time(workload: Workload, constants: Constants) -> StepTime:
    """The predicted time of one optimizer step of the workload."""
    rates, scale = constants.rates_for(workload), constants.scale
    known = layer_times(workload, rates)
    counts = known_counts(workload)
    sizes = step_quantities(workload, known.layer, counts)
    parts = part_times(sizes, known.times, rates)
    if scale != 1.0:
        parts = {part: scale * seconds for part, seconds in parts.items()}
    transfer = transfer_time(sizes.pipeline, rates)
    kinds = {counts.each[0], *counts.between, counts.each[-1]}
    each = {count: scale * (known.times.stage(count) + transfer) for count in kinds}
    return StepTime(
        parts=parts,
        stages=tuple(map(each.__getitem__, counts.each)),
        model_flops=sizes.model_flops,
        gpus=workload.layout.world_size,
        error=constants.error_for(workload),
    )
