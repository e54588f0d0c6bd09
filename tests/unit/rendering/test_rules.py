# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What cannot be rendered is refused, with every reason at once and at its place."""

import pytest

from seatrial.client import load_plan
from seatrial.errors import FindingsError
from seatrial.findings import Severity
from seatrial.planning.resolve import resolve
from seatrial.recipes.shipped import recipe
from seatrial.rendering.codes import RenderCode
from seatrial.rendering.render import Part, render
from seatrial.rendering.secrets_in import secrets_in
from seatrial.rendering.yaml_text import yaml_documents
from tests.conftest import loaded, resolved
from tests.unit.rendering.scenes import CATALOG, manifests

GKE = ("cluster.profile=gke", "cluster.node_type=a3-ultragpu-8g")
TRAINJOB = "cluster.operator=trainjob"


@pytest.mark.parametrize(
    ("overrides", "code", "field", "said"),
    [
        (
            ("cluster.env={NCCL_PROTO: simple}",),
            RenderCode.FORBIDDEN_VARIABLE,
            "cluster.env.NCCL_PROTO",
            "NCCL_PROTO does harm on efa",
        ),
        (
            ("cluster.env={NCCL_SOCKET_IFNAME: eth0}",),
            RenderCode.FORBIDDEN_VARIABLE,
            "cluster.env.NCCL_SOCKET_IFNAME",
            "NCCL_SOCKET_IFNAME=eth0 does harm",
        ),
        (
            ("cluster.env={RDMAV_FORK_SAFE: '1'}",),
            RenderCode.FORBIDDEN_VARIABLE,
            "cluster.env.RDMAV_FORK_SAFE",
            "rdma-core",
        ),
        (
            ("cluster.env={MASTER_ADDR: host}",),
            RenderCode.RESERVED_VARIABLE,
            "cluster.env.MASTER_ADDR",
            "set by the launcher",
        ),
        (
            ("cluster.env={PET_NNODES: '2'}",),
            RenderCode.RESERVED_VARIABLE,
            "cluster.env.PET_NNODES",
            "set by the launcher",
        ),
        (
            ("cluster.profile=gke", "cluster.node_type=a3-megagpu-8g"),
            RenderCode.DAEMON,
            "cluster.fabric",
            "tcpxo-daemon",
        ),
        (
            (*GKE, "cluster.storage={tier: gcs-fuse}"),
            RenderCode.VOLUME,
            "cluster.storage.tier",
            "makes no volumes",
        ),
        (
            ("cluster.storage={volume: {handle: fs-1, attributes: {dnsname: d}}}",),
            RenderCode.VOLUME,
            "cluster.storage.volume",
            "dnsname, mountname",
        ),
        (
            ("checkpoints={location: /scratch/here, every_steps: 100}",),
            RenderCode.LOCATION,
            "checkpoints.location",
            "ends with the pod",
        ),
        (
            ("checkpoints={location: /database, every_steps: 100}",),
            RenderCode.LOCATION,
            "checkpoints.location",
            "not on the volume",
        ),
        (
            ("cluster.image=worker-megatron-efa",),
            RenderCode.IMAGE,
            "cluster.image",
            "cannot be pulled yet",
        ),
        (
            ("cluster.identity=me@example.com",),
            RenderCode.IDENTITY,
            "cluster.identity",
            "not an identity of this cloud",
        ),
        (
            ("cluster.secrets=[{secret: s, mount: /data}]",),
            RenderCode.MOUNT,
            "cluster.secrets[0].mount",
            "taken already, by storage",
        ),
        (
            (TRAINJOB, "cluster.operator_version='1.9'"),
            RenderCode.OPERATOR_VERSION,
            "cluster.operator_version",
            "2.0, 2.1, 2.2, 2.3",
        ),
        (
            ("cluster.operator_version='2.1'",),
            RenderCode.OPERATOR_VERSION,
            "cluster.operator_version",
            "1.8, 1.9",
        ),
        (
            (TRAINJOB, "cluster.operator_version='2.0'", "cluster.gang=volcano"),
            RenderCode.OPERATOR,
            "cluster.gang",
            "Trainer 2.0 has no Volcano",
        ),
        (
            (
                *("cluster.profile=hyperpod-eks", "cluster.node_type=ml.p4d.24xlarge"),
                *("cluster.operator=hyperpod-pytorchjob", "cluster.gang=volcano"),
            ),
            RenderCode.OPERATOR,
            "cluster.gang",
            "Kueue starts pods together",
        ),
    ],
)
def test_a_rule_refuses_at_its_field(
    overrides: tuple[str, ...], code: RenderCode, field: str, said: str
) -> None:
    spec = loaded(*overrides)
    with pytest.raises(FindingsError) as caught:
        render(resolve(spec, CATALOG), CATALOG, place=spec.where)
    (finding,) = [f for f in caught.value.findings if f.severity is Severity.ERROR]
    assert finding.code == code
    assert finding.where.field == field
    assert said in finding.rule
    assert finding.fix


@pytest.mark.parametrize("name", ["aks-mpt-125m", "aks-mpt-30b"])
def test_a_run_of_llm_foundry_is_rendered_with_its_own_worker(name: str) -> None:
    spec, plan = load_plan(recipe(name).path, (), CATALOG)
    made = render(plan, CATALOG, place=spec.where)
    text = yaml_documents(made.manifests)
    assert "seatrial.worker.llm_foundry.pod" in text
    assert "/opt/seatrial/lock/llm-foundry.txt" in text
    assert "megatron" not in text


def test_a_run_on_this_host_has_no_manifests() -> None:
    plan = load_plan(recipe("gpt2-large-ablation").path, (), CATALOG)[1]
    with pytest.raises(FindingsError) as caught:
        render(plan, CATALOG)
    assert [finding.code for finding in caught.value.findings] == [RenderCode.OPERATOR]


def test_all_reasons_come_at_once() -> None:
    with pytest.raises(FindingsError) as caught:
        manifests("cluster.env={NCCL_ALGO: Ring, RANK: '1'}", "cluster.identity=x")
    errors = [f.code for f in caught.value.findings if f.severity is Severity.ERROR]
    assert errors == [
        RenderCode.FORBIDDEN_VARIABLE,
        RenderCode.RESERVED_VARIABLE,
        RenderCode.IDENTITY,
    ]


def test_an_image_without_the_fabrics_libraries_is_a_warning() -> None:
    _, finding = render(resolved(), CATALOG).findings
    assert finding.code == RenderCode.IMAGE
    assert finding.severity is Severity.WARNING
    assert "EFA installer" in finding.rule
    # Nothing stops such a run: NCCL finds no plugin, takes TCP, and the sum is right.
    assert "over TCP" in finding.rule
    assert "pre-flight" not in finding.fix
    without = render(resolved("cluster.fabric=none"), CATALOG).findings
    assert [each.code for each in without] == [RenderCode.WORKER_LOCK]
    assert render(resolved("cluster.image=a/b:1"), CATALOG).findings == ()


def test_an_image_is_not_blamed_for_what_lies_on_the_node() -> None:
    on_google = ("cluster.profile=gke", "cluster.node_type=a3-ultragpu-8g")
    codes = [finding.code for finding in render(resolved(*on_google), CATALOG).findings]
    assert codes == [RenderCode.WORKER_LOCK]


def test_an_image_without_the_worker_is_noted_with_what_its_pods_need() -> None:
    slow, finding = render(resolved("cluster.namespace=research"), CATALOG).findings[::-1]
    assert (finding.code, finding.severity) == (RenderCode.WORKER_LOCK, Severity.NOTE)
    assert "seatrial-worker-lock of namespace research" in finding.rule
    assert "workerLock" in finding.fix
    assert slow.code == RenderCode.IMAGE


def test_an_image_for_data_that_cannot_be_pulled_is_a_warning() -> None:
    raw = ("cluster.image=a/b:1", "data={sources: [{from: /data/a}], tokenizer: /data/t.json}")
    ray, finding = render(resolved(*raw), CATALOG, Part.DATA).findings
    assert "a RayJob needs ray[default]" in ray.rule
    assert "--on kubernetes" in ray.fix
    assert (finding.code, finding.severity) == (RenderCode.IMAGE, Severity.WARNING)
    assert finding.where.field == "cluster.preparation.image"
    assert "cannot be pulled" in finding.rule
    assert render(resolved(*raw), CATALOG, Part.RUN).findings == ()
    own = resolved(*raw, "cluster.preparation.image=a/data:1")
    assert render(own, CATALOG, Part.DATA).findings == ()


def test_an_image_of_ones_own_whose_tag_moves_is_a_warning() -> None:
    (finding,) = render(resolved("cluster.image=a/b:latest"), CATALOG).findings
    assert (finding.code, finding.severity) == (RenderCode.IMAGE, Severity.WARNING)
    assert "digest" in finding.fix


def test_a_class_that_lacks_what_only_the_cluster_knows_is_a_warning() -> None:
    own = "cluster.image=a/b:1"
    (finding,) = render(resolved(own), CATALOG, Part.ADMIN).findings
    assert (finding.code, finding.severity) == (RenderCode.VOLUME, Severity.WARNING)
    assert "subnetId and securityGroupIds" in finding.rule
    # A run needs the claim alone; whether the class is there, the cluster knows.
    assert render(resolved(own), CATALOG, Part.RUN).findings == ()
    given = "cluster.storage={parameters: {subnetId: a, securityGroupIds: b}}"
    assert render(resolved(own, given), CATALOG, Part.ADMIN).findings == ()


def test_something_that_looks_like_a_secret_is_found_wherever_it_stands() -> None:
    token = "hf_" + "a" * 30
    made = {
        "kind": "ConfigMap",
        "metadata": {"name": "x", "annotations": {"note": f"use {token}"}},
        "data": [{"deep": (f"--token={token}",)}],
        token: "a key too",
    }
    found = secrets_in([made])
    assert found == [
        "ConfigMap/x metadata.annotations.note",
        "ConfigMap/x data[0].deep[0]",
        "ConfigMap/x (not shown)",
    ]


def test_a_key_of_hexadecimal_digits_is_told_from_a_commit_by_its_name() -> None:
    digits = "0123456789abcdef" * 2 + "01234567"
    entry = {"name": "WANDB_API_KEY", "value": digits}
    other = {"name": "SEATRIAL_TOKENIZER_REVISION", "value": digits}
    made = {"kind": "Pod", "metadata": {"name": "x"}, "env": [entry, other]}
    assert secrets_in([made]) == ["Pod/x env[0].value"]
