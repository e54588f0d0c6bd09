# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What cannot be rendered is refused, with every reason at once and at its place."""

import pytest

from seatrial.codes.rendering import RenderCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity
from seatrial.recipes.shipped import recipe
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.pod import install_containers
from seatrial.rendering.render import Part, render
from seatrial.rendering.rules import secrets_in
from seatrial.rendering.yaml_text import yaml_documents
from seatrial.sdk.plan import load_plan
from seatrial.version import VERSION
from tests.conftest import loaded, plan_spec, resolved
from tests.unit.rendering.scenes import CATALOG, manifests

OWN = "cluster.image=YOUR-REGISTRY/b:1"
"""An image without a finding of its own: nothing is known of it yet."""
GKE = ("cluster.profile=gke", "cluster.node_type=a3-ultragpu-8g")
TRAINJOB = "cluster.operator=trainjob"


@pytest.mark.parametrize(
    ("overrides", "code", "field", "said"),
    [
        (
            ("cluster.env={NCCL_PROTO: simple}",),
            RenderCode.FORBIDDEN_VARIABLE,
            "cluster.env.NCCL_PROTO",
            "NCCL_PROTO is harmful on efa",
        ),
        (
            ("cluster.env={NCCL_SOCKET_IFNAME: eth0}",),
            RenderCode.FORBIDDEN_VARIABLE,
            "cluster.env.NCCL_SOCKET_IFNAME",
            "NCCL_SOCKET_IFNAME=eth0 is harmful",
        ),
        (
            ("cluster.env={RDMAV_FORK_SAFE: '1'}",),
            RenderCode.FORBIDDEN_VARIABLE,
            "cluster.env.RDMAV_FORK_SAFE",
            "rdma-core",
        ),
        (
            ("cluster.secrets=[{secret: s, key: k, env: PYTHONPATH}]",),
            RenderCode.RESERVED_VARIABLE,
            "cluster.secrets[0].env",
            "set by the launcher",
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
            (
                "cluster.profile=gke",
                "cluster.node_type=a3-megagpu-8g",
                "cluster.processes_per_node=4",
            ),
            RenderCode.DAEMON,
            "cluster.processes_per_node",
            "tcpxo-daemon",
        ),
        (
            (*GKE, "cluster.storage={tier: gcs-fuse}"),
            RenderCode.VOLUME,
            "cluster.storage.tier",
            "cannot create volumes",
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
            "its files are lost with the pod",
        ),
        (
            ("checkpoints={location: /database, every_steps: 100}",),
            RenderCode.LOCATION,
            "checkpoints.location",
            "not on the shared volume",
        ),
        (
            ("cluster.image=worker-megatron-efa",),
            RenderCode.IMAGE,
            "cluster.image",
            "is not published yet",
        ),
        (
            ("cluster.identity=me@example.com",),
            RenderCode.IDENTITY,
            "cluster.identity",
            "not an identity in this cloud",
        ),
        (
            ("cluster.secrets=[{secret: s, mount: /data}]",),
            RenderCode.MOUNT,
            "cluster.secrets[0].mount",
            "already used by storage",
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
            "Trainer 2.0 does not support Volcano",
        ),
        (
            (
                *("cluster.profile=hyperpod-eks", "cluster.node_type=ml.p4d.24xlarge"),
                *("cluster.operator=hyperpod-pytorchjob", "cluster.gang=volcano"),
            ),
            RenderCode.OPERATOR,
            "cluster.gang",
            "starts pods together with Kueue",
        ),
    ],
)
def test_a_rule_refuses_at_its_field(
    overrides: tuple[str, ...], code: RenderCode, field: str, said: str
) -> None:
    spec = loaded(*overrides)
    with pytest.raises(FindingsError) as caught:
        render(plan_spec(spec, CATALOG), CATALOG, place=spec.where)
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


def about_images(*overrides: str) -> list[Finding]:
    """The findings of a rendering, without the one about starting pods together."""
    found = render(resolved(*overrides), CATALOG).findings
    return [each for each in found if each.code != RenderCode.GANG]


def test_an_image_without_the_fabrics_libraries_is_a_warning() -> None:
    _, finding = about_images()
    assert finding.code == RenderCode.IMAGE
    assert finding.severity is Severity.WARNING
    assert "EFA installer" in finding.rule
    # Nothing stops such a run: NCCL finds no plugin, takes TCP, and the sum is right.
    assert "fall back to TCP" in finding.rule
    assert "pre-flight" not in finding.fix
    without = about_images("cluster.fabric=none")
    assert [each.code for each in without] == [RenderCode.WORKER_LOCK]
    assert about_images(OWN) == []


def test_an_image_without_hyperpods_launcher_is_a_warning() -> None:
    agent = ("cluster.profile=hyperpod-eks", "cluster.node_type=ml.p5.48xlarge", "cluster.nodes=1")
    by_operator = (*agent, "cluster.operator=hyperpod-pytorchjob")
    (found,) = [
        each
        for each in render(resolved(*by_operator), CATALOG).findings
        if "hyperpod-elastic-agent" in each.rule
    ]
    assert (found.code, found.severity) == (RenderCode.IMAGE, Severity.WARNING)
    assert found.where.field == "cluster.image"
    for other in ("cluster.operator=pytorchjob", OWN):
        findings = render(resolved(*by_operator, other), CATALOG).findings
        assert not any("hyperpod-elastic-agent" in each.rule for each in findings)
    assert CATALOG.image("worker-megatron-hyperpod").hyperpod_agent


def test_an_image_is_not_blamed_for_what_lies_on_the_node() -> None:
    on_google = ("cluster.profile=gke", "cluster.node_type=a3-ultragpu-8g")
    codes = [finding.code for finding in about_images(*on_google)]
    assert codes == [RenderCode.WORKER_LOCK]


def test_an_image_without_the_worker_is_noted_with_what_its_pods_need() -> None:
    slow, finding = about_images("cluster.namespace=research")[::-1]
    assert (finding.code, finding.severity) == (RenderCode.WORKER_LOCK, Severity.NOTE)
    assert "seatrial-worker-lock in namespace research" in finding.rule
    assert "workerLock" in finding.fix
    assert slow.code == RenderCode.IMAGE


def test_an_image_for_data_that_cannot_be_pulled_is_a_warning() -> None:
    raw = (OWN, "data={sources: [{from: /data/a}], tokenizer: /data/t.json}")
    ray, _ = render(resolved(*raw), CATALOG, Part.DATA_RAY).findings
    assert "a RayJob needs ray[default]" in ray.rule
    assert "Use --part data" in ray.fix
    (finding,) = render(resolved(*raw), CATALOG, Part.DATA).findings
    assert (finding.code, finding.severity) == (RenderCode.IMAGE, Severity.WARNING)
    assert finding.where.field == "cluster.preparation.image"
    assert "cannot be pulled" in finding.rule
    assert about_images(*raw) == []
    own = resolved(*raw, "cluster.preparation.image=YOUR-REGISTRY/data:1")
    assert render(own, CATALOG, Part.DATA).findings == ()


def test_an_image_of_ones_own_whose_tag_moves_is_a_warning() -> None:
    finding, _ = about_images("cluster.image=a/b:latest")
    assert (finding.code, finding.severity) == (RenderCode.IMAGE, Severity.WARNING)
    assert "digest" in finding.fix


@pytest.mark.parametrize(
    ("engine", "modules"),
    [("megatron", "seatrial, torch, megatron"), ("llm-foundry", "seatrial, torch, llmfoundry")],
)
def test_an_image_that_the_catalog_does_not_have_is_a_warning(engine: str, modules: str) -> None:
    layout = "parallelism={tp_size: 1, pp_size: 1, cp_size: 1, sharding: fsdp, recompute: none}"
    (finding,) = about_images("cluster.image=example.com/any:1.0", f"engine.name={engine}", layout)
    assert (finding.code, finding.severity) == (RenderCode.UNKNOWN_IMAGE, Severity.WARNING)
    assert finding.where.field == "cluster.image"
    assert f"has Seatrial {VERSION}" in finding.rule
    prove = f"docker run --rm --entrypoint python3 example.com/any:1.0 -c 'import {modules}'"
    assert prove in finding.fix
    assert "brings_seatrial = true" in finding.fix


def test_an_image_for_data_that_the_catalog_does_not_have_is_a_warning() -> None:
    raw = (OWN, "data={sources: [{from: /data/a}], tokenizer: /data/t.json}")
    plan = resolved(*raw, "cluster.preparation.image=example.com/any:1.0")
    (finding,) = render(plan, CATALOG, Part.DATA).findings
    assert finding.code == RenderCode.UNKNOWN_IMAGE
    assert finding.where.field == "cluster.preparation.image"
    assert "its extra data" in finding.rule


@pytest.mark.parametrize("name", ["ngc-pytorch-26-02", "nvcr.io/nvidia/pytorch:26.02-py3"])
def test_an_image_of_the_catalog_is_the_same_by_its_reference(name: str) -> None:
    scene = scene_of(resolved(f"cluster.image={name}"), CATALOG, Attempt())
    assert not scene.image.brings_worker
    assert install_containers(scene)


def test_a_class_that_lacks_what_only_the_cluster_knows_is_a_warning() -> None:
    own = OWN
    (finding,) = render(resolved(own), CATALOG, Part.ADMIN).findings
    assert (finding.code, finding.severity) == (RenderCode.VOLUME, Severity.WARNING)
    assert "subnetId and securityGroupIds" in finding.rule
    # A run needs the claim alone; whether the class is there, the cluster knows.
    assert about_images(own) == []
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
