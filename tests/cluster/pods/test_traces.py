# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster that was stopped has never been there."""

import tempfile
from pathlib import Path

import pytest

from tests.cluster.cluster import Tier, running
from tests.cluster.network import own_layout
from tests.cluster.pods.test_node import pod_of
from tests.cluster.traces import Traces, traces

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_a_stopped_cluster_leaves_nothing_behind() -> None:
    with tempfile.TemporaryDirectory(prefix="seatrial-") as folder:
        home = Path(folder) / "home"
        network = own_layout(home).network
        before = traces(home, network)
        with running(home, Tier.NODE) as cluster:
            assert cluster.layout.network == network
            namespace = cluster.new_namespace()
            volumes = [{"name": "memory", "emptyDir": {"medium": "Memory"}}]
            made = {"apiVersion": "v1", "kind": "Pod", "spec": pod_of("sleep 600", volumes=volumes)}
            made["metadata"] = {"name": "try", "namespace": namespace}
            assert cluster.api().create(made).accepted
            cluster.kubectl(
                *("wait", "--for=condition=Ready", "pod/try", "-n", namespace, "--timeout=300s")
            )
            during = traces(home, network)
        assert not home.exists()
        after = traces(home, network)
    # Another cluster may run meanwhile, and have less in the end; nothing may be new.
    for name in Traces.__slots__:
        assert set(getattr(after, name)) - set(getattr(before, name)) == set(), name
    # Had they not been noticed while they were there, the lines above would prove nothing.
    assert during.cgroups
    assert any(run.startswith("sleep 600") for run in during.processes)
    assert {"kubelet", "etcd"} <= {run.split()[0] for run in during.processes}
    assert set(during.networks) - set(before.networks)
