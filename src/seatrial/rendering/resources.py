# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Resources of a pod: CPUs, memory, GPUs, fabric devices, shared memory and grace period."""

from math import ceil, floor

from seatrial.catalog.storage import StorageTier
from seatrial.planning.node_floors import NodeFloors, node_floors
from seatrial.planning.plan import Plan
from seatrial.planning.saving.run_saves import muon_parameters
from seatrial.planning.saving.save_budget import save_seconds
from seatrial.planning.saving.size import (
    GB,
    checkpoint_bytes,
    file_system_bandwidth,
    kept_checkpoints,
    node_bandwidth,
    volume_bytes,
    write_seconds,
)
from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest

GIB = 1 << 30
TIB = 1 << 40

CPU_SHARE = 0.9
"""Fraction of a node's CPUs that a run requests; the rest is for system and daemons."""
MEMORY_SHARE = 0.85
"""Fraction of a node's memory: kubelet, system and daemons reserve up to a tenth of it."""
THREADS_PER_CORE = 2
"""CPUs in the catalog are hardware threads."""
SHARED_MEMORY_GIB = 8
"""Shared memory per process: 64 GiB for 8, as in Azure's charts."""
SCRATCH_GIB = 50
"""Local disk for caches and temporary files."""

SHORTEST_GRACE = 120
"""Minimum grace period in seconds."""
LONGEST_GRACE = 3600
"""Maximum grace period in seconds: the drain of a node does not wait longer."""


def training_resources(scene: Scene) -> Manifest:
    """Return the resources of a training container.

    Requests equal limits, so that the pod gets the Guaranteed QoS class, which is evicted last.
    """
    wanted = {
        "cpu": str(cpus(scene)),
        "memory": f"{memory_gib(scene)}Gi",
    }
    processes = scene.plan.machines.processes_per_node
    if scene.profile.gpu_resource and not scene.on_cpu:
        wanted[scene.profile.gpu_resource] = str(processes)
    fabric, extra = fabric_resource(scene), scene.plan.spec.cluster.resources
    if scene.fabric_devices and fabric:
        wanted[fabric] = str(scene.fabric_devices)
    wanted |= {name: str(count) for name, count in extra.items()}
    return {"requests": wanted, "limits": dict(wanted)}


def cpus(scene: Scene) -> int:
    """Return the CPUs of a training container."""
    return max(1, floor(scene.node.cpus * CPU_SHARE * scene.share_of_node))


def update_threads(scene: Scene) -> int:
    """Return the threads with which a rank updates offloaded optimizer state: one per core."""
    processes = scene.plan.machines.processes_per_node
    return max(1, cpus(scene) // THREADS_PER_CORE // processes)


def fabric_resource(scene: Scene) -> str:
    """Return the resource name of the fabric's devices; empty if pods request none.

    Administrators choose the name. The spec's extra resource of the same domain replaces the name
    in the catalog.
    """
    usual = scene.node.fabric_resource
    domain = usual.partition("/")[0] or "rdma"
    extra = scene.plan.spec.cluster.resources
    return next((name for name in extra if name.partition("/")[0] == domain), usual)


def memory_gib(scene: Scene) -> int:
    """Return the memory of a training container."""
    return max(1, floor(scene.node.memory_gib * MEMORY_SHARE * scene.share_of_node))


def shared_memory_bytes(scene: Scene) -> int:
    """Return the shared memory of a training pod, which counts as memory.

    By default, at most a quarter of the memory.
    """
    chosen = scene.plan.spec.cluster.shm
    if chosen is not None:
        return chosen
    wanted = SHARED_MEMORY_GIB * scene.plan.machines.processes_per_node
    return max(1, min(wanted, memory_gib(scene) // 4)) * GIB


def small_resources(cpu: str, memory: str) -> Manifest:
    """Return the resources of a helper container."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


def saved_bytes(plan: Plan) -> int:
    precision = plan.spec.training.precision
    return checkpoint_bytes(plan.model.parameters, precision, muon_parameters(plan))


def planned_save_seconds(scene: Scene) -> float | None:
    """Return the time of one save as `seatrial plan` shows it; None if it is unknown."""
    spec = scene.plan.spec
    size, storage = saved_bytes(scene.plan), spec.cluster.storage
    writers = (scene.plan.machines.nodes, node_bandwidth(scene.node))
    if scene.tier is not None:
        tier = scene.tier.writing(storage.write_gb_s)
        return save_seconds(size, writers, spec.checkpoints.keep_last, tier, storage.capacity)
    return write_seconds(size, *writers, storage.write_gb_s * GB) if storage.write_gb_s else None


def floors_of(scene: Scene) -> NodeFloors:
    """Return what each node must reach in the preflight measurements."""
    nodes, seconds = scene.plan.machines.nodes, planned_save_seconds(scene)
    return node_floors(
        scene.node,
        scene.accelerator,
        scene.plan.machines.processes_per_node,
        rdma=scene.fabric.rdma,
        write_bytes_per_second=saved_bytes(scene.plan) / seconds / nodes if seconds else None,
    )


def capacity_bytes(plan: Plan, tier: StorageTier) -> int:
    """Return the size of a new volume: from the spec, or enough for checkpoints and tokens.

    The computed size includes an additional 20 % for logs, caches and file system overhead. It is
    rounded up to the next size that the tier offers.
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
    # Round up to GiB, for tiers without size steps.
    needed = ceil(1.2 * needed / GIB) * GIB
    return volume_bytes(needed, tier)


def quantity(size: int) -> str:
    """Format a size as a Kubernetes quantity, in the largest unit that keeps it an integer."""
    for unit, factor in (("Ti", TIB), ("Gi", GIB), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def grace_seconds(scene: Scene) -> int:
    """Return the grace period of a pod: twice the time of a save, plus a minute."""
    plan = scene.plan
    measured = plan.spec.cluster.storage.write_gb_s
    rate = measured * GB if measured else None
    if scene.tier is not None and rate is None:
        rate = file_system_bandwidth(scene.tier, capacity_bytes(plan, scene.tier))
    # The speed of an existing claim is unknown. Azure's smallest Lustre has 2 GB/s.
    seconds = ceil(2 * saved_bytes(plan) / (rate or 2e9)) + 60
    return min(LONGEST_GRACE, max(SHORTEST_GRACE, seconds))
