# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the worker is told beside the engine's own arguments, through its environment."""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

DEVICE = "SEATRIAL_DEVICE"
"""`cpu` asks for the CPU runtime; anything else leaves the engine alone."""
EVENTS = "SEATRIAL_EVENTS"
"""The file that the event log is appended to; no log without it."""
KILL = "SEATRIAL_DRILL_KILL"
"""`RANK:STEP`: a drill in which that process ends itself by SIGKILL after that step."""
FAULT = "SEATRIAL_DRILL_FAULT"
"""A name of `worker/faults.py`; only tests set it."""


class Device(StrEnum):
    """What the engine computes on."""

    GPU = "gpu"
    """A GPU, as the engine expects."""
    CPU = "cpu"
    """A CPU, through the redirection of `seatrial.worker.cpu`."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The worker's own settings."""

    device: Device
    """What the engine computes on."""
    events: Path | None
    """The file of the event log."""
    kill: tuple[int, int] | None = None
    """Rank and step of a drill's kill."""
    fault: str = ""
    """A deliberate fault of the CPU runtime, for tests of the bars themselves."""


def settings() -> Settings:
    """Read the settings from the environment."""
    events = os.environ.get(EVENTS)
    device = Device.CPU if os.environ.get(DEVICE) == Device.CPU else Device.GPU
    rank, _, step = os.environ.get(KILL, "").partition(":")
    kill = (int(rank), int(step)) if step else None
    fault = os.environ.get(FAULT, "")
    return Settings(device, Path(events) if events else None, kill, fault)
