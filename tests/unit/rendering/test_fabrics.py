# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the manifests contain for the network between the nodes."""

import pytest

from seatrial.rendering.manifest import Manifest
from tests.unit.rendering.scenes import environment, pod

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
