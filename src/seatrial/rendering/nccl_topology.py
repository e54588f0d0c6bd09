# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""NCCL's topology file, for nodes whose virtual machine hides which adapter is near which GPU."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from seatrial.catalog.node_types import NumaNode, Topology
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import fabric_environment
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.names import Component, metadata

TOPOLOGY_FILE = "NCCL_TOPO_FILE"
"""The variable with the path of NCCL's topology file."""
PART = "topology"
"""Name part of the ConfigMap."""
_MASK_BITS = 32
# Classes of PCI devices, as in the PCI Code and ID Assignment Specification.
_BRIDGE, _GPU, _INFINIBAND = "0x060400", "0x030200", "0x020700"


def topology_path(scene: Scene) -> str:
    """Return where pods mount the topology file; empty if they mount none.

    A spec that sets the variable itself names a file of its own image or volume.
    """
    cluster = scene.plan.spec.cluster
    named = {*cluster.env, *(secret.env for secret in cluster.secrets)}
    if scene.node.topology is None or TOPOLOGY_FILE in named:
        return ""
    values = fabric_environment(scene.fabric, scene.plan.machines.node_type)
    return values.get(TOPOLOGY_FILE, "")


def topology_config(scene: Scene) -> list[Manifest]:
    """Return the ConfigMap with the topology file; empty if pods mount none."""
    path, topology = topology_path(scene), scene.node.topology
    if not path or topology is None:
        return []
    head = metadata(scene.plan, Component.TRAINING, PART)
    data = {PurePosixPath(path).name: topology_xml(topology, scene.node.cpus)}
    return [manifest("v1", "ConfigMap", head, data=data)]


def topology_xml(topology: Topology, cpus: int) -> str:
    """Return the file in NCCL's format (NVIDIA/nccl src/graph/xml.cc).

    The switches have made-up addresses: the virtual machine does not show them, and NCCL only needs
    to know which devices share one.
    """
    lines, switches = ['<system version="1">'], 0
    for number, numa in enumerate(topology.numa_nodes):
        lines.append(
            f'  <cpu numaid="{number}" affinity="{_affinity(numa, cpus)}" arch="x86_64"'
            f' vendor="{topology.cpu_vendor}" familyid="{topology.cpu_family}"'
            f' modelid="{topology.cpu_model}">'
        )
        for switch in numa.switches:
            switches += 1
            bridge = _device(f"ffff:ff:{switches:02x}.0", _BRIDGE, topology)
            # Without these, NCCL searches the node for a switch of this address.
            ids = ("vendor", "device", "subsystem_vendor", "subsystem_device")
            unknown = "".join(f' {name}="0x0000"' for name in ids)
            lines.append(f"    <pci {bridge}{unknown}>")
            devices = [*((_GPU, bus) for bus in switch.gpus)]
            devices += [(_INFINIBAND, bus) for bus in switch.nics]
            lines += [f"      <pci {_device(bus, kind, topology)}/>" for kind, bus in devices]
            lines.append("    </pci>")
        lines.append("  </cpu>")
    return "\n".join((*lines, "</system>", ""))


def _device(bus: str, kind: str, topology: Topology) -> str:
    speed = f"{topology.pcie_gt_s}.0 GT/s PCIe"
    return f'busid="{bus}" class="{kind}" link_speed="{speed}" link_width="16"'


def _affinity(numa: NumaNode, cpus: int) -> str:
    """Return the CPUs of a NUMA node as a mask in 32-bit words, the highest word first."""
    mask = (1 << numa.last_cpu + 1) - (1 << numa.first_cpu)
    return ",".join(f"{word:08x}" for word in _words(mask, -(-cpus // _MASK_BITS)))


def _words(mask: int, count: int) -> Iterator[int]:
    for position in reversed(range(count)):
        yield mask >> (position * _MASK_BITS) & 0xFFFFFFFF
