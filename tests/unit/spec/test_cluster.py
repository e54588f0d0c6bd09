# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a spec can say of the cluster: rules between its fields, and values that are kept."""

import pytest

from seatrial.errors import FindingsError
from seatrial.spec.cluster import Gang
from tests.conftest import loaded


@pytest.mark.parametrize(
    ("overrides", "field", "said"),
    [
        (
            ("cluster.storage={claim: c, volume: {handle: fs-1}}",),
            "cluster.storage.volume",
            "already has a volume",
        ),
        (
            ("cluster.storage={claim: c, parameters: {subnetId: s}}",),
            "cluster.storage.parameters",
            "claim names an existing one",
        ),
        (
            ("cluster.storage={volume: {handle: fs-1}, parameters: {subnetId: s}}",),
            "cluster.storage.parameters",
            "volume names an existing one",
        ),
        (
            ("cluster.service_account=training", "cluster.identity=arn:aws:iam::1:role/r"),
            "cluster.identity",
            "already has an identity",
        ),
        (
            ("cluster.topology={level: example.com/rack}",),
            "cluster.topology",
            "without a queue",
        ),
        (
            ("cluster.queue=q", "cluster.gang=volcano"),
            "cluster.gang",
            "Kueue already admits all pods",
        ),
        (("cluster.operator_version=two",), "cluster.operator_version", ""),
        (("cluster.topology={level: 'a b'}", "cluster.queue=q"), "cluster.topology.level", ""),
        (("cluster.restarts=-1",), "cluster.restarts", ""),
        (
            ("cluster.storage={claim: c, mount_options: [noatime]}",),
            "cluster.storage.mount_options",
            "already has mount options",
        ),
        (
            ("cluster.storage={claim: c, reclaim_policy: Delete}",),
            "cluster.storage.reclaim_policy",
            "already has a reclaim policy",
        ),
        (
            ("cluster.scratch={host_path: /mnt/nvme, storage_class: local}",),
            "cluster.scratch.storage_class",
            "needs no storage class",
        ),
        (
            ("cluster.scratch={size: 1Ti, host_path: /mnt/nvme}",),
            "cluster.scratch.host_path",
            "does not limit the size",
        ),
        (("cluster.scratch={host_path: /mnt/../etc}",), "cluster.scratch.host_path", "rejects"),
        (
            ("cluster.storage={mount_options: ['noatime,flock']}",),
            "cluster.storage.mount_options[0]",
            "right format",
        ),
        (("cluster.resources={memory: 4}",), "cluster.resources.memory", "from the node type"),
        (
            ("cluster.resources={nvidia.com/gpu: 4}",),
            "cluster.resources.nvidia.com/gpu",
            "from the node type",
        ),
        (("cluster.resources={rdma/ib: 0}",), "cluster.resources.rdma/ib", "above 0"),
        (("cluster.shm=64",), "cluster.shm", "has no unit"),
        (
            ("cluster.tolerations=[{key: team, value: a, operator: Exists}]",),
            "cluster.tolerations[0].operator",
            "matches any value",
        ),
        (("cluster.tolerations=[{key: a b}]",), "cluster.tolerations[0].key", "not a valid key"),
        (("cluster.node_selector={pool: 'a b'}",), "cluster.node_selector.pool", "label value"),
        (("cluster.labels={seatrial.dev/run: x}",), "cluster.labels.seatrial.dev/run", "Seatrial"),
        (
            ("cluster.labels={app.kubernetes.io/name: x}",),
            "cluster.labels.app.kubernetes.io/name",
            "set by Seatrial",
        ),
        (
            ("cluster.annotations={kueue.x-k8s.io/queue-name: x}",),
            "cluster.annotations.kueue.x-k8s.io/queue-name",
            "set by Kueue",
        ),
    ],
)
def test_a_contradiction_is_refused_where_it_stands(
    overrides: tuple[str, ...], field: str, said: str
) -> None:
    with pytest.raises(FindingsError) as caught:
        loaded(*overrides)
    (finding,) = caught.value.findings
    assert finding.where.field == field
    assert said in finding.rule


def test_what_a_cluster_needs_is_read() -> None:
    cluster = loaded(
        "cluster.queue=research",
        "cluster.topology={level: example.com/rack, required: true}",
        "cluster.operator_version='2.1'",
        "cluster.identity=arn:aws:iam::1:role/r",
        "cluster.run_as_user=1000",
        "cluster.preparation={pods: 2, cpus: 4, memory: 8Gi}",
        "cluster.storage={volume: {handle: fs-1, attributes: {dnsname: d, mountname: m}}}",
    ).spec.cluster
    assert cluster.topology is not None
    assert cluster.topology.required
    assert cluster.gang is Gang.AUTO
    assert cluster.preparation.memory == 8 << 30
    assert cluster.storage.volume is not None
    assert dict(cluster.storage.volume.attributes) == {"dnsname": "d", "mountname": "m"}
    assert cluster.restarts == 10
    assert cluster.preflight


@pytest.mark.parametrize(
    ("given", "comparison"),
    [("{key: a}", "Exists"), ("{key: a, value: b}", "Equal"), ("{key: a, value: ''}", "Equal")],
)
def test_a_toleration_compares_a_value_if_it_has_one(given: str, comparison: str) -> None:
    (toleration,) = loaded(f"cluster.tolerations=[{given}]").spec.cluster.tolerations
    assert toleration.comparison == comparison


def test_fields_that_are_not_set_are_in_no_digest() -> None:
    written = loaded().spec.cluster.model_dump(mode="json")
    later = {"node_selector", "tolerations", "cpu_nodes", "labels", "annotations"}
    later |= {"resources", "shm", "scratch"}
    assert later.isdisjoint(written)
    assert {"mount_options", "reclaim_policy", "write_gb_s"}.isdisjoint(written["storage"])


def test_a_secret_does_not_hide_in_the_new_fields() -> None:
    with pytest.raises(FindingsError) as caught:
        loaded("cluster.storage={volume: {handle: x, attributes: {k: AKIAABCDEFGHIJKLMNOP}}}")
    assert {finding.code for finding in caught.value.findings} == {"ST-SPEC-006"}
