# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster of one's own without GPUs, from a user's catalog: the engine trains on processors."""

from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import render
from tests.conftest import loaded, plan_spec
from tests.unit.rendering.scenes import environment, pod_templates

NODE_TYPES = """\
[small]
like = "local"
title = "2 processors"
cpus = 2
memory_gib = 8
source = "definition: tests"
"""
PROFILES = """\
[lab]
like = "eks"
title = "Kubernetes without GPUs"
cloud = "local"
default_node_type = "small"
node_types = ["small"]
default_storage = "local-path"
storage = ["local-path"]
gpu_resource = ""
node_type_label = ""
tolerations = []
network_interface = "eth0"
source = "definition: tests"
"""


@pytest.fixture
def templates(tmp_path: Path) -> list[Manifest]:
    """The pods of a run on such a cluster."""
    (tmp_path / "node_types.toml").write_text(NODE_TYPES)
    (tmp_path / "profiles.toml").write_text(PROFILES)
    catalog = Catalog([tmp_path])
    spec = loaded(
        "cluster={profile: lab, nodes: 2, processes_per_node: 2, image: 'local/worker:1', "
        "storage: {claim: shared}}",
    )
    return pod_templates(render(plan_spec(spec, catalog), catalog).manifests[-1])


def test_it_trains_on_processors(templates: list[Manifest]) -> None:
    for template in templates:
        (container,) = template["spec"]["containers"]
        assert container["resources"]["limits"] == {"cpu": "1", "memory": "6Gi"}
        told = environment(container)
        assert told["SEATRIAL_DEVICE"] == "cpu"
        assert told["GLOO_SOCKET_IFNAME"] == "eth0"
        words = container["command"]
        assert words[words.index("--distributed-backend") + 1] == "gloo"
        assert words[words.index("--transformer-impl") + 1] == "local"


def test_nothing_is_asked_of_gpus_and_a_fabric(templates: list[Manifest]) -> None:
    for template in templates:
        spec = template["spec"]
        (preflight,) = spec["initContainers"]
        assert "--gpus=0" in preflight["command"]
        assert not [word for word in preflight["command"] if word.startswith("--devices")]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert "add" not in spec["containers"][0]["securityContext"]["capabilities"]
        assert "nodeAffinity" not in spec["affinity"]
        assert "tolerations" not in spec
