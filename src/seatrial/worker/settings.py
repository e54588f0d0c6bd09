# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the worker is told beside the engine's own arguments, through its environment."""

import os
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Any

from seatrial.monitoring.anomalies.detector import FABRIC_TRANSPORTS, Expectations

DEVICE = "SEATRIAL_DEVICE"
"""`cpu` asks for the CPU runtime; anything else leaves the engine alone."""
EVENTS = "SEATRIAL_EVENTS"
"""The file that the event log is appended to; no log without it."""
KILL = "SEATRIAL_DRILL_KILL"
"""`RANK:STEP`: a drill in which that process ends itself by SIGKILL after that step."""
REVISION = "SEATRIAL_TOKENIZER_REVISION"
"""The revision of a tokenizer on the Hugging Face Hub; the engine itself cannot ask for one."""
RUN = "SEATRIAL_RUN"
"""The run's name, which its metrics carry."""
METRICS_PORT = "SEATRIAL_METRICS_PORT"
"""The port that metrics are served at; none are without it."""
METRICS_ADDRESS = "SEATRIAL_METRICS_ADDRESS"
"""The address that metrics are served at; loopback without it."""
MLFLOW = "SEATRIAL_MLFLOW_EXPERIMENT"
"""The experiment of MLflow that events are sent to; none are without it."""
MLFLOW_URI = "MLFLOW_TRACKING_URI"
"""MLflow's own variable: the address of its server, or a directory."""
LOOPBACK = "127.0.0.1"
FABRIC = "SEATRIAL_FABRIC"
"""The fabric of the plan, by its name in the catalog; NCCL's choice is not judged without it."""
SAVE_SECONDS = "SEATRIAL_SAVE_SECONDS"
"""The plan's time of one save; saves are judged by those before without it."""
FAULT = "SEATRIAL_DRILL_FAULT"
"""A bug of `cpu/deliberate_bugs.py` or a fault of `fault_injection.py`; only tests set it."""
ATTEMPT = "SEATRIAL_ATTEMPT"
"""The attempt; starts that come to nothing are counted within one, and not without it."""
FRUITLESS = "SEATRIAL_FRUITLESS_STARTS"
"""Starts in a row without a new checkpoint after which the run stops; ours when absent."""
INITIAL_WEIGHTS = "SEATRIAL_INITIAL_WEIGHTS"
"""`hf://OWNER/NAME@REVISION` or a directory: Hugging Face weights that are brought in first."""
PARENT = "SEATRIAL_CONTINUE_FROM"
"""Where the checkpoints of the run lie that this one follows; none without it."""
PARENT_STEP = "SEATRIAL_CONTINUE_STEP"
"""The step of the parent to go on from; its newest good one without it."""
PARENT_ANEW = "SEATRIAL_CONTINUE_ANEW"
"""`1` begins the schedule of the learning rate anew there."""


class Device(StrEnum):
    """What the engine computes on."""

    GPU = "gpu"
    """A GPU, as the engine expects."""
    CPU = "cpu"
    """A CPU, where each engine's `cpu` makes up for the GPU that it asks for."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where metrics are served."""

    address: str
    """The address to listen at."""
    port: int
    """The port to listen at."""


@dataclass(frozen=True, slots=True)
class MlflowTarget:
    """Where events are sent in MLflow."""

    tracking_uri: str
    """The address of the server, or a directory."""
    experiment: str
    """The experiment that the run belongs to."""


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that this one follows."""

    address: str
    """Where its checkpoints lie."""
    step: int | None = None
    """The step to go on from; the newest good one when absent."""
    anew: bool = False
    """Whether the schedule of the learning rate begins anew."""


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
    rank: int = 0
    """This process's rank."""
    world_size: int = 1
    """How many ranks there are."""
    tokenizer_revision: str = ""
    """The revision of the tokenizer, where the spec pins one."""
    run: str = ""
    metrics: Endpoint | None = None
    """Where metrics are served; nowhere unless that was asked for."""
    attempt: str = ""
    """The attempt that this start belongs to; empty where nobody said."""
    fruitless_starts: int = 0
    """How many starts may come to nothing; 0 for the usual number."""
    mlflow: MlflowTarget | None = None
    """Where events are sent in MLflow; nowhere unless that was asked for."""
    initial_weights: str = ""
    """Hugging Face weights that are brought in before the first step; none when empty."""
    parent: Parent | None = None
    """The run that this one follows, where it follows one."""

    @property
    def writes_events(self) -> bool:
        """Whether this process keeps the log: the last rank, which holds the loss."""
        return self.events is not None and self.rank == self.world_size - 1

    @property
    def trouble(self) -> str:
        """The fault where it is one that begins in some step; empty where it is of the code."""
        return self.fault if ":" in self.fault else ""

    @property
    def kill_step(self) -> int | None:
        """The step after which this process is to end itself."""
        return self.kill[1] if self.kill and self.kill[0] == self.rank else None


def settings() -> Settings:
    """Read the settings from the environment."""
    events = os.environ.get(EVENTS)
    device = Device.CPU if os.environ.get(DEVICE) == Device.CPU else Device.GPU
    rank, _, step = os.environ.get(KILL, "").partition(":")
    # A drill kills once: processes that torchrun has started again live.
    drilled = device is Device.CPU
    first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    return Settings(
        device,
        Path(events) if events else None,
        (int(rank), int(step)) if step and first and drilled else None,
        os.environ.get(FAULT, "") if drilled else "",
        int(os.environ.get("RANK", "0")),
        int(os.environ.get("WORLD_SIZE", "1")),
        os.environ.get(REVISION, ""),
        os.environ.get(RUN, ""),
        _endpoint(),
        os.environ.get(ATTEMPT, ""),
        int(os.environ.get(FRUITLESS) or 0),
        _mlflow(),
        os.environ.get(INITIAL_WEIGHTS, ""),
        _parent(),
    )


def planned_save_seconds() -> float | None:
    """The plan's time of one save; what is no such number is none, which must not end a run."""
    try:
        seconds = float(os.environ.get(SAVE_SECONDS, ""))
    except ValueError:
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None


def _endpoint() -> Endpoint | None:
    """Where metrics are served; a port that is no number is none, which must not end a run."""
    port = os.environ.get(METRICS_PORT, "")
    if not port.isdecimal():
        return None
    return Endpoint(os.environ.get(METRICS_ADDRESS) or LOOPBACK, int(port))


def _mlflow() -> MlflowTarget | None:
    """Where events are sent in MLflow, if anywhere."""
    address, experiment = os.environ.get(MLFLOW_URI, ""), os.environ.get(MLFLOW, "")
    return MlflowTarget(address, experiment) if address and experiment else None


def _parent() -> Parent | None:
    """The run that this one follows, if any."""
    address, step = os.environ.get(PARENT, ""), os.environ.get(PARENT_STEP, "")
    if not address:
        return None
    return Parent(address, int(step) if step else None, os.environ.get(PARENT_ANEW) == "1")


def expected(settings: Any) -> Expectations:
    """What is expected, as the engine's own arguments and the plan have it."""
    return Expectations(
        save_seconds=planned_save_seconds(),
        transport=FABRIC_TRANSPORTS.get(os.environ.get(FABRIC, "")),
        clip_grad_norm=settings.clip_grad,
        save_every_steps=(settings.save_interval or 0) if settings.save else 0,
        evaluate_every_steps=(settings.eval_interval or 0) if settings.eval_iters else 0,
    )
