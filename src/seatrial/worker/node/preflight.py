# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.node.preflight`: check a node before training starts.

Checks GPUs, fabric devices, NCCL's topology file, shared memory, the volume and its free space.
Then measures the node, and all nodes together: clocks, a shared file, devices, links, an
all-reduce. Prints problems as findings, and writes them with the measurements to the container's
termination log, so that the pod's status contains them, and to the node's history in the run's
directory. The exit code is 0 without findings and 1 with findings. Without torch, it measures only
the volume, clocks and versions.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

from seatrial.codes.preflight import PreflightCode
from seatrial.errors import ExitCode
from seatrial.findings import Finding
from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.monitoring.node_measurements import MEASURED, NodeMeasurement, read_measurement
from seatrial.naming import as_dns_label, names_object
from seatrial.planning.node_floors import NodeFloors
from seatrial.storage.state_files import DamagedError, decode, open_append, parse_json
from seatrial.units import format_bytes
from seatrial.worker.node.measure import finding, measure_host, measurement_findings
from seatrial.worker.settings import ATTEMPT, EVENTS, LOOPBACK

TERMINATION_LOG = Path("/dev/termination-log")
"""The container's termination message, which Kubernetes adds to the pod's status."""
TOPOLOGY_FILE = "NCCL_TOPO_FILE"
GPU_GLOB = "/dev/nvidia[0-9]*"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (the pod's own)
TOGETHER_SECONDS = 900
"""How long nodes wait for each other, because image pulls take different times."""
ALONE_PORT = 29401
"""The port for measurements on this node alone, different from the port for all nodes."""
HISTORY = "preflight"
"""The directory with the nodes' histories in the run's directory, one file per node."""
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Expected:
    """The plan's requirements for a node."""

    gpus: int
    """GPUs in the pod; 0 for training on CPU."""
    devices: str
    """Glob pattern of the fabric's devices; empty without a fabric."""
    device_count: int
    """Number of these devices."""
    shared_memory_gib: int
    """Shared memory in the pod, in GiB."""
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
    """File on the volume that records that this attempt's rendezvous completed; may be empty."""
    is_whole_run: bool = False
    """True if this is the only node in the run."""


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
            "Cordon the node, and check it for a lost GPU (nvidia-smi, Xid errors in the kernel "
            "log).",
            gpus,
        )
    seen = len(glob(expected.devices)) if expected.devices else 0
    if seen < expected.device_count:
        yield finding(
            PreflightCode.DEVICES,
            f"{seen} of {expected.device_count} devices {expected.devices} are present.",
            "Check that the fabric's device plugin runs on the node and that its driver is loaded.",
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
            "Render the manifests again: the pod's shared-memory volume sets this size.",
            size,
        )


def _volume(expected: Expected) -> Iterator[Finding]:
    if not os.path.ismount(expected.mount):
        fix = "Check that the PVC is bound and that its CSI driver is running on the node."
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
        fix = "Set cluster.run_as_user to the volume's owner, or change the owner of the volume."
        yield finding(PreflightCode.MOUNT, rule, fix, expected.directory)
        return
    free = state.f_frsize * state.f_bavail
    if free < expected.free_bytes:
        yield finding(
            PreflightCode.ROOM,
            f"{expected.mount} has {format_bytes(free)} free, but a checkpoint needs "
            f"{format_bytes(expected.free_bytes)}.",
            "Delete files that you do not need, or use a larger volume.",
            free,
        )


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What the checks of a node found and measured."""

    findings: list[Finding]
    measured: NodeMeasurement | None = None


def measure(
    expected: Expected, company: Company | None, floors: NodeFloors, host: NodeMeasurement
) -> NodeResult:
    """Measure this node with the others, or alone if there are none or they have already met.

    A pod that replaces a lost pod starts alone: the other nodes have passed preflight, and only
    their training restarts. The new pod would wait for them until the timeout.
    """
    alone = Company(1, max(1, expected.gpus), 0, LOOPBACK, ALONE_PORT)
    if company is None:
        return _measure_alone(alone, expected, floors, host)
    met = Path(company.met) if company.met else None
    if met is not None and met.exists():
        sys.stderr.write(
            "seatrial: the nodes have already completed rendezvous in this attempt; only this node "
            "was checked.\n"
        )
        return _measure_alone(alone, expected, floors, host)
    if company.nodes * company.processes == 1:
        return _measure_alone(replace(alone, is_whole_run=True), expected, floors, host)
    result = meet(company, expected.directory, floors, host)
    if met is not None and not result.findings:
        met.parent.mkdir(parents=True, exist_ok=True)
        met.touch()
    return result


def _measure_alone(
    alone: Company, expected: Expected, floors: NodeFloors, host: NodeMeasurement
) -> NodeResult:
    """Measure this node; without torch only what needs none."""
    if find_spec("torch") is not None:
        return meet(alone, expected.directory, floors, host)
    if alone.is_whole_run:
        _write_event(host)
    return NodeResult(measurement_findings(host, floors), host)


def _write_event(host: NodeMeasurement) -> None:
    try:
        log = EventLog(Path(os.environ[EVENTS]))
        log.write(EventKind.PREFLIGHT, 0, nodes=[host.to_dict()], rounds=[], slow=[])
        log.close()
    except KeyError:
        return
    except OSError as error:
        sys.stderr.write(f"seatrial: cannot write to the event log: {error}\n")


def meet(company: Company, directory: str, floors: NodeFloors, host: NodeMeasurement) -> NodeResult:
    """Check and measure the nodes together, with torch processes on all of them."""
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
        f"--floors={floors.to_text()}",
        f"--host={json.dumps(host.to_dict())}",
    ]
    # One writer: several nodes that come alone would write over each other's lines.
    keeps = company.nodes > 1 or company.is_whole_run
    environment = {name: text for name, text in os.environ.items() if keeps or name != EVENTS}
    try:
        done = subprocess.run(  # noqa: S603  (our own argv, no shell)
            argv,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=2 * TOGETHER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        reason = f"no response within {2 * TOGETHER_SECONDS} s"
        return NodeResult([_apart(company, reason)], host)
    found, measured = read_findings(done.stdout), _read_measured(done.stdout) or host
    if done.returncode and not found:
        found = [_apart(company, f"torchrun exited with {done.returncode}")]
    return NodeResult(found, measured)


def _apart(company: Company, reason: str) -> Finding:
    return finding(
        PreflightCode.TOGETHER,
        f"the rendezvous of {company.nodes} nodes at {company.address}:{company.port} failed: "
        f"{reason}.",
        "First check if another node failed its own checks. If not, check network policies, the "
        "fabric and NCCL's output above.",
        reason,
    )


def read_findings(text: str) -> list[Finding]:
    """Parse the findings in the output of several processes, without duplicates."""
    found: dict[Finding, None] = {}
    for line in text.splitlines():
        start = line.find('{"code"')
        if start < 0:
            continue
        # Lines from several processes can be interleaved.
        with suppress(DamagedError):
            found[decode(Finding, parse_json(line[start:]))] = None
    return list(found)


def _read_measured(text: str) -> NodeMeasurement | None:
    """Parse the measurements of this node in the output of its processes."""
    for line in text.splitlines():
        start = line.find(f'{{"{MEASURED}"')
        if start < 0:
            continue
        with suppress(DamagedError, KeyError, TypeError):
            return read_measurement(parse_json(line[start:])[MEASURED])
    return None


def main(arguments: Sequence[str] | None = None, termination_log: Path = TERMINATION_LOG) -> int:
    """Check and measure the node, then all nodes together. Return 0 if there are no findings."""
    expected, company, floors = _parse(arguments)
    result = NodeResult(look(expected))
    if not result.findings:
        host = measure_host(Path(expected.directory), expected.free_bytes)
        result = measure(expected, company, floors, host)
    for each in result.findings:
        sys.stderr.write(f"seatrial: {each.code} {each.one_line()}\n")
    if result.measured is not None:
        sys.stderr.write(f"seatrial: measured {json.dumps(result.measured.to_dict())}\n")
        keep_history(Path(expected.directory), result)
    if termination_log.exists():
        termination_log.write_text(termination_message(result))
    return ExitCode.FINDINGS if result.findings else ExitCode.OK


def termination_message(result: NodeResult) -> str:
    """Return the findings, then the measurements, as a list of JSON objects."""
    found: list[dict[str, object]] = [each.to_dict() for each in result.findings]
    if result.measured is not None:
        found.append({MEASURED: result.measured.to_dict()})
    text = json.dumps(found) if found else ""
    # Kubernetes keeps 4096 bytes: some complete findings are better than a truncated list.
    while len(text.encode()) > 4096 and len(found) > 1:
        found = found[:-1]
        text = json.dumps(found)
    return text


def keep_history(directory: Path, result: NodeResult) -> None:
    """Append the result to the node's history in the run's directory."""
    if result.measured is None:
        return
    line = {
        "time": round(time.time(), 3),
        "attempt": os.environ.get(ATTEMPT, ""),
        "codes": [each.code for each in result.findings],
        MEASURED: result.measured.to_dict(),
    }
    node = result.measured.node
    name = node if names_object(node) else as_dns_label(node)
    path = directory / HISTORY / f"{name}.jsonl"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_append(path) as stream:
            stream.write(json.dumps(line).encode() + b"\n")
    except OSError as error:
        sys.stderr.write(f"seatrial: cannot write to {path}: {error.strerror}\n")


def _parse(arguments: Sequence[str] | None) -> tuple[Expected, Company | None, NodeFloors]:
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
    parser.add_argument("--floors", type=NodeFloors.parse, default=NodeFloors())
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
        return expected, None, given.floors
    rank = given.first_rank + given.node_rank
    company = Company(
        given.nodes, given.processes, rank, given.master_addr, given.master_port, given.met
    )
    return expected, company, given.floors


LARGEST_SKEW = 5.0
"""Clock skew in seconds above which logs cannot be ordered and cloud tokens expire."""


def skew_findings(mine: float, clocks: Sequence[float]) -> list[Finding]:
    """Compare this node's clock with the clocks of all nodes, including itself.

    If at most half of the clocks agree, as with two nodes, it is unknown which ones are correct.
    Then all nodes report a finding, because a finding on every node excludes none of them.
    """
    middle = sorted(clocks)[len(clocks) // 2]
    agreeing = sum(abs(clock - middle) <= LARGEST_SKEW for clock in clocks)
    fix = "Start the time service on the node."
    if 2 * agreeing <= len(clocks):
        skew = max((mine - clock for clock in clocks), key=abs)
        rule = (
            f"the clock differs by {skew:+.1f} s from another node's clock, and no majority of "
            "the clocks agrees."
        )
        fix = "Check the time service on all nodes."
    else:
        skew = mine - middle
        rule = f"the clock differs by {skew:+.1f} s from the clocks of the other nodes."
        if abs(skew) <= LARGEST_SKEW:
            return []
    return [finding(PreflightCode.CLOCK, rule, fix, round(skew, 3))]


if __name__ == "__main__":
    sys.exit(main())
