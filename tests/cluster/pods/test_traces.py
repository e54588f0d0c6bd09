# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster that was stopped has never been there."""

import tempfile
from pathlib import Path

import pytest

from tests.cluster.cluster import Tier, running
from tests.cluster.pods.test_node import pod_of
from tests.cluster.traces import traces

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_a_stopped_cluster_leaves_nothing_behind() -> None:
    # Other clusters may run; what they have is the same before and after.
    before = traces()
    with tempfile.TemporaryDirectory(prefix="seatrial-") as folder:
        home = Path(folder) / "home"
        with running(home, Tier.NODE) as cluster:
            namespace = cluster.new_namespace()
            pod = pod_of(
                "sleep 600", volumes=[{"name": "memory", "emptyDir": {"medium": "Memory"}}]
            )
            made = {"apiVersion": "v1", "kind": "Pod", "spec": pod}
            made["metadata"] = {"name": "try", "namespace": namespace}
            assert cluster.api().create(made).accepted
            cluster.kubectl(
                *("wait", "--for=condition=Ready", "pod/try", "-n", namespace, "--timeout=300s")
            )
            during = traces()
        assert not home.exists()
    assert traces() == before
    # Had it not been noticed while it was there, the line above would prove nothing.
    assert during.cgroups
    assert len(during.processes) > len(before.processes)
    assert len(during.networks) > len(before.networks)
