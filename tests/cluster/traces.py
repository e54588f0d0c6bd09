# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a node leaves behind, and how it is removed."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import cgroups, node
from tests.cluster.layout import Layout


@dataclass(frozen=True, slots=True)
class Traces:
    """What of this machine a cluster changes."""

    mounts: tuple[str, ...]
    """Mount points."""
    cgroups: tuple[str, ...]
    """Control groups of pods."""
    networks: tuple[str, ...]
    """Network namespaces and interfaces."""
    processes: tuple[str, ...]
    """Programs of the cluster, with their arguments: in its home, of its home, or in its pods."""
    directories: tuple[str, ...]
    """Directories outside the cluster's home that were made."""


def traces(home: Path, network: str) -> Traces:
    """What there is now; processes only of the cluster with that home and network."""
    mounts = Path("/proc/mounts").read_text().splitlines()
    interfaces = [path.name for path in Path("/sys/class/net").iterdir()]
    namespaces = [path.name for path in Path("/run/netns").glob("*")]
    return Traces(
        mounts=tuple(sorted(line.split()[1] for line in mounts)),
        cgroups=tuple(sorted(str(path) for path in cgroups.existing())),
        networks=tuple(sorted([*interfaces, *namespaces])),
        processes=tuple(
            sorted(run for pid, run in _commands().items() if _belongs(pid, run, home, network))
        ),
        directories=tuple(place for place in node.MADE if Path(place).exists()),
    )


def stop(layout: Layout) -> None:
    """Stop the node, end its containers, and remove what is outside its home."""
    runtime, *others = node.daemons(layout)
    for daemon in others:
        daemon.stop(grace=0)
    if runtime.running():
        for name in node.ctr(layout, "tasks", "list", "--quiet").split():
            node.ctr(layout, "tasks", "kill", "--signal", "SIGKILL", name)
        for name in node.ctr(layout, "containers", "list", "--quiet").split():
            node.ctr(layout, "tasks", "delete", "--force", name)
    runtime.stop(grace=0)
    _end_shims(layout)
    # With its last process the mount namespace goes, and all mounts in it.
    node.private_mounts(layout).stop(grace=0)
    cgroups.remove(layout.network)
    made = layout.home / "made"
    for place in made.read_text().split() if made.exists() else ():
        with suppress(OSError):
            Path(place).rmdir()


def _end_shims(layout: Layout) -> None:
    """Shims hold containers beyond containerd's end; ours name our socket."""
    address = str(layout.home / "containerd/socket")
    ours = [pid for pid, run in _commands().items() if address in run and "shim" in run]
    for pid in ours:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in ours) and time.monotonic() < deadline:
        time.sleep(0.05)


def _belongs(pid: int, run: str, home: Path, network: str) -> bool:
    with suppress(OSError):
        inside = str(Path(f"/proc/{pid}/cwd").readlink()).startswith(str(home))
        group = f"/{network}/" in Path(f"/proc/{pid}/cgroup").read_text()
        return inside or group or f"{home}/" in run
    return False


def _commands() -> dict[int, str]:
    """What every process of this machine runs, by its id: the program's name and its arguments."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                found[int(folder.name)] = " ".join([Path(words[0]).name, *words[1:]])
    return found
