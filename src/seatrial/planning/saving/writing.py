# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How large a checkpoint is, and how long it takes to write."""

from seatrial.catalog.node_types import NodeType
from seatrial.catalog.storage import StorageTier
from seatrial.spec.training import Precision

WEIGHT_BYTES = 2
"""Of a parameter in bf16 or fp16, as the engine computes with it."""
MASTER_BYTES = 4
"""Of its fp32 copy, which the optimizer steps."""
MOMENT_BYTES = 8
"""Of both moments of Adam, in fp32."""

TIB = 1 << 40
MB = 10**6
GB = 10**9
BITS_PER_BYTE = 8


def checkpoint_bytes(parameters: int, precision: Precision = Precision.BF16) -> int:
    """What a resumable checkpoint of a model of so many parameters takes.

    14 bytes a parameter in mixed precision: weights, fp32 master weights, both moments. BLOOM's
    README states 2.3 TB for 176 B (bigscience train/tr11-176B-ml); the sizes in NVIDIA's
    dgxc-benchmarking come to 14.0-14.2. In fp32 the weights are their own master copy. Learning
    rate, random states and data position add some kilobytes.
    """
    if precision is Precision.FP32:
        return parameters * (MASTER_BYTES + MOMENT_BYTES)
    return parameters * (WEIGHT_BYTES + MASTER_BYTES + MOMENT_BYTES)


def file_system_bandwidth(tier: StorageTier, capacity: int) -> float | None:
    """What a volume of so many bytes writes at most, bytes/s; None where nobody publishes it."""
    ceiling = tier.max_gb_s * GB if tier.max_gb_s else None
    if tier.mb_s_per_tib is None:
        return ceiling
    grown = tier.mb_s_per_tib * MB * capacity / TIB
    return grown if ceiling is None else min(grown, ceiling)


def node_bandwidth(node: NodeType) -> float | None:
    """What one node sends at most, bytes/s: a ceiling that storage traffic rarely reaches.

    BigScience wrote 2.4 TB from 64 nodes in 19.5 s, 1.9 GB/s a node.
    """
    if not node.network_gbit_s:
        return None
    return node.network_gbit_s * GB / BITS_PER_BYTE


def write_seconds(
    size: int, nodes: int, per_node: float | None, file_system: float | None
) -> float | None:
    """How long a save takes: the slower of the nodes that write and the file system they share.

    Every node writes an equal share, as with `torch_dist`. None where nobody publishes what the
    file system takes: a node's network alone would be far too good.
    """
    if not file_system:
        return None
    shared = size / file_system
    return max(shared, size / nodes / per_node) if per_node else shared
