# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the manifests contain for the network between the nodes."""

import json
from xml.etree import ElementTree as ET

import pytest

from seatrial.rendering.manifest import Manifest
from tests.unit.rendering.scenes import environment, manifests, pod, pod_templates, scene

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
    """The ConfigMap with the topology file, if there is one."""
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


def on_google(node_type: str, *more: str) -> tuple[str, ...]:
    storage = "cluster.storage.tier=google-lustre-1000"
    return ("cluster.profile=gke", f"cluster.node_type={node_type}", storage, *more)


@pytest.mark.parametrize(
    ("node_type", "daemon", "interfaces", "capabilities"),
    [
        ("a3-highgpu-8g", "tcpx-daemon", 4, ["NET_ADMIN"]),
        ("a3-megagpu-8g", "tcpxo-daemon", 8, ["NET_ADMIN", "NET_BIND_SERVICE"]),
    ],
)
@pytest.mark.parametrize("operator", ["pytorchjob", "trainjob"])
def test_googles_daemon_is_a_sidecar_that_starts_before_the_preflight(
    node_type: str, daemon: str, interfaces: int, capabilities: list[str], operator: str
) -> None:
    chosen = on_google(node_type, f"cluster.operator={operator}")
    made = manifests(*chosen)
    template = next(one for each in made[-2:] for one in pod_templates(each))
    names = [each["name"] for each in template["spec"]["initContainers"]]
    assert names.index(daemon) < names.index("preflight")
    sidecar = template["spec"]["initContainers"][names.index(daemon)]
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["securityContext"]["capabilities"] == {"add": capabilities}
    assert (sidecar["securityContext"]["runAsUser"], sidecar["securityContext"]["privileged"]) == (
        0,
        False,
    )
    volumes = {each["name"] for each in template["spec"]["volumes"]}
    for container in (sidecar, template["spec"]["containers"][0]):
        assert {each["name"] for each in container["volumeMounts"]} <= volumes
    # Its devices come by an annotation: only the training container requests GPUs.
    annotations = template["metadata"]["annotations"]
    assert "/dev/nvidia7" in annotations[f"devices.gke.io/container.{daemon}"]
    assert "nvidia.com/gpu" not in str(sidecar["resources"])
    attached = json.loads(annotations["networking.gke.io/interfaces"])
    assert [each["network"] for each in attached] == [
        "default",
        *(f"vpc{number}" for number in range(1, interfaces + 1)),
    ]
    preflight = template["spec"]["initContainers"][names.index("preflight")]
    assert f"--device-count={interfaces}" in preflight["command"]


def test_tcpx_reaches_its_daemon_through_a_directory_of_the_pod() -> None:
    spec = pod(*on_google("a3-highgpu-8g"))
    prefix = environment(spec["containers"][0])["NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"]
    sidecar = next(each for each in spec["initContainers"] if each["name"] == "tcpx-daemon")
    shared = {"name": "daemon-socket", "mountPath": prefix}
    assert shared in sidecar["volumeMounts"]
    assert shared in spec["containers"][0]["volumeMounts"]
    assert sidecar["command"][sidecar["command"].index("--uds_path") + 1] == prefix
    assert {"name": "daemon-socket", "emptyDir": {}} in spec["volumes"]


def test_tcpxo_trains_once_its_daemon_is_ready_and_writes_to_the_apertures() -> None:
    spec = pod(*on_google("a3-megagpu-8g"))
    sidecar = next(each for each in spec["initContainers"] if each["name"] == "tcpxo-daemon")
    ready = environment(sidecar)["HEALTH_CHECK_LOG_FILE"]
    assert sidecar["startupProbe"]["exec"]["command"][-1] == ready
    (mount,) = [
        each
        for each in spec["containers"][0]["volumeMounts"]
        if each["mountPath"] == "/dev/aperture_devices"
    ]
    assert "readOnly" not in mount


def test_without_googles_fabric_there_is_no_daemon() -> None:
    for chosen in (on_google("a3-ultragpu-8g"), on_google("a3-megagpu-8g", "cluster.fabric=none")):
        names = [each["name"] for each in pod(*chosen).get("initContainers", ())]
        assert not any("daemon" in name for name in names)
