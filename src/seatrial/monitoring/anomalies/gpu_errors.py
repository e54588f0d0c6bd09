# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""GPUs that report errors, or that are throttled."""

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Seen, Symptom
from seatrial.monitoring.event_log import Event
from seatrial.monitoring.gpus import FAULTY, gpu_state, throttle_reasons

IN_A_ROW = 3
"""Readings for which a GPU must be throttled."""

ERROR_RULE = AnomalyRule(
    AnomalyCode.GPU_ERROR,
    "GPU error",
    Severity.ERROR,
    "A GPU reports an Xid error, or more uncorrectable ECC errors than at the start.",
    "The first reading: every tenth logged step, and the first.",
    "An uncorrectable error means that data in GPU memory was lost. Most Xid errors end the "
    "process that used the GPU; those that do not are often followed by one that does.",
    "Look up the Xid in NVIDIA's documentation (Xid Errors). Exclude the node, and reset or "
    "replace the GPU. If the loss is unusual since that step, go back to an earlier checkpoint.",
    calm=1,
)
THROTTLE_RULE = AnomalyRule(
    AnomalyCode.GPU_THROTTLED,
    "Throttled GPU",
    Severity.WARNING,
    "A GPU reports a hardware slowdown, a hardware thermal slowdown, or a power brake.",
    f"{IN_A_ROW} readings in a row.",
    "All ranks wait for the slowest GPU, and a hardware slowdown halves its clocks or worse. A "
    "power cap is not reported: large GPUs reach it in normal training.",
    "Check cooling and power supply of the node (nvidia-smi -q -d PERFORMANCE,TEMPERATURE). "
    "Exclude the node if it stays throttled.",
    calm=IN_A_ROW,
)


class GpuErrors:
    """Watches for Xid errors and for new ECC errors."""

    rule = ERROR_RULE

    def __init__(self) -> None:
        self._before: dict[int, int] | None = None

    def observe(self, event: Event) -> Seen:
        state = gpu_state(event)
        if state is None:
            return None
        before = dict(state.ecc_errors) if self._before is None else self._before
        self._before = dict(state.ecc_errors)
        found = [
            Symptom(f"The GPU of rank {rank} reports Xid {xid}.", str(xid), event.step, _of(rank))
            for rank, xid in state.xids.items()
        ]
        for rank, errors in state.ecc_errors.items():
            new = errors - before.get(rank, 0)
            if new > 0 and rank not in state.xids:
                message = f"The GPU of rank {rank} has {new} new uncorrectable ECC errors."
                found.append(Symptom(message, str(new), event.step, _of(rank)))
        return found


class GpuThrottling:
    """Watches for GPUs that stay throttled by their hardware."""

    rule = THROTTLE_RULE

    def __init__(self) -> None:
        self._since: dict[int, tuple[int, int]] = {}
        """The first step and the number of readings, by throttled rank."""

    def observe(self, event: Event) -> Seen:
        state = gpu_state(event)
        if state is None:
            return None
        slow = {rank: mask for rank, mask in state.throttled.items() if mask & FAULTY}
        known = ((rank, self._since.get(rank, (event.step, 0))) for rank in slow)
        self._since = {rank: (since, count + 1) for rank, (since, count) in known}
        found = []
        for rank, (since, count) in self._since.items():
            if count >= IN_A_ROW:
                reasons = ", ".join(throttle_reasons(slow[rank] & FAULTY))
                message = f"The GPU of rank {rank} is throttled: {reasons}."
                found.append(Symptom(message, reasons, since, _of(rank)))
        return found


def _of(rank: int) -> str:
    return f"rank {rank}"
