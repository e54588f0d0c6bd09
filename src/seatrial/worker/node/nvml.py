# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read GPUs through NVML: utilisation, memory, power, clocks, throttling, ECC and Xid errors.

Uses `pynvml` of the package nvidia-ml-py if it is installed, and the driver's library. Without
either there are no readings, and no error: training does not need them.
"""

import importlib
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

THROTTLE_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bits of NVML's clock event reasons that mean that a busy GPU is slower than it could be."""
KERNEL_LOG = "/dev/kmsg"
_XID = re.compile(rb"NVRM: Xid \(PCI:[0-9a-fA-F:.]+\): (\d+)")


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The state of one GPU. None for what the GPU or the driver does not report."""

    name: str
    utilisation: float | None
    """Share of the recent time in which a kernel ran, 0 to 1."""
    memory_bytes: float | None
    """Device memory in use."""
    power_watts: float | None
    power_limit_watts: float | None
    clock_mhz: float | None
    """Current clock of the multiprocessors."""
    max_clock_mhz: float | None
    temperature: float | None
    """Degrees Celsius."""
    throttle: int | None
    """NVML's clock event reasons, as a bit mask."""
    ecc_errors: int | None
    """Uncorrectable ECC errors since the driver was loaded."""
    needs_reset: bool
    """True if faulty memory rows will be replaced at the next reset of the GPU."""

    @property
    def throttle_reasons(self) -> tuple[str, ...]:
        return throttle_reasons(self.throttle or 0)


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Return the names of the reasons for which a GPU is throttled."""
    return tuple(name for bit, name in THROTTLE_REASONS.items() if mask & bit)


class Nvml:
    """The GPUs of this process, as NVML numbers them."""

    def __init__(self, library: ModuleType) -> None:
        self._nvml = library
        count = int(library.nvmlDeviceGetCount())
        self._handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self._events: Any = None

    @property
    def count(self) -> int:
        return len(self._handles)

    def driver(self) -> str:
        """Return the version of the driver; empty if unknown."""
        return str(self._ask(self._nvml.nvmlSystemGetDriverVersion) or "")

    def read(self, index: int) -> GpuReading:
        """Return the state of a GPU now."""
        nvml, handle = self._nvml, self._handles[index]
        used = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        rows = self._ask(nvml.nvmlDeviceGetRemappedRows, handle)
        # Renamed in the driver; older versions of the package have only the old name.
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        reasons = reasons or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        return GpuReading(
            name=str(self._ask(nvml.nvmlDeviceGetName, handle) or ""),
            utilisation=None if used is None else used.gpu / 100,
            memory_bytes=None if memory is None else float(memory.used),
            power_watts=self._scaled(nvml.nvmlDeviceGetPowerUsage, handle),
            power_limit_watts=self._scaled(nvml.nvmlDeviceGetEnforcedPowerLimit, handle),
            clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            max_clock_mhz=self._ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
            temperature=self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            throttle=self._ask(reasons, handle),
            ecc_errors=self._ask(
                nvml.nvmlDeviceGetTotalEccErrors,
                handle,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            ),
            needs_reset=bool(rows is not None and (rows[2] or rows[3])),
        )

    def watch_xids(self) -> None:
        """Collect Xid errors from now on."""
        nvml = self._nvml
        with suppress(nvml.NVMLError):
            self._events = nvml.nvmlEventSetCreate()
            for handle in self._handles:
                nvml.nvmlDeviceRegisterEvents(
                    handle, nvml.nvmlEventTypeXidCriticalError, self._events
                )

    def new_xids(self) -> tuple[int, ...]:
        """Return the Xid errors since the last call."""
        found: list[int] = []
        # The wait raises a timeout if there is no event. The limit ends a flood of errors.
        with suppress(self._nvml.NVMLError):
            while self._events is not None and len(found) < 100:
                found.append(int(self._nvml.nvmlEventSetWait_v2(self._events, 0).eventData))
        return tuple(found)

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call NVML; return None if the GPU does not support the question."""
        try:
            return function(*arguments)
        except self._nvml.NVMLError:
            return None

    def _scaled(self, function: Callable[..., Any], handle: Any) -> float | None:
        """Return watts, which NVML states in milliwatts."""
        value = self._ask(function, handle)
        return None if value is None else float(value) / 1000


def open_nvml() -> Nvml | None:
    """Open NVML; None without the package, the driver's library, or a GPU."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        library.nvmlInit()
        found = Nvml(library)
    except (library.NVMLError, AttributeError) as error:
        if "not found" not in str(error).lower():
            sys.stderr.write(f"seatrial: cannot read GPUs through NVML: {error}\n")
        return None
    return found if found.count else None


def xids_in(log: bytes) -> tuple[int, ...]:
    """Return the Xid errors in a kernel log, each once."""
    return tuple(sorted({int(found) for found in _XID.findall(log)}))
