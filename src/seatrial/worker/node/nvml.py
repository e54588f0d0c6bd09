# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read GPUs through NVML: utilisation, memory, power, clocks, throttling, ECC and Xid errors.

Uses `pynvml` of the package nvidia-ml-py if it is installed, and the driver's library. Without
either there are no readings, and no error: training does not need them.
"""

import importlib
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

KERNEL_LOG = "/dev/kmsg"
MOST_XIDS = 100
_XID = re.compile(rb"NVRM: Xid \(PCI:[0-9a-fA-F:.]+\): (\d+)")


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The state of one GPU. None for what the GPU or the driver does not report."""

    utilisation: float | None
    """Share of the recent time in which a kernel ran, 0 to 1."""
    memory_bytes: float | None
    """Device memory in use."""
    power_watts: float | None
    clock_mhz: float | None
    """Current clock of the multiprocessors."""
    temperature: float | None
    """Degrees Celsius."""
    throttle: int | None
    """NVML's clock event reasons, as a bit mask."""
    ecc_errors: int | None
    """Uncorrectable ECC errors since the driver was loaded."""
    needs_reset: bool
    """True if faulty memory rows will be replaced at the next reset of the GPU."""


class Nvml:
    """The GPUs of this process, as NVML numbers them."""

    def __init__(self, library: ModuleType) -> None:
        self._nvml = library
        count = int(library.nvmlDeviceGetCount())
        self._handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self._events: dict[int, Any] = {}

    @property
    def count(self) -> int:
        return len(self._handles)

    def driver(self) -> str:
        """Return the version of the driver; empty if unknown."""
        return str(self._ask("nvmlSystemGetDriverVersion") or "")

    def read(self, index: int) -> GpuReading:
        """Return the state of a GPU now."""
        nvml, handle = self._nvml, self._handles[index]
        used = self._ask("nvmlDeviceGetUtilizationRates", handle)
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        # Corrected, uncorrected, pending, failed.
        rows = self._ask("nvmlDeviceGetRemappedRows", handle)
        throttle = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if throttle is None:
            # The name in older versions of the package and the driver.
            throttle = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        errors = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
        return GpuReading(
            utilisation=None if used is None else used.gpu / 100,
            memory_bytes=None if memory is None else float(memory.used),
            power_watts=_watts(self._ask("nvmlDeviceGetPowerUsage", handle)),
            clock_mhz=self._ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
            temperature=self._ask("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            throttle=throttle,
            ecc_errors=self._ask("nvmlDeviceGetTotalEccErrors", handle, *errors),
            needs_reset=bool(rows is not None and (rows[2] or rows[3])),
        )

    def watch_xids(self) -> None:
        """Collect Xid errors of each GPU from now on."""
        nvml = self._nvml
        for index, handle in enumerate(self._handles):
            with suppress(nvml.NVMLError, AttributeError):
                events = nvml.nvmlEventSetCreate()
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
                self._events[index] = events

    def new_xids(self, index: int) -> tuple[int, ...]:
        """Return the Xid errors of a GPU since the last call."""
        events, found = self._events.get(index), list[int]()
        # The limit ends a flood of errors.
        while events is not None and len(found) < MOST_XIDS:
            # Without an event, it raises a timeout.
            event = self._ask("nvmlEventSetWait_v2", events, 0)
            if event is None:
                break
            found.append(int(event.eventData))
        return tuple(found)

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Call NVML; return None if the GPU, the driver or the package does not support it."""
        try:
            return getattr(self._nvml, name)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None


def _watts(milliwatts: float | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def open_nvml() -> Nvml | None:
    """Open NVML; None without the package, the driver's library, or a GPU."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        library.nvmlInit()
        found = Nvml(library)
    except Exception as error:
        # Whatever is wrong with the driver, training continues without readings.
        if "not found" not in str(error).lower():
            sys.stderr.write(f"seatrial: cannot read GPUs through NVML: {error}\n")
        return None
    return found if found.count else None


def xids_in(log: bytes) -> tuple[int, ...]:
    """Return the Xid errors in a kernel log, each once."""
    return tuple(sorted({int(found) for found in _XID.findall(log)}))
