# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for NVIDIA's `pynvml`: GPUs that a test makes up. No GPU and no driver are involved.

It has the functions and constants that `worker/node/nvml.py` calls, with the names, units and
errors of nvidia-ml-py 13. `tests/engine/nvml_stand_in.c` stands in for the driver's library below
the real package.
"""

from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace


class NVMLError(Exception):
    """The base of all errors of the real package."""


@dataclass
class StandInGpu:
    """A made-up GPU; None for a question that it does not support."""

    utilisation: int | None = 97
    memory: int | None = 60 << 30
    milliwatts: int | None = 650_000
    clock: int | None = 1755
    temperature: int | None = 64
    reasons: int | None = 0
    ecc: int | None = 0
    rows: tuple[int, int, int, int] | None = (0, 0, 0, 0)
    xids: list[int] = field(default_factory=list)


def _known[T](value: T | None) -> T:
    if value is None:
        raise NVMLError("Not Supported")
    return value


def stand_in(gpus: list[StandInGpu], *, driver: str = "580.82.07", old: bool = False) -> ModuleType:
    """A module with these GPUs; with `old`, only the name that older packages have."""
    module = ModuleType("pynvml")
    reasons = "Throttle" if old else "Event"
    made = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": 1,
        "NVML_TEMPERATURE_GPU": 0,
        "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1,
        "NVML_VOLATILE_ECC": 0,
        "nvmlEventTypeXidCriticalError": 8,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: len(gpus),
        "nvmlDeviceGetHandleByIndex": lambda index: gpus[index],
        "nvmlSystemGetDriverVersion": lambda: driver,
        "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(gpu=_known(gpu.utilisation)),
        "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(used=_known(gpu.memory)),
        "nvmlDeviceGetPowerUsage": lambda gpu: _known(gpu.milliwatts),
        "nvmlDeviceGetClockInfo": lambda gpu, kind: _known(gpu.clock),
        "nvmlDeviceGetTemperature": lambda gpu, sensor: _known(gpu.temperature),
        "nvmlDeviceGetRemappedRows": lambda gpu: _known(gpu.rows),
        "nvmlDeviceGetTotalEccErrors": lambda gpu, kind, counter: _known(gpu.ecc),
        f"nvmlDeviceGetCurrentClocks{reasons}Reasons": lambda gpu: _known(gpu.reasons),
        "nvmlEventSetCreate": list,
        "nvmlDeviceRegisterEvents": lambda gpu, kinds, events: events.append(gpu),
        "nvmlEventSetWait_v2": _next_event,
    }
    for name, value in made.items():
        setattr(module, name, value)
    return module


def _next_event(events: list[StandInGpu], timeout: int) -> SimpleNamespace:
    for gpu in events:
        if gpu.xids:
            return SimpleNamespace(eventData=gpu.xids.pop(0))
    raise NVMLError("Timeout")
