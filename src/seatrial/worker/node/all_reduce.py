# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checks and measurements that all nodes do together before training.

Clocks, a shared file, devices, links within and between nodes, and an all-reduce with a known sum.
Started by torchrun from `seatrial.worker.node.preflight`, with its own store: a process group that
was created and destroyed would leave its keys in the store that training uses. A finding and the
node's measurements are printed as lines of JSON. Rank 0 writes those of all nodes to the event log.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from seatrial.codes.preflight import PreflightCode
from seatrial.findings import Finding
from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.monitoring.node_measurements import MEASURED, NodeMeasurement, read_measurement
from seatrial.planning.node_floors import NodeFloors
from seatrial.storage.visibility import visible_after_seconds, wait_until
from seatrial.worker.node.bandwidth import (
    CPU_ELEMENTS,
    GPU_ELEMENTS,
    check_memory,
    matmul_tflops,
    search_pairs,
    within_node,
)
from seatrial.worker.node.measure import (
    finding,
    measurement_findings,
    node_name,
    slow_network_finding,
    version_findings,
)
from seatrial.worker.node.nvml import open_nvml
from seatrial.worker.node.pairs import PairSearch
from seatrial.worker.node.preflight import TOGETHER_SECONDS, skew_findings
from seatrial.worker.settings import EVENTS

ELEMENTS = 16 << 20
"""Number of elements in the all-reduce: 64 MiB, enough to use every link in a ring."""
ELEMENTS_ON_CPU = 4 << 20
"""Number of elements between CPUs: 16 MiB, so that a slow link does not take minutes."""
ROUNDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks and measurements with the other nodes, and print the findings."""
    parser = argparse.ArgumentParser(prog="python -m seatrial.worker.node.all_reduce")
    parser.add_argument("--directory", required=True)
    parser.add_argument("--elements", type=int, default=0)
    parser.add_argument("--floors", type=NodeFloors.parse, default=NodeFloors())
    parser.add_argument("--host", type=json.loads, default={})
    given = parser.parse_args(arguments)
    on_gpu = torch.cuda.is_available() and os.environ.get("SEATRIAL_DEVICE") != "cpu"
    device = torch.device("cpu")
    if on_gpu:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    backend = "nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=TOGETHER_SECONDS))
    host = read_measurement(given.host) or NodeMeasurement(node_name())
    found, skew = clock_findings(device)
    found += sharing_findings(Path(given.directory))
    measured, search, unusual = measure_together(device, replace(host, skew_seconds=skew), given)
    found += unusual
    wrong, measured = sum_findings(
        device, given.elements or (ELEMENTS if on_gpu else ELEMENTS_ON_CPU), measured
    )
    found += wrong
    # Collectives, so all ranks call them; only ranks without earlier findings report them.
    others = other_findings(device, len(found))
    record(measured, search)
    found = found or others
    for each in found:
        sys.stdout.write(json.dumps(each.to_dict()) + "\n")
    if _local_rank() == 0:
        sys.stdout.write(json.dumps({MEASURED: measured.to_dict()}) + "\n")
    sys.stdout.flush()
    dist.barrier()
    return 1 if found else 0


def _local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


def measure_together(
    device: torch.device, host: NodeMeasurement, given: argparse.Namespace
) -> tuple[NodeMeasurement, PairSearch, list[Finding]]:
    """Measure this node's devices and links; return what is wrong with them."""
    per_node = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    floors: NodeFloors = given.floors
    elements = GPU_ELEMENTS if device.type == "cuda" else CPU_ELEMENTS
    mine = dist.get_rank() // per_node
    measured = node_devices(device, host, per_node)
    measured = replace(measured, within_gb_s=within_node(device, per_node, elements))
    search = PairSearch(dist.get_world_size() // per_node, floors.between_gb_s)
    search_pairs(device, search, per_node, elements)
    best = search.best()
    if mine in best:
        is_slow = mine in search.slow()
        measured = replace(measured, between_gb_s=best[mine], is_slow=is_slow)
    found = measurement_findings(measured, floors)
    if measured.is_slow and all(each.code != PreflightCode.SLOW_NETWORK for each in found):
        healthy = [gb_s for node, gb_s in best.items() if node not in search.slow()]
        found.append(slow_network_finding(best[mine], min(healthy), search.rounds))
    return measured, search, found + version_findings(measured.nccl, _everywhere(measured.nccl))


def node_devices(device: torch.device, host: NodeMeasurement, per_node: int) -> NodeMeasurement:
    """Add the slowest device of the node, and all errors of its memory."""
    tflops = matmul_tflops(device)
    clock = _gpu_clock(device)
    copy, errors = check_memory(device)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    every = _everywhere((tflops, copy, errors, clock))
    first = dist.get_rank() // per_node * per_node
    own = every[first : first + per_node]
    clocks = [each[3] for each in own if each[3] is not None]
    return replace(
        host,
        matmul_tflops=min(each[0] for each in own),
        memory_gb_s=min(each[1] for each in own),
        memory_errors=sum(each[2] for each in own),
        clock_mhz=min(clocks) if clocks else host.clock_mhz,
        nccl=_library_version(device),
    )


def _gpu_clock(device: torch.device) -> float | None:
    """Return the clock of this rank's GPU, which the matrix multiplication has just woken up."""
    nvml = open_nvml() if device.type == "cuda" else None
    if nvml is None or _local_rank() >= nvml.count:
        return None
    return nvml.read(_local_rank()).clock_mhz


def _library_version(device: torch.device) -> str:
    if device.type == "cuda":
        return ".".join(map(str, torch.cuda.nccl.version()))
    return f"gloo, torch {torch.__version__}"


def _everywhere(value: Any) -> list[Any]:
    """Return the value of every rank."""
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def record(measured: NodeMeasurement, search: PairSearch) -> None:
    """Write the measurements of all nodes to the event log, on rank 0."""
    every = _everywhere(measured.to_dict() if _local_rank() == 0 else None)
    nodes = [each for each in every if each is not None]
    events = os.environ.get(EVENTS)
    if dist.get_rank() != 0:
        return
    names = [str(each["node"]) for each in nodes]
    rounds = [
        {
            "round": each.round_number,
            "nodes": [names[node] for node in each.nodes],
            "gb_s": float(f"{each.gb_s:.4g}"),
        }
        for each in search.measured
    ]
    for each in search.measured:
        pair = " and ".join(names[node] for node in each.nodes)
        sys.stderr.write(f"seatrial: round {each.round_number}: {pair}: {each.gb_s:.4g} GB/s\n")
    slow = [names[node] for node in search.slow()]
    if slow:
        text = f"{', '.join(slow)} found to be slow in {search.rounds} rounds"
        sys.stderr.write(f"seatrial: {text}\n")
    if not events:
        return
    try:
        log = EventLog(Path(events))
        log.write(EventKind.PREFLIGHT, 0, nodes=nodes, rounds=rounds, slow=slow)
        log.close()
    except OSError as error:
        sys.stderr.write(f"seatrial: cannot write to the event log: {error}\n")


def other_findings(device: torch.device, mine: int) -> list[Finding]:
    """Report findings on another node: if only some ranks exit, torchrun waits for the rest."""
    faults = torch.tensor(mine, dtype=torch.int64, device=device)
    dist.all_reduce(faults)
    if int(faults) == mine:
        return []
    rule = "this node passed its checks, but another node did not."
    return [finding(PreflightCode.TOGETHER, rule, "See the findings from the other pods.")]


def clock_findings(device: torch.device, now: float | None = None) -> tuple[list[Finding], float]:
    """Compare this node's clock with those of all nodes, read after a barrier.

    Also return its difference from the median clock.
    """
    dist.barrier()
    mine = torch.tensor(time.time() if now is None else now, dtype=torch.float64, device=device)
    clocks = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(clocks, mine)
    every = [float(clock) for clock in clocks]
    return skew_findings(float(mine), every), float(mine) - sorted(every)[len(every) // 2]


def sharing_findings(directory: Path) -> list[Finding]:
    """Check that this node sees a file that the first node wrote."""
    name: list[str] = [f".meeting-{time.time_ns()}"]
    dist.broadcast_object_list(name)
    probe = directory / name[0]
    if dist.get_rank() == 0:
        probe.write_text("seatrial")
    dist.barrier()
    patience = visible_after_seconds()
    seen = wait_until(probe.exists, patience)
    dist.barrier()
    if dist.get_rank() == 0:
        probe.unlink(missing_ok=True)
    if seen:
        return []
    rule = f"this node does not see a file that node 0 wrote to {directory} {patience:.0f} s ago."
    fix = "Check that all pods mount the same volume, and that it supports several nodes."
    return [finding(PreflightCode.NOT_SHARED, rule, fix, directory)]


def sum_findings(
    device: torch.device, elements: int, measured: NodeMeasurement
) -> tuple[list[Finding], NodeMeasurement]:
    """Sum one value per rank, compare the sum with the expected result, and add the bandwidth."""
    rank, world = dist.get_rank(), dist.get_world_size()
    # Small integers: their sum is exact in single precision for any number of ranks.
    expected = sum(_share(each) for each in range(world))
    began = time.perf_counter()
    wrong = 0
    # Always run all rounds: a rank that left early would call a different collective from the other
    # ranks, and its finding would be lost.
    for _ in range(ROUNDS):
        numbers = torch.full((elements,), _share(rank), dtype=torch.float32, device=device)
        dist.all_reduce(numbers)
        wrong += int((numbers != expected).sum())
    seconds = (time.perf_counter() - began) / ROUNDS
    if wrong:
        rule = f"{wrong} of {ROUNDS * elements} sums over {world} ranks are not {expected}."
        fix = "A link or a GPU corrupts data. Exclude the node, and test its hardware."
        return [finding(PreflightCode.SUM, rule, fix, wrong)], measured
    moved = 2 * (world - 1) / world * elements * 4 / seconds / 1e9
    if rank == 0:
        sys.stderr.write(
            f"seatrial: all-reduce of {elements * 4 >> 20} MiB over {world} ranks: "
            f"{seconds * 1e3:.1f} ms, {moved:.2f} GB/s\n"
        )
    return [], replace(measured, all_gb_s=moved if world > 1 else None)


def _share(rank: int) -> int:
    """Return a rank's term in the sum; neighbours have different terms."""
    return rank % 7 + 1


if __name__ == "__main__":
    # Exit immediately, without destroying the process group: torch 2.7 waits for its thread while
    # it holds the GIL, and the thread may need the GIL to release a tensor.
    os._exit(main())
