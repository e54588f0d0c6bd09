# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The worker's settings in addition to the engine's arguments, from environment variables."""

import os
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import Any

from seatrial.monitoring.anomalies.detector import FABRIC_TRANSPORTS, Expectations

DEVICE = "SEATRIAL_DEVICE"
"""`cpu` selects the CPU runtime; any other value leaves the engine unchanged."""
EVENTS = "SEATRIAL_EVENTS"
"""The event log file; if unset, no event log is written."""
KILL = "SEATRIAL_DRILL_KILL"
"""`RANK:STEP`: in a drill, this rank kills itself with SIGKILL after this step."""
REVISION = "SEATRIAL_TOKENIZER_REVISION"
"""The revision of a tokenizer on the Hugging Face Hub; the engine has no option for a revision."""
DATASET = "SEATRIAL_DATASET"
"""The location of the data set, which may have a copy of the tokenizer; optional."""
TOKENIZER_SOURCE = "SEATRIAL_TOKENIZER_SOURCE"
"""The address of a tokenizer in an object store; optional."""
TOKENIZER = "SEATRIAL_TOKENIZER"
"""Directory with the data set's copy of the tokenizer. The supervisor sets it, if there is one."""
TOKENIZER_DIGEST = "SEATRIAL_TOKENIZER_DIGEST"
"""The digest of that copy."""
RUN = "SEATRIAL_RUN"
"""The run's name, used as a label on its metrics."""
METRICS_PORT = "SEATRIAL_METRICS_PORT"
"""The port of the metrics endpoint; if unset, there is no endpoint."""
METRICS_ADDRESS = "SEATRIAL_METRICS_ADDRESS"
"""The address of the metrics endpoint; loopback by default."""
MLFLOW = "SEATRIAL_MLFLOW_EXPERIMENT"
"""The MLflow experiment for events; if unset, no events are sent."""
MLFLOW_URI = "MLFLOW_TRACKING_URI"
"""MLflow's own variable: the address of its server, or a directory."""
LOOPBACK = "127.0.0.1"
FABRIC = "SEATRIAL_FABRIC"
"""The catalog name of the plan's fabric; if unset, NCCL's choice is not checked."""
SAVE_SECONDS = "SEATRIAL_SAVE_SECONDS"
"""The planned duration of one save in seconds; if unset, earlier saves are the baseline."""
STEP_GROWTH = "SEATRIAL_STEP_GROWTH"
"""The largest factor by which a batch schedule grows the batch at once; if unset, it is 1."""
FAULT = "SEATRIAL_DRILL_FAULT"
"""A bug from `cpu/deliberate_bugs.py` or a fault from `fault_injection.py`; only tests set it."""
STRONG_WEIGHTS = "SEATRIAL_DRILL_WEIGHTS"
"""In a drill, the standard deviation of initial weights that do not depend on the layout."""
EXPERT_COUNTS = "SEATRIAL_DRILL_EXPERTS"
"""`1`: in a drill, each step reports how many tokens each expert processed."""
ATTEMPT = "SEATRIAL_ATTEMPT"
"""The attempt. Starts without progress are counted per attempt; if unset, they are not counted."""
FRUITLESS = "SEATRIAL_FRUITLESS_STARTS"
"""Number of consecutive starts without a new checkpoint after which the run stops; optional."""
INITIAL_WEIGHTS = "SEATRIAL_INITIAL_WEIGHTS"
"""An address on the Hub or in a store, or a directory: Hugging Face weights to import first."""
PARENT = "SEATRIAL_CONTINUE_FROM"
"""The location of the parent run's checkpoints; optional."""
PARENT_STEP = "SEATRIAL_CONTINUE_STEP"
"""The step of the parent run to continue from; by default, its newest valid checkpoint."""
PARENT_ANEW = "SEATRIAL_CONTINUE_ANEW"
"""`1` restarts the learning-rate schedule at that step."""


class Device(StrEnum):
    """The device that the engine computes on."""

    GPU = "gpu"
    """A GPU, as the engine expects."""
    CPU = "cpu"
    """A CPU. Each engine's `cpu` module replaces the GPU calls."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address and port of the metrics endpoint."""

    address: str
    """The address to listen on."""
    port: int
    """The port to listen on."""


@dataclass(frozen=True, slots=True)
class MlflowTarget:
    """The MLflow experiment that receives events."""

    tracking_uri: str
    """The address of the server, or a directory."""
    experiment: str


@dataclass(frozen=True, slots=True)
class Parent:
    """The parent run, which this run continues."""

    address: str
    """Location of the parent's checkpoints."""
    step: int | None = None
    """The step to continue from; the newest valid checkpoint if None."""
    reset_schedule: bool = False
    """True if the learning-rate schedule restarts."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The worker's own settings."""

    device: Device
    events: Path | None
    """The event log file."""
    kill: tuple[int, int] | None = None
    """The rank that a drill kills, and the step after which it does."""
    fault: str = ""
    """A deliberate fault in the CPU runtime, to test the rehearsal's own thresholds."""
    rank: int = 0
    world_size: int = 1
    tokenizer_revision: str = ""
    """The revision of the tokenizer, if the spec pins one."""
    run: str = ""
    metrics: Endpoint | None = None
    """The metrics endpoint, if enabled."""
    attempt: str = ""
    """The attempt that this start belongs to; empty if not set."""
    fruitless_starts: int = 0
    """Number of starts without progress before the run stops; 0 for the default."""
    mlflow: MlflowTarget | None = None
    """The MLflow target, if enabled."""
    initial_weights: str = ""
    """Hugging Face weights to import before the first step; empty if none."""
    parent: Parent | None = None
    """The parent run, if any."""
    tokenizer: str = ""
    """Directory with the data set's copy of the tokenizer; empty to load it from its address."""
    tokenizer_digest: str = ""
    """The digest of that copy, which is the same on every host."""
    strong_weights: float = 0.0
    """Standard deviation of a drill's initial weights; 0 for the engine's own initial weights."""
    counts_experts: bool = False
    """True if each step reports the number of tokens per expert."""

    @property
    def writes_events(self) -> bool:
        """True if this process is the last rank, which has the loss and writes the event log."""
        return self.events is not None and self.rank == self.world_size - 1

    @property
    def trouble(self) -> str:
        """The fault, if it starts at a step; empty if it is a deliberate bug."""
        return self.fault if ":" in self.fault else ""

    @property
    def kill_step(self) -> int | None:
        """The step after which this process kills itself."""
        return self.kill[1] if self.kill and self.kill[0] == self.rank else None


def settings() -> Settings:
    """Read the settings from the environment."""
    events = os.environ.get(EVENTS)
    device = Device.CPU if os.environ.get(DEVICE) == Device.CPU else Device.GPU
    rank, _, step = os.environ.get(KILL, "").partition(":")
    # A drill kills only once: restarted processes are not killed.
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
        os.environ.get(TOKENIZER, ""),
        os.environ.get(TOKENIZER_DIGEST, ""),
        float(os.environ.get(STRONG_WEIGHTS) or 0) if drilled else 0.0,
        drilled and os.environ.get(EXPERT_COUNTS) == "1",
    )


def planned_save_seconds() -> float | None:
    """Return the planned duration of a save; None if invalid, which must not stop the run."""
    try:
        seconds = float(os.environ.get(SAVE_SECONDS, ""))
    except ValueError:
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None


def _endpoint() -> Endpoint | None:
    """Return the metrics endpoint; None if the port is invalid, which must not stop the run."""
    port = os.environ.get(METRICS_PORT, "")
    if not port.isdecimal():
        return None
    return Endpoint(os.environ.get(METRICS_ADDRESS) or LOOPBACK, int(port))


def _mlflow() -> MlflowTarget | None:
    address, experiment = os.environ.get(MLFLOW_URI, ""), os.environ.get(MLFLOW, "")
    return MlflowTarget(address, experiment) if address and experiment else None


def _parent() -> Parent | None:
    address, step = os.environ.get(PARENT, ""), os.environ.get(PARENT_STEP, "")
    if not address:
        return None
    return Parent(address, int(step) if step else None, os.environ.get(PARENT_ANEW) == "1")


def expected(settings: Any) -> Expectations:
    """Return the expected values from the engine's arguments and the plan."""
    return Expectations(
        save_seconds=planned_save_seconds(),
        transport=FABRIC_TRANSPORTS.get(os.environ.get(FABRIC, "")),
        clip_grad_norm=settings.clip_grad,
        save_every_steps=(settings.save_interval or 0) if settings.save else 0,
        evaluate_every_steps=(settings.eval_interval or 0) if settings.eval_iters else 0,
    )
