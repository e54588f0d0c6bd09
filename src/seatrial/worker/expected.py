# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What silence and slowness of a training are judged by."""

import os
from typing import Any

from seatrial.monitoring.anomalies.expectations import FABRIC_TRANSPORTS, Expectations
from seatrial.worker.settings import FABRIC, planned_save_seconds


def expected(settings: Any) -> Expectations:
    """What is expected, as the engine's own arguments and the plan have it."""
    return Expectations(
        save_seconds=planned_save_seconds(),
        transport=FABRIC_TRANSPORTS.get(os.environ.get(FABRIC, "")),
        clip_grad_norm=settings.clip_grad,
        save_every_steps=(settings.save_interval or 0) if settings.save else 0,
        evaluate_every_steps=(settings.eval_interval or 0) if settings.eval_iters else 0,
    )
