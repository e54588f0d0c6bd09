# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a pod asks of its node: processors, memory, GPUs, fabric devices, shared memory, time."""

from math import ceil, floor

from seatrial.catalog.storage import StorageTier
from seatrial.planning.plan import Plan
from seatrial.planning.saving.save_budget import save_seconds
from seatrial.planning.saving.size import (
    checkpoint_bytes,
    file_system_bandwidth,
    kept_checkpoints,
    node_bandwidth,
    volume_bytes,
)
from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest

GIB = 1 << 30
TIB = 1 << 40

CPU_SHARE = 0.9
"""Share of a node's processors that a run asks for; the rest is the system's and daemons'."""
MEMORY_SHARE = 0.85
"""Share of a node's memory: kubelet, system and daemons hold back up to a tenth of it."""
SHARED_MEMORY_GIB = 8
"""Shared memory for each process: 64 GiB for 8, as Azure's charts give."""
SCRATCH_GIB = 50
"""Local disk for caches and temporary files."""

SHORTEST_GRACE = 120
"""Seconds that a pod has to end when a save takes less."""
LONGEST_GRACE = 3600
"""A node that is to be drained does not wait longer."""


def training_resources(scene: Scene) -> Manifest:
    """Requests and limits of a training container: the same, so that nothing else takes from it.

    Equal requests and limits put the pod into the quality class that is evicted last.
    """
    wanted = {
        "cpu": str(max(1, floor(scene.node.cpus * CPU_SHARE * scene.share_of_node))),
        "memory": f"{memory_gib(scene)}Gi",
    }
    processes = scene.plan.machines.processes_per_node
    if scene.profile.gpu_resource and not scene.on_cpu:
        wanted[scene.profile.gpu_resource] = str(processes)
    if scene.fabric_devices and scene.node.fabric_resource:
        wanted[scene.node.fabric_resource] = str(scene.fabric_devices)
    return {"requests": wanted, "limits": dict(wanted)}


def memory_gib(scene: Scene) -> int:
    """Memory of a training container."""
    return max(1, floor(scene.node.memory_gib * MEMORY_SHARE * scene.share_of_node))


def shared_memory_gib(scene: Scene) -> int:
    """Shared memory of a training pod; it counts as memory, and may take a quarter of it."""
    wanted = SHARED_MEMORY_GIB * scene.plan.machines.processes_per_node
    return max(1, min(wanted, memory_gib(scene) // 4))


def small_resources(cpu: str, memory: str) -> Manifest:
    """Requests and limits of a helper beside the run."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


def saved_bytes(plan: Plan) -> int:
    return checkpoint_bytes(plan.model.parameters, plan.spec.training.precision)


def planned_save_seconds(scene: Scene) -> float | None:
    """The time of one save as `seatrial plan` states it; None where no tier is known."""
    if scene.tier is None:
        return None
    spec = scene.plan.spec
    writers = (scene.plan.machines.nodes, node_bandwidth(scene.node))
    kept, volume = spec.checkpoints.keep_last, spec.cluster.storage.capacity
    return save_seconds(saved_bytes(scene.plan), writers, kept, scene.tier, volume)


def capacity_bytes(plan: Plan, tier: StorageTier) -> int:
    """The size of a new volume: as the spec says, or what checkpoints and tokens need.

    A fifth is added for logs, caches and what a file system keeps to itself; then it goes up to
    the next size that the tier comes in.
    """
    given = plan.spec.cluster.storage.capacity
    if given is not None:
        return given
    saves = plan.spec.checkpoints
    kept = kept_checkpoints(
        plan.length.steps, plan.save_every_steps, saves.keep_last, saves.keep_every_steps
    )
    token_bytes = 2 if plan.model.architecture.vocab_size <= 1 << 16 else 4
    needed = saved_bytes(plan) * kept.total + plan.length.tokens * token_bytes
    # Whole GiB, for any size goes where a tier has no steps.
    needed = ceil(1.2 * needed / GIB) * GIB
    return volume_bytes(needed, tier)


def quantity(size: int) -> str:
    """A size as Kubernetes writes it, in the largest unit that leaves it whole."""
    for unit, factor in (("Ti", TIB), ("Gi", GIB), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def grace_seconds(scene: Scene) -> int:
    """The time that a pod has to save and end: a checkpoint to the tier, twice as long."""
    plan, rate = scene.plan, None
    if scene.tier is not None:
        rate = file_system_bandwidth(scene.tier, capacity_bytes(plan, scene.tier))
    # Of an existing claim nothing is known; Azure's smallest Lustre does 2 GB/s.
    seconds = ceil(2 * saved_bytes(plan) / (rate or 2e9)) + 60
    return min(LONGEST_GRACE, max(SHORTEST_GRACE, seconds))
