# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a diagnosis may read: files of a run, and what its plan had said."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath


class EvidenceKind(StrEnum):
    """What a file of evidence holds."""

    LOG = "log"
    """What processes printed."""
    KERNEL_LOG = "kernel-log"
    """The kernel's own messages of a node."""
    POD_EVENTS = "pod-events"
    """Events of Kubernetes."""
    POD_STATUS = "pod-status"
    """The status of pods, as text."""
    ADMISSION = "admission"
    """What the API server answered."""
    EXIT_CODES = "exit-codes"
    """A name and an exit code a line."""
    FLIGHT_RECORDER = "flight-recorder"
    """What the analyser of torch's flight recorder says."""
    ENVIRONMENT = "environment"
    """What a host or container was like: variables, counters of a cgroup."""
    PACKAGES = "packages"
    """Installed packages, under a line `# node` for each kind of node."""
    ARGUMENTS = "arguments"
    """What the run was started with."""


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """One file, read once."""

    name: str
    """The name that a line is shown under."""
    kind: EvidenceKind
    lines: Callable[[], Iterable[str]]
    """Opens it and gives its lines."""


@dataclass(frozen=True, slots=True)
class PlannedValues:
    """What the plan said of the run."""

    memory_bytes: float = 0.0
    """Memory of the fullest GPU; 0 where nothing is known."""
    memory_error: float = 0.0
    """The relative error that the plan stated with it."""
    fabric: str = ""
    """The network between nodes, as the catalog names it; empty where nothing is known."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of a failure."""

    files: tuple[EvidenceFile, ...]
    planned: PlannedValues | None = None
    """What the plan said."""
    dumps: tuple[tuple[str, bytes], ...] = ()
    """Dumps of torch's flight recorder: a file's name and its content."""


def text_file(name: str, text: str, kind: EvidenceKind | None = None) -> EvidenceFile:
    """A file of evidence that is in memory."""
    return EvidenceFile(name, kind or kind_of(name), text.splitlines)


_KINDS = (
    (r"dmesg|kern|messages|syslog|journal", EvidenceKind.KERNEL_LOG),
    (r"exit", EvidenceKind.EXIT_CODES),
    (r"flight|nccl_trace|_dump", EvidenceKind.FLIGHT_RECORDER),
    (r"event", EvidenceKind.POD_EVENTS),
    (r"packages|freeze|requirements", EvidenceKind.PACKAGES),
)


def kind_of(name: str) -> EvidenceKind:
    """What a file probably holds, by its name."""
    plain = PurePath(name).name.lower()
    return next((kind for part, kind in _KINDS if re.search(part, plain)), EvidenceKind.LOG)
