# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Cluster settings of the spec in the manifests: nodes, labels, resources, disks and storage."""

import pytest

from seatrial.codes.rendering import RenderCode
from seatrial.errors import FindingsError
from seatrial.findings import Severity
from seatrial.rendering.names import RUN_LABEL
from seatrial.rendering.render import Part
from tests.unit.rendering.scenes import Manifest, job, manifests, pod, pod_templates

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
