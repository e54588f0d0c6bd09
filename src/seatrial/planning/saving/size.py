# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Size of a checkpoint, and the time to write it."""

from dataclasses import dataclass

from seatrial.catalog.node_types import NodeType
from seatrial.catalog.storage import StorageTier
from seatrial.spec.training import Precision

WEIGHT_BYTES = 2
"""Bytes per parameter in bf16 or fp16, in which the engine computes."""
MASTER_BYTES = 4
"""Bytes per parameter for the fp32 copy, which the optimizer updates."""
MOMENT_BYTES = 8
"""Bytes per parameter for both Adam moments, in fp32."""
MOMENTUM_BYTES = 4
"""Bytes per parameter for Muon's momentum, in fp32."""

TIB = 1 << 40
MB = 10**6
GB = 10**9
BITS_PER_BYTE = 8


def checkpoint_bytes(
    parameters: int, precision: Precision = Precision.BF16, muon_parameters: int = 0
) -> int:
    """Return the size of a resumable checkpoint.

    Mixed precision takes 14 bytes per parameter: weights, fp32 master weights, both moments.
    BLOOM's README states 2.3 TB for 176 B (bigscience train/tr11-176B-ml); the sizes in NVIDIA's
    dgxc-benchmarking imply 14.0-14.2. In fp32, the weights are the master copy. Learning rate,
    random states and data position add some kilobytes. Muon has one moment instead of two.
    """
    weights = MASTER_BYTES if precision is Precision.FP32 else WEIGHT_BYTES + MASTER_BYTES
    fewer = muon_parameters * (MOMENT_BYTES - MOMENTUM_BYTES)
    return parameters * (weights + MOMENT_BYTES) - fewer


def file_system_bandwidth(tier: StorageTier, capacity: int) -> float | None:
    """Return the write bandwidth of a volume in bytes/s, or None if it is not published."""
    ceiling = tier.max_gb_s * GB if tier.max_gb_s else None
    if tier.mb_s_per_tib is None:
        return ceiling
    grown = tier.mb_s_per_tib * MB * capacity / TIB
    return grown if ceiling is None else min(grown, ceiling)


def node_bandwidth(node: NodeType) -> float | None:
    """Return the network bandwidth of a node in bytes/s, an upper bound for storage traffic.

    BigScience wrote 2.4 TB from 64 nodes in 19.5 s, 1.9 GB/s per node.
    """
    if not node.network_gbit_s:
        return None
    return node.network_gbit_s * GB / BITS_PER_BYTE


def write_seconds(
    size: int, nodes: int, per_node: float | None, file_system: float | None
) -> float | None:
    """Return the seconds per save: the slower of the nodes and their shared file system.

    Every node writes an equal share, as with `torch_dist`. Return None if the bandwidth of the
    file system is not published: the network of the nodes alone would be far too optimistic.
    """
    if not file_system:
        return None
    shared = size / file_system
    return max(shared, size / nodes / per_node) if per_node else shared


GIB = 1 << 30
IN_PROGRESS = 1
"""A new checkpoint is complete before the oldest checkpoint is removed."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Maximum number of checkpoints on the volume at any time."""

    latest: int
    """The newest checkpoints; older checkpoints are removed."""
    permanent: int
    """Checkpoints that are kept permanently and are not among the newest."""
    in_progress: int
    """The checkpoint that is being written."""

    @property
    def total(self) -> int:
        return self.latest + self.permanent + self.in_progress


def kept_checkpoints(
    steps: int, every_steps: int, keep_last: int, keep_every_steps: int | None
) -> Kept:
    """Return the largest number of checkpoints that the retention policy keeps.

    The volume is fullest while the last checkpoint is written. It then also contains the newest
    `keep_last`, and every other checkpoint at a multiple of `keep_every_steps`.
    """
    saves = -(-steps // every_steps)
    before = saves - 1
    latest = min(keep_last, before)
    permanent = 0
    if keep_every_steps:
        oldest_latest = (before - latest + 1) * every_steps
        # A checkpoint exists only at multiples of every_steps.
        permanent = sum(
            step % every_steps == 0
            for step in range(keep_every_steps, min(oldest_latest, steps), keep_every_steps)
        )
    return Kept(latest, permanent, IN_PROGRESS if saves else 0)


def volume_bytes(needed: int, tier: StorageTier) -> int:
    """Return the size of the smallest volume in the tier that can store this many bytes."""
    least = int((tier.min_tib or 0) * TIB)
    step = int((tier.step_tib or 0) * TIB)
    if needed <= least:
        return least
    return least + -(-(needed - least) // step) * step if step else needed


def too_large(needed: int, tier: StorageTier) -> bool:
    """Return True if the tier needs a quota increase for this many bytes."""
    return tier.max_tib is not None and volume_bytes(needed, tier) > tier.max_tib * TIB


def usd_per_month(capacity: int, tier: StorageTier) -> float | None:
    """Return the list price per month, or None if no price is published."""
    return None if tier.price is None else capacity / GIB * tier.price.usd_per_gib_month


WRITES_PER_RANK = 2
"""Files per rank in a save: megatron-core writes with two threads, other engines with one."""
OTHER_WRITES = 6
"""Files of a save besides those of the ranks: metadata, shared state and the record."""


def usd_per_save(ranks: int, tier: StorageTier) -> float | None:
    """Return the list price of a save's write operations, or None if they are free or unknown."""
    price = None if tier.price is None else tier.price.usd_per_1000_writes
    return None if price is None else (WRITES_PER_RANK * ranks + OTHER_WRITES) / 1000 * price
