# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure devices and links with torch: matrix multiplication, memory, all-reduces.

A bus bandwidth is the bytes of an all-reduce over `n` ranks times 2(n-1)/n, divided by its time: a
number that can be compared with the bandwidth of a link, whatever the number of ranks.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from seatrial.worker.node.pairs import PairSearch

GPU_ELEMENTS = 1 << 28
"""Numbers in an all-reduce between GPUs: 1 GiB, where bandwidth no longer grows with the size."""
CPU_ELEMENTS = 1 << 20
"""Numbers in an all-reduce between CPUs: 4 MiB, so that a slow link does not take minutes."""
REPEATS = 5
LONG_SECONDS = 0.5
"""An all-reduce that takes longer is measured only once."""
GPU_MATRIX = 8192
CPU_MATRIX = 512
GPU_MEMORY_SHARE = 0.8
"""Share of the free GPU memory that is tested."""
CPU_MEMORY_BYTES = 32 << 20
"""Memory of a CPU rank that is tested: enough for a copy that no cache holds."""
PATTERNS = (0x5555555555555555, 0x2AAAAAAAAAAAAAAA)
"""Words with every second bit set; the second has the others."""


def matmul_tflops(device: torch.device) -> float:
    """Return the rate of a square GEMM in TFLOP/s: bf16 on a GPU, fp32 on a CPU."""
    on_gpu = device.type == "cuda"
    size, kind = (GPU_MATRIX, torch.bfloat16) if on_gpu else (CPU_MATRIX, torch.float32)
    left = torch.ones((size, size), dtype=kind, device=device)
    seconds = best_seconds(device, lambda: left @ left, repeats=10 if on_gpu else 3)
    return 2 * size**3 / seconds / 1e12


def best_seconds(device: torch.device, work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the shortest time of some work, after a first time that does not count."""
    times = []
    for _ in range(repeats + 1):
        _wait(device)
        began = time.perf_counter()
        work()
        _wait(device)
        times.append(time.perf_counter() - began)
    return max(min(times[1:]), 1e-9)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def check_memory(device: torch.device) -> tuple[float, int]:
    """Write patterns to memory and read them back; return the copy speed in GB/s and the errors."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        words = int(free * GPU_MEMORY_SHARE) // 16
    else:
        words = CPU_MEMORY_BYTES // 16
    one = torch.empty(words, dtype=torch.int64, device=device)
    other = torch.empty_like(one)
    seconds = best_seconds(device, lambda: other.copy_(one), repeats=2)
    wrong = 0
    for pattern in PATTERNS:
        one.fill_(pattern)
        other.copy_(one)
        wrong += _differing(one, pattern) + _differing(other, pattern)
    return 2 * 8 * words / seconds / 1e9, wrong


def _differing(numbers: torch.Tensor, expected: int) -> int:
    # In pieces: a comparison of everything at once would need another eighth of the memory.
    return sum(int((piece != expected).sum()) for piece in numbers.split(1 << 26))


def bus_bandwidth(device: torch.device, group: Any, ranks: int, elements: int) -> float:
    """Return the bus bandwidth of an all-reduce in GB/s; all ranks of the group must call it."""
    numbers = torch.ones(elements, dtype=torch.float32, device=device)
    # The first time opens connections.
    _slowest(device, group, numbers)
    seconds = _slowest(device, group, numbers)
    # All ranks know the time of the slowest, so they agree to stop.
    for _ in range(REPEATS - 1 if seconds < LONG_SECONDS else 0):
        seconds = min(seconds, _slowest(device, group, numbers.fill_(1.0)))
    return 2 * (ranks - 1) / ranks * elements * 4 / max(seconds, 1e-9) / 1e9


def _slowest(device: torch.device, group: Any, numbers: torch.Tensor) -> float:
    """Return the seconds of an all-reduce on the rank that took longest."""
    _wait(device)
    began = time.perf_counter()
    dist.all_reduce(numbers, group=group)
    _wait(device)
    taken = torch.tensor(time.perf_counter() - began, dtype=torch.float64, device=device)
    dist.all_reduce(taken, op=dist.ReduceOp.MAX, group=group)
    return float(taken)


def search_pairs(
    device: torch.device, search: PairSearch, per_node: int, elements: int
) -> PairSearch:
    """Measure pairs of nodes until the slow ones are known; all ranks must call it.

    All pairs of a round measure at the same time, and all ranks get all results, so that all make
    the same decisions.
    """
    mine = dist.get_rank() // per_node
    while not search.is_done:
        pairs = search.pairs()
        gathered = torch.zeros(search.nodes, dtype=torch.float64, device=device)
        pair = next((each for each in pairs if mine in each), None)
        dist.barrier()
        if pair is not None:
            ranks = _ranks(pair, per_node)
            group = dist.new_group(ranks, use_local_synchronization=True)
            gathered[mine] = bus_bandwidth(device, group, len(ranks), elements)
        dist.all_reduce(gathered, op=dist.ReduceOp.MAX)
        values = gathered.tolist()
        search.take({pair: min(values[pair[0]], values[pair[1]]) for pair in pairs})
    return search


def within_node(device: torch.device, per_node: int, elements: int) -> float | None:
    """Return the bus bandwidth between the ranks of this node; None if it has only one rank."""
    if per_node < 2:
        return None
    ranks = _ranks((dist.get_rank() // per_node,), per_node)
    group = dist.new_group(ranks, use_local_synchronization=True)
    return bus_bandwidth(device, group, per_node, elements)


def _ranks(nodes: Sequence[int], per_node: int) -> list[int]:
    return [node * per_node + each for node in nodes for each in range(per_node)]
