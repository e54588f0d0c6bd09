# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.node.preflight`: check a node before training starts.

Checks GPUs, fabric devices, NCCL's topology file, shared memory, the volume and its free space;
then all nodes together: clocks, a shared file, an all-reduce. Prints problems as findings, and
writes them to the container's termination log, so that the pod's status has them. Exit code 0
without findings, 1 with findings. Needs torch only for the checks across nodes.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from uuid import uuid4

from seatrial.codes.preflight import PreflightCode
from seatrial.errors import ExitCode
from seatrial.findings import Finding, Severity, Where
from seatrial.storage.state_files import DamagedError, decode, parse_json
from seatrial.units import format_bytes

TERMINATION_LOG = Path("/dev/termination-log")
"""The container's termination message, which Kubernetes adds to the pod's status."""
TOPOLOGY_FILE = "NCCL_TOPO_FILE"
GPU_GLOB = "/dev/nvidia[0-9]*"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (the pod's own)
TOGETHER_SECONDS = 900
"""How long nodes wait for each other; image pulls take different times."""
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Expected:
    """The plan's requirements for a node."""

    gpus: int
    """GPUs in the pod; 0 for training on CPUs."""
    devices: str
    """Glob pattern of the fabric's devices; empty without a fabric."""
    device_count: int
    """Number of these devices."""
    shared_memory_gib: int
    """Shared memory of the pod, GiB."""
    mount: str
    """Mount point of the volume."""
    directory: str
    """The run's directory on the volume."""
    free_bytes: int
    """Free space that the volume must have."""


@dataclass(frozen=True, slots=True)
class Company:
    """The rendezvous of the nodes."""

    nodes: int
    processes: int
    node_rank: int
    address: str
    """Address of node 0."""
    port: int
    met: str = ""
    """File on the volume that records that all nodes of this attempt have met; may be empty."""


def finding(code: PreflightCode, rule: str, fix: str, value: object = "") -> Finding:
    """Create a finding about this node."""
    node = os.environ.get("NODE_NAME", "this node")
    return Finding(code, Severity.ERROR, Where(field=node), rule, str(value), fix)


def look(expected: Expected) -> list[Finding]:
    """Check this node alone."""
    return [
        *_devices(expected),
        *_topology_file(),
        *_memory(expected.shared_memory_gib),
        *_volume(expected),
    ]


def _devices(expected: Expected) -> Iterator[Finding]:
    gpus = len(glob(GPU_GLOB))
    if gpus < expected.gpus:
        yield finding(
            PreflightCode.GPUS,
            f"{gpus} of {expected.gpus} GPUs are present.",
            "Check the node for a lost GPU (nvidia-smi, Xid lines in the kernel log); cordon it.",
            gpus,
        )
    seen = len(glob(expected.devices)) if expected.devices else 0
    if seen < expected.device_count:
        yield finding(
            PreflightCode.DEVICES,
            f"{seen} of {expected.device_count} devices {expected.devices} are present.",
            "Check that the fabric's device plugin runs on the node and its driver is loaded.",
            seen,
        )


def _topology_file() -> Iterator[Finding]:
    """Check NCCL's topology file. Without it, NCCL logs a line and may use distant adapters."""
    path = os.environ.get(TOPOLOGY_FILE, "")
    if path and not Path(path).is_file():
        yield finding(
            PreflightCode.TOPOLOGY,
            f"{TOPOLOGY_FILE} is {path}, and the container has no such file.",
            f"Remove {TOPOLOGY_FILE} from cluster.env and render the manifests again, or add the "
            "file to the image.",
            path,
        )


def _memory(wanted_gib: int) -> Iterator[Finding]:
    try:
        state = os.statvfs(SHARED_MEMORY)
    except OSError:
        size = 0
    else:
        size = state.f_frsize * state.f_blocks
    # The file system itself uses a page or two.
    if size < 0.99 * wanted_gib * _GIB:
        yield finding(
            PreflightCode.SHARED_MEMORY,
            f"{SHARED_MEMORY} has {format_bytes(size)}, but the plan needs {wanted_gib} GiB.",
            "Render the manifests again: the pod's shared-memory volume sets the size.",
            size,
        )


def _volume(expected: Expected) -> Iterator[Finding]:
    if not os.path.ismount(expected.mount):
        fix = "Check that the claim is bound and its driver runs on the node."
        rule = f"no volume is mounted at {expected.mount}: files would be lost with the pod."
        yield finding(PreflightCode.MOUNT, rule, fix, expected.mount)
        return
    directory = Path(expected.directory)
    probe = directory / f".preflight-{uuid4().hex}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with probe.open("xb") as stream:
            stream.write(b"seatrial")
            stream.flush()
            os.fsync(stream.fileno())
        probe.unlink()
        state = os.statvfs(directory)
    except OSError as error:
        rule = f"cannot write to {directory}: {error.strerror}."
        fix = "Set cluster.run_as_user to the owner of the volume, or change its owner."
        yield finding(PreflightCode.MOUNT, rule, fix, expected.directory)
        return
    free = state.f_frsize * state.f_bavail
    if free < expected.free_bytes:
        yield finding(
            PreflightCode.ROOM,
            f"{expected.mount} has {format_bytes(free)} free, but a checkpoint needs "
            f"{format_bytes(expected.free_bytes)}.",
            "Delete files that are not needed, or use a larger volume.",
            free,
        )


def meet_once(company: Company, directory: str) -> list[Finding]:
    """Check the nodes together, unless they have already met in this attempt.

    A pod that replaces a lost one comes alone: the other nodes have passed preflight, and only
    their training restarts. The new pod would wait for them in vain.
    """
    met = Path(company.met) if company.met else None
    if met is not None and met.exists():
        sys.stderr.write(
            "seatrial: the nodes have already completed rendezvous in this attempt; only this node "
            "was checked.\n"
        )
        return []
    found = meet(company, directory)
    if met is not None and not found:
        met.parent.mkdir(parents=True, exist_ok=True)
        met.touch()
    return found


def meet(company: Company, directory: str) -> list[Finding]:
    """Check the nodes together, with torch processes on all of them."""
    argv = [
        *(sys.executable, "-m", "torch.distributed.run"),
        f"--nnodes={company.nodes}",
        f"--nproc-per-node={company.processes}",
        f"--node-rank={company.node_rank}",
        f"--master-addr={company.address}",
        f"--master-port={company.port}",
        f"--rdzv-conf=timeout={TOGETHER_SECONDS}",
        "--max-restarts=0",
        *("--module", "seatrial.worker.node.all_reduce"),
        f"--directory={directory}",
    ]
    try:
        done = subprocess.run(  # noqa: S603  (our own argv, no shell)
            argv,
            stdout=subprocess.PIPE,
            text=True,
            timeout=2 * TOGETHER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [_apart(company, f"no response within {2 * TOGETHER_SECONDS} s")]
    found = read_findings(done.stdout)
    if done.returncode and not found:
        return [_apart(company, f"torchrun exited with {done.returncode}")]
    return found


def _apart(company: Company, reason: str) -> Finding:
    return finding(
        PreflightCode.TOGETHER,
        f"the {company.nodes} nodes could not meet at {company.address}:{company.port}: {reason}.",
        "Another node may have failed its own checks, which is then the cause. Otherwise check "
        "network policies, the fabric and NCCL's output above.",
        reason,
    )


def read_findings(text: str) -> list[Finding]:
    """Parse the findings in the output of processes, without duplicates."""
    found: dict[Finding, None] = {}
    for line in text.splitlines():
        start = line.find('{"code"')
        if start < 0:
            continue
        # Lines of several processes can be interleaved.
        with suppress(DamagedError):
            found[decode(Finding, parse_json(line[start:]))] = None
    return list(found)


def main(arguments: Sequence[str] | None = None, termination_log: Path = TERMINATION_LOG) -> int:
    """Check the node, then all nodes together. Return 0 if there are no findings."""
    expected, company = _parse(arguments)
    found = look(expected)
    if company is not None and company.nodes * company.processes > 1 and not found:
        found = meet_once(company, expected.directory)
    for each in found:
        sys.stderr.write(f"seatrial: {each.code} {each.one_line()}\n")
    text = json.dumps([each.to_dict() for each in found])
    # Kubernetes keeps 4096 bytes: some complete findings are better than a truncated list.
    while len(text.encode()) > 4096 and len(found) > 1:
        found = found[:-1]
        text = json.dumps([each.to_dict() for each in found])
    if found and termination_log.exists():
        termination_log.write_text(text)
    return ExitCode.FINDINGS if found else ExitCode.OK


def _parse(arguments: Sequence[str] | None) -> tuple[Expected, Company | None]:
    parser = argparse.ArgumentParser(prog="python -m seatrial.worker.node.preflight")
    for name in ("--gpus", "--device-count", "--shared-memory-gib", "--free-bytes"):
        parser.add_argument(name, type=int, default=0)
    parser.add_argument("--devices", default="")
    parser.add_argument("--mount", required=True)
    parser.add_argument("--directory", required=True)
    for name in ("--nodes", "--processes", "--node-rank", "--first-rank", "--master-port"):
        parser.add_argument(name, type=int, default=0)
    parser.add_argument("--master-addr", default="")
    parser.add_argument("--met", default="")
    given = parser.parse_args(arguments)
    expected = Expected(
        given.gpus,
        given.devices,
        given.device_count,
        given.shared_memory_gib,
        given.mount,
        given.directory,
        given.free_bytes,
    )
    if not given.master_addr:
        return expected, None
    rank = given.first_rank + given.node_rank
    return expected, Company(
        given.nodes, given.processes, rank, given.master_addr, given.master_port, given.met
    )


LARGEST_SKEW = 5.0
"""Clock skew in seconds above which logs cannot be ordered and cloud tokens expire."""


def skew_findings(mine: float, clocks: Sequence[float]) -> list[Finding]:
    """Compare this node's clock with those of all nodes, including itself.

    If no more than half agree, as with two nodes, there is no correct majority. Then all nodes
    report it, because a finding that all nodes have excludes none of them.
    """
    middle = sorted(clocks)[len(clocks) // 2]
    agreeing = sum(abs(clock - middle) <= LARGEST_SKEW for clock in clocks)
    fix = "Start the node's time service."
    if 2 * agreeing <= len(clocks):
        skew = max((mine - clock for clock in clocks), key=abs)
        rule = f"the clock is {skew:+.1f} s from another node's, and there is no majority."
        fix = "Check the time service of all nodes."
    else:
        skew = mine - middle
        rule = f"the clock is {skew:+.1f} s from those of the other nodes."
        if abs(skew) <= LARGEST_SKEW:
            return []
    return [finding(PreflightCode.CLOCK, rule, fix, round(skew, 3))]


if __name__ == "__main__":
    sys.exit(main())
