# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A control group for the pods of one cluster.

Two kubelets that share a group end each other's pods: each takes what it does not know for a
leftover.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PREFIX = "seatrial-"


def make(name: str) -> None:
    """Make the group in every hierarchy."""
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)


def remove(name: str) -> None:
    """Remove the group with all below it; one that still has a process stays, and is noticed."""
    deadline = time.monotonic() + 10
    while found := [path for path in existing() if path.name == name]:
        for top in found:
            for folder, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    Path(folder).rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def existing() -> list[Path]:
    """The groups of all test clusters."""
    return [path for hierarchy in _hierarchies() for path in hierarchy.glob(f"{PREFIX}*")]


def _hierarchies() -> list[Path]:
    """The one of version 2, or one for each controller."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]
