# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Cluster settings of the spec in the manifests: nodes, labels, resources, disks and storage."""

import pytest

from seatrial.codes.rendering import RenderCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.names import RUN_LABEL
from seatrial.rendering.render import Part, render
from tests.conftest import resolved
from tests.unit.rendering.scenes import (
    CATALOG,
    FIRST,
    environment,
    job,
    manifests,
    pod,
    pod_templates,
)

TYPE = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p4d.24xlarge"]}
OPERATORS = ["pytorchjob", "trainjob"]


def expressions(spec: Manifest) -> list[Manifest]:
    """What the node of a pod must have."""
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    found: list[Manifest] = term["matchExpressions"]
    return found


@pytest.mark.parametrize("operator", OPERATORS)
def test_nodes_are_selected_in_addition_to_the_profile(operator: str) -> None:
    spec = pod(
        f"cluster.operator={operator}",
        "cluster.node_selector={pool: gold}",
        "cluster.tolerations=[{key: team, value: vision}, {key: spot, effect: NoExecute}]",
    )
    assert expressions(spec) == [TYPE, {"key": "pool", "operator": "In", "values": ["gold"]}]
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "vision"},
        {"key": "spot", "operator": "Exists", "effect": "NoExecute"},
    ]


@pytest.mark.parametrize("part", [Part.RUN, Part.DATA, Part.DATA_RAY])
@pytest.mark.parametrize("operator", OPERATORS)
def test_labels_and_annotations_are_on_every_object_and_pod_of_a_run(
    part: Part, operator: str
) -> None:
    made = manifests(
        f"cluster.operator={operator}",
        "cluster.identity=arn:aws:iam::1:role/r",
        "cluster.labels={team: nlp}",
        "cluster.annotations={example.com/cost: '7'}",
        part=part,
    )
    heads = [each["metadata"] for each in made]
    heads += [template["metadata"] for each in made for template in pod_templates(each)]
    for head in heads:
        assert head["labels"]["team"] == "nlp"
        assert head["labels"][RUN_LABEL] == "slim-7b"
        assert head["annotations"]["example.com/cost"] == "7"
    selectors = [each["spec"]["selector"] for each in made if "selector" in each.get("spec", {})]
    assert all("team" not in str(selector) for selector in selectors)


def test_objects_that_runs_share_have_no_labels_of_one_run() -> None:
    for each in manifests("cluster.labels={team: nlp}", part=Part.ADMIN):
        assert "team" not in each["metadata"]["labels"]


@pytest.mark.parametrize(
    ("overrides", "field", "said"),
    [
        (
            ("cluster.node_selector={node.kubernetes.io/instance-type: p5.48xlarge}",),
            "cluster.node_selector.node.kubernetes.io/instance-type",
            "profile eks requires node.kubernetes.io/instance-type=p4d.24xlarge",
        ),
        (
            (
                *("cluster.profile=gke", "cluster.node_type=a3-megagpu-8g"),
                "cluster.annotations={networking.gke.io/default-interface: eth9}",
            ),
            "cluster.annotations.networking.gke.io/default-interface",
            "the fabric or the storage tier sets",
        ),
    ],
)
def test_what_the_profile_sets_cannot_have_another_value(
    overrides: tuple[str, ...], field: str, said: str
) -> None:
    with pytest.raises(FindingsError) as caught:
        job(*overrides)
    (finding,) = [each for each in caught.value.findings if each.severity is Severity.ERROR]
    assert (finding.code, finding.where.field) == (RenderCode.TAKEN, field)
    assert said in finding.rule


@pytest.mark.parametrize("part", [Part.DATA, Part.DATA_RAY])
def test_data_pods_stay_off_the_gpu_nodes_and_are_queued_with_the_priority(part: Part) -> None:
    made = manifests("cluster.queue=research", "cluster.priority_class=high", part=part)
    jobs = [each for each in made if each["kind"] in ("Job", "RayJob")]
    assert len(jobs) == (3 if part is Part.DATA else 1)
    for each in jobs:
        assert each["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
        for template in pod_templates(each):
            assert template["spec"]["priorityClassName"] == "high"
            (avoided,) = [e for e in expressions(template["spec"]) if e["operator"] == "NotIn"]
            assert avoided["key"] == TYPE["key"]
            assert "p4d.24xlarge" in avoided["values"]


@pytest.mark.parametrize("part", [Part.RUN, Part.DATA, Part.DATA_RAY])
def test_the_spec_names_the_nodes_for_pods_without_gpus(part: Part) -> None:
    nodes = "{node_selector: {pool: cpu}, tolerations: [{key: pool, value: cpu}]}"
    made = manifests(f"cluster.cpu_nodes={nodes}", part=part)
    pods = [
        template["spec"]
        for each in made
        if each["kind"] in ("Job", "RayJob", "Deployment")
        for template in pod_templates(each)
    ]
    assert pods
    for spec in pods:
        assert {"key": "pool", "operator": "In", "values": ["cpu"]} in expressions(spec)
        assert spec["tolerations"] == [{"key": "pool", "operator": "Equal", "value": "cpu"}]


def test_training_pods_ignore_the_nodes_for_pods_without_gpus() -> None:
    spec = pod("cluster.cpu_nodes={node_selector: {pool: cpu}, tolerations: [{key: pool}]}")
    assert expressions(spec) == [TYPE]
    assert [each["key"] for each in spec["tolerations"]] == ["nvidia.com/gpu"]


def test_pods_without_gpus_use_gpu_nodes_if_the_spec_selects_their_type() -> None:
    chosen = f"cluster.cpu_nodes={{node_selector: {{{TYPE['key']}: p4d.24xlarge}}}}"
    for each in manifests(chosen, part=Part.DATA):
        for template in pod_templates(each):
            assert TYPE in expressions(template["spec"])
            assert "NotIn" not in [e["operator"] for e in expressions(template["spec"])]


def container(spec: Manifest) -> Manifest:
    """The training container of a pod."""
    (found,) = spec["containers"]
    return dict(found)


def volume(spec: Manifest, name: str) -> Manifest:
    """A volume of a pod, without its name."""
    (found,) = [each for each in spec["volumes"] if each["name"] == name]
    return {key: value for key, value in found.items() if key != "name"}


def test_the_size_of_shared_memory_is_the_specs_and_preflight_checks_it() -> None:
    spec = pod("cluster.shm=200Gi")
    assert volume(spec, "shared-memory") == {"emptyDir": {"medium": "Memory", "sizeLimit": "200Gi"}}
    (preflight,) = [each for each in spec["initContainers"] if each["name"] == "preflight"]
    assert "--shared-memory-gib=200" in preflight["command"]


def test_extra_resources_are_requested_and_replace_the_fabrics_of_the_same_domain() -> None:
    wanted = container(pod("cluster.resources={example.com/fast: 2}"))["resources"]
    assert wanted["requests"] == wanted["limits"]
    assert wanted["limits"]["example.com/fast"] == "2"
    assert wanted["limits"]["vpc.amazonaws.com/efa"] == "4"
    other = container(pod("cluster.resources={vpc.amazonaws.com/efa-only: 3}"))["resources"]
    assert "vpc.amazonaws.com/efa" not in other["limits"]
    assert other["limits"]["vpc.amazonaws.com/efa-only"] == "3"


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ("{size: 500Gi}", {"emptyDir": {"sizeLimit": "500Gi"}}),
        ("{host_path: /mnt/nvme}", {"hostPath": {"path": "/mnt/nvme", "type": "Directory"}}),
        (
            "{storage_class: local-nvme}",
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "storageClassName": "local-nvme",
                            "resources": {"requests": {"storage": "50Gi"}},
                        }
                    }
                }
            },
        ),
    ],
)
def test_scratch_is_what_the_spec_says_in_training_pods_only(given: str, source: Manifest) -> None:
    assert volume(pod(f"cluster.scratch={given}"), "scratch") == source
    usual = {"emptyDir": {"sizeLimit": "50Gi"}}
    assert volume(pod(), "scratch") == usual
    for each in manifests(f"cluster.scratch={given}", part=Part.DATA):
        for template in pod_templates(each):
            assert volume(template["spec"], "scratch") == usual


def test_mount_options_and_reclaim_policy_are_on_what_an_administrator_creates() -> None:
    chosen = "mount_options: [noatime, nconnect=8], reclaim_policy: Delete"
    storage_class = manifests(f"cluster.storage={{{chosen}}}", part=Part.ADMIN)[0]
    assert storage_class["mountOptions"] == ["noatime", "nconnect=8"]
    assert storage_class["reclaimPolicy"] == "Delete"
    existing = "volume: {handle: fs-1, attributes: {dnsname: d, mountname: m}}"
    made = manifests(f"cluster.storage={{{existing}, {chosen}}}", part=Part.ADMIN)[0]
    assert made["kind"] == "PersistentVolume"
    assert made["spec"]["mountOptions"] == ["noatime", "nconnect=8"]
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


def findings(code: RenderCode, *overrides: str) -> list[Finding]:
    """The findings of rendering a run with a code."""
    found = render(resolved(*overrides), CATALOG, Part.RUN, FIRST).findings
    return [each for each in found if each.code == code]


def test_a_host_directory_is_noted_with_the_pod_security_that_it_needs() -> None:
    (note,) = findings(RenderCode.HOST_PATH, "cluster.scratch={host_path: /mnt/nvme}")
    assert note.severity is Severity.NOTE
    assert "level privileged" in note.fix
    assert findings(RenderCode.HOST_PATH, "cluster.scratch={size: 500Gi}") == []


def test_rdma_as_another_user_than_root_is_a_warning() -> None:
    (warning,) = findings(RenderCode.RDMA_USER, "cluster.run_as_user=1000")
    assert warning.severity is Severity.WARNING
    assert "IPC_LOCK" in warning.rule
    assert findings(RenderCode.RDMA_USER, "cluster.run_as_user=0") == []
    assert findings(RenderCode.RDMA_USER) == []
    assert findings(RenderCode.RDMA_USER, "cluster.run_as_user=1000", "cluster.fabric=none") == []


ONPREM = ("cluster.profile=onprem", "cluster.node_type=onprem-8xh100")
CLAIM = "cluster.storage={claim: shared}"


@pytest.mark.parametrize("operator", OPERATORS)
def test_on_premises_the_spec_names_nodes_devices_and_volume(operator: str) -> None:
    spec = pod(
        *ONPREM,
        CLAIM,
        f"cluster.operator={operator}",
        "cluster.fabric=roce",
        "cluster.node_selector={nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}",
        "cluster.resources={rdma/hca_shared_devices_a: 1}",
        "cluster.env={NCCL_IB_GID_INDEX: '3'}",
    )
    (product,) = expressions(spec)
    assert product["values"] == ["NVIDIA-H100-80GB-HBM3"]
    wanted = container(spec)
    assert wanted["resources"]["limits"]["rdma/hca_shared_devices_a"] == "1"
    assert wanted["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert wanted["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    assert environment(wanted)["NCCL_IB_GID_INDEX"] == "3"
    assert volume(spec, "storage") == {"persistentVolumeClaim": {"claimName": "shared"}}


@pytest.mark.parametrize("fabric", ["infiniband", "roce", "none"])
def test_on_premises_there_are_three_fabrics(fabric: str) -> None:
    plan = resolved(*ONPREM, CLAIM, f"cluster.fabric={fabric}")
    assert not [f for f in render(plan, CATALOG).findings if f.severity is Severity.ERROR]


def test_on_premises_a_claim_is_required() -> None:
    with pytest.raises(FindingsError) as caught:
        job(*ONPREM)
    (finding,) = [each for each in caught.value.findings if each.severity is Severity.ERROR]
    assert (finding.code, finding.where.field) == (RenderCode.VOLUME, "cluster.storage.claim")
    assert "ReadWriteMany" in finding.fix


def test_the_throughput_of_a_volume_sets_the_planned_time_of_a_save() -> None:
    def seconds(*overrides: str) -> float | None:
        planned = environment(container(pod(*overrides))).get("SEATRIAL_SAVE_SECONDS")
        return float(planned) if planned else None

    assert seconds(*ONPREM, CLAIM) is None
    slow = seconds(*ONPREM, "cluster.storage={claim: shared, write_gb_s: 2}")
    fast = seconds(*ONPREM, "cluster.storage={claim: shared, write_gb_s: 4}")
    assert slow is not None
    assert fast == pytest.approx(slow / 2, rel=0.01)
    assert seconds("cluster.storage={write_gb_s: 2}") == pytest.approx(slow, rel=0.01)
