# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that all nodes in a run do together before training: clocks, a shared file, an all-reduce.

Started by torchrun from `seatrial.worker.node.preflight`, with its own store: a process group that
was created and destroyed would leave its keys in the store that training uses. A finding is
printed as a line of JSON.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from seatrial.codes.preflight import PreflightCode
from seatrial.findings import Finding
from seatrial.worker.node.preflight import TOGETHER_SECONDS, finding, skew_findings

ELEMENTS = 16 << 20
"""Number of elements in the all-reduce: 64 MiB, enough to use every link in a ring."""
ROUNDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks together with the other nodes, and print the findings."""
    parser = argparse.ArgumentParser(prog="python -m seatrial.worker.node.all_reduce")
    parser.add_argument("--directory", required=True)
    parser.add_argument("--elements", type=int, default=ELEMENTS)
    given = parser.parse_args(arguments)
    on_gpu = torch.cuda.is_available() and os.environ.get("SEATRIAL_DEVICE") != "cpu"
    device = torch.device("cpu")
    if on_gpu:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    backend = "nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=TOGETHER_SECONDS))
    found = [
        *clock_findings(device),
        *sharing_findings(Path(given.directory)),
        *sum_findings(device, given.elements),
    ]
    # This is a collective, so all ranks call it; only ranks without earlier findings report it.
    others = other_findings(device, len(found))
    found = found or others
    for each in found:
        sys.stdout.write(json.dumps(each.to_dict()) + "\n")
    sys.stdout.flush()
    dist.barrier()
    return 1 if found else 0


def other_findings(device: torch.device, mine: int) -> list[Finding]:
    """Report findings on another node: if only some ranks exit, torchrun waits for the rest."""
    faults = torch.tensor(mine, dtype=torch.int64, device=device)
    dist.all_reduce(faults)
    if int(faults) == mine:
        return []
    rule = "this node passed its checks, but another node did not."
    return [finding(PreflightCode.TOGETHER, rule, "See the findings from the other pods.")]


def clock_findings(device: torch.device, now: float | None = None) -> list[Finding]:
    """Compare this node's clock with those of all nodes, read after a barrier."""
    dist.barrier()
    mine = torch.tensor(time.time() if now is None else now, dtype=torch.float64, device=device)
    clocks = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(clocks, mine)
    return skew_findings(float(mine), [float(clock) for clock in clocks])


def sharing_findings(directory: Path) -> list[Finding]:
    """Check that this node sees a file that the first node wrote."""
    name: list[str] = [f".meeting-{time.time_ns()}"]
    dist.broadcast_object_list(name)
    probe = directory / name[0]
    if dist.get_rank() == 0:
        probe.write_text("seatrial")
    dist.barrier()
    seen = _appears(probe)
    dist.barrier()
    if dist.get_rank() == 0:
        probe.unlink(missing_ok=True)
    if seen:
        return []
    rule = f"this node does not see a file that node 0 wrote to {directory}."
    fix = "Check that all pods mount the same volume, and that it supports several nodes."
    return [finding(PreflightCode.NOT_SHARED, rule, fix, directory)]


def _appears(probe: Path, patience: float = 10.0) -> bool:
    """Wait for a file; a network file system may show it with a delay."""
    until = time.monotonic() + patience
    while not probe.exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def sum_findings(device: torch.device, elements: int) -> list[Finding]:
    """Sum one value per rank, and compare the sum with the expected result."""
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
        return [finding(PreflightCode.SUM, rule, fix, wrong)]
    if rank == 0:
        moved = 2 * (world - 1) / world * elements * 4 / seconds / 1e9
        sys.stderr.write(
            f"seatrial: all-reduce of {elements * 4 >> 20} MiB over {world} ranks: "
            f"{seconds * 1e3:.1f} ms, {moved:.2f} GB/s\n"
        )
    return []


def _share(rank: int) -> int:
    """Return a rank's term in the sum; neighbours have different terms."""
    return rank % 7 + 1


if __name__ == "__main__":
    # Exit immediately, without destroying the process group: torch 2.7 waits for its thread while
    # it holds the GIL, and the thread may need the GIL to release a tensor.
    os._exit(main())
