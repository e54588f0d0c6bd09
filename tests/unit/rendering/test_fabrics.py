# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the manifests contain for the network between the nodes."""

from xml.etree import ElementTree as ET

import pytest

from seatrial.rendering.manifest import Manifest
from tests.unit.rendering.scenes import environment, manifests, pod, scene

AKS = (
    "cluster.profile=aks",
    "cluster.node_type=Standard_ND96isr_H100_v5",
    "cluster.storage.tier=amlfs-125",
)
SHARP = (*AKS, "cluster.fabric=infiniband-sharp")


def trainer(*overrides: str) -> Manifest:
    container: Manifest = pod(*overrides)["containers"][0]
    return container


def test_megatron_reduces_in_the_switches_where_the_fabric_enables_it() -> None:
    container = trainer(*SHARP)
    assert environment(container)["NCCL_COLLNET_ENABLE"] == "1"
    assert "--use-sharp" in container["command"]
    plain = trainer(*AKS)
    assert "NCCL_COLLNET_ENABLE" not in environment(plain)
    assert "--use-sharp" not in plain["command"]


@pytest.mark.parametrize(
    "changed", ["cluster.env.NCCL_COLLNET_ENABLE='0'", "engine.options={use-sharp: false}"]
)
def test_the_spec_can_disable_reductions_in_the_switches(changed: str) -> None:
    assert "--use-sharp" not in trainer(*SHARP, changed)["command"]


def on_azure(node_type: str) -> tuple[str, ...]:
    return (*AKS, f"cluster.node_type={node_type}")


def topology(*overrides: str) -> Manifest | None:
    """The config map with the topology file, if there is one."""
    named = [m for m in manifests(*overrides) if m["metadata"]["name"].endswith("--topology")]
    return named[0] if named else None


@pytest.mark.parametrize(
    ("node_type", "path", "numa_nodes", "switches"),
    [
        ("Standard_ND96isr_H100_v5", "/etc/ndv5-topo.xml", 2, 8),
        ("Standard_ND96isr_H200_v5", "/etc/ndv5-topo.xml", 2, 8),
        ("Standard_ND96asr_v4", "/opt/microsoft/ndv4-topo.xml", 4, 4),
        ("Standard_ND96amsr_A100_v4", "/opt/microsoft/ndv4-topo.xml", 4, 4),
    ],
)
def test_the_topology_file_of_azure_is_mounted_where_the_variable_names_it(
    node_type: str, path: str, numa_nodes: int, switches: int
) -> None:
    template = pod(*on_azure(node_type))
    made = topology(*on_azure(node_type))
    assert made is not None
    (name,) = made["data"]
    for container in (template["containers"][0], template["initContainers"][-1]):
        assert environment(container)["NCCL_TOPO_FILE"] == path
        (mount,) = [m for m in container["volumeMounts"] if m["mountPath"] == path]
        assert mount == {"name": "topology", "mountPath": path, "subPath": name, "readOnly": True}
    (volume,) = [v for v in template["volumes"] if v["name"] == "topology"]
    assert volume["configMap"] == {"name": made["metadata"]["name"]}
    assert not any("hostPath" in one for one in template["volumes"])
    system = ET.fromstring(made["data"][name])  # noqa: S314  (our own)
    node = scene(*on_azure(node_type)).node
    assert len(system.findall("cpu")) == numa_nodes
    assert len(system.findall("cpu/pci")) == switches
    devices = [one.attrib for one in system.findall("cpu/pci/pci")]
    assert len({one["busid"] for one in devices}) == node.gpus + node.nics
    kinds = [one["class"] for one in devices]
    assert (kinds.count("0x030200"), kinds.count("0x020700")) == (node.gpus, node.nics)


def test_every_cpu_of_the_topology_belongs_to_one_numa_node() -> None:
    made = topology(*on_azure("Standard_ND96isr_H100_v5"))
    assert made is not None
    system = ET.fromstring(made["data"]["ndv5-topo.xml"])  # noqa: S314  (our own)
    masks = [one.attrib["affinity"] for one in system.findall("cpu")]
    assert masks == ["00000000,0000ffff,ffffffff", "ffffffff,ffff0000,00000000"]


@pytest.mark.parametrize(
    "changed",
    [
        "cluster.env.NCCL_TOPO_FILE=/opt/own/topology.xml",
        "cluster.fabric=none",
        "cluster.node_type=Standard_ND128isr_GB300_v6",
    ],
)
def test_no_topology_file_is_made_where_the_variable_is_not_ours(changed: str) -> None:
    assert topology(*AKS, "cluster.storage.capacity=48Ti", changed) is None
