# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The input of a diagnosis: files of a run, and values of its plan."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath


class EvidenceKind(StrEnum):
    """The content of an evidence file."""

    LOG = "log"
    """Output of processes."""
    KERNEL_LOG = "kernel-log"
    """Kernel messages from a node."""
    POD_EVENTS = "pod-events"
    """Kubernetes events."""
    POD_STATUS = "pod-status"
    """The status of pods, as text."""
    ADMISSION = "admission"
    """Responses from the API server."""
    EXIT_CODES = "exit-codes"
    """A name and an exit code per line."""
    FLIGHT_RECORDER = "flight-recorder"
    """Output from torch's flight recorder analyser."""
    ENVIRONMENT = "environment"
    """State of a host or container: variables, cgroup counters."""
    PACKAGES = "packages"
    """Installed packages, under a line `# node` for each kind of node."""
    ARGUMENTS = "arguments"
    """The arguments of the run."""


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """One file, read once."""

    name: str
    """The name shown for its lines."""
    kind: EvidenceKind
    lines: Callable[[], Iterable[str]]
    """Opens the file and returns its lines."""


@dataclass(frozen=True, slots=True)
class PlannedValues:
    """Values from the plan."""

    memory_bytes: float = 0.0
    """Memory of the fullest GPU; 0 if unknown."""
    memory_error: float = 0.0
    """The relative error that the plan states."""
    fabric: str = ""
    """The network between nodes, as named in the catalog; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence of a failure."""

    files: tuple[EvidenceFile, ...]
    planned: PlannedValues | None = None
    dumps: tuple[tuple[str, bytes], ...] = ()
    """Dumps of torch's flight recorder: a file's name and its content."""


def text_file(name: str, text: str, kind: EvidenceKind | None = None) -> EvidenceFile:
    """Create an evidence file from text in memory."""
    return EvidenceFile(name, kind or kind_of(name), text.splitlines)


_KINDS = (
    (r"dmesg|kern|messages|syslog|journal", EvidenceKind.KERNEL_LOG),
    (r"exit", EvidenceKind.EXIT_CODES),
    (r"flight|nccl_trace|_dump", EvidenceKind.FLIGHT_RECORDER),
    (r"event", EvidenceKind.POD_EVENTS),
    (r"packages|freeze|requirements", EvidenceKind.PACKAGES),
)


def kind_of(name: str) -> EvidenceKind:
    """Guess the content of a file from its name."""
    plain = PurePath(name).name.lower()
    return next((kind for part, kind in _KINDS if re.search(part, plain)), EvidenceKind.LOG)
