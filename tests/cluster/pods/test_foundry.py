# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry in a real cluster: an MPT in 2 pods of 2 processes, one of which is deleted.

The losses must be those of a run that nobody has disturbed, to the bit.
"""

from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.scene import OPERATORS, Scene, lose_a_pod
from tests.cluster.toy_run import FOUNDRY, losses

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(3000)]

STEPS = 60
SAVE_EVERY = 10
DELETE_AT = 25
"""The step after which a pod is deleted."""


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_mpt_that_loses_a_pod_computes_the_same(
    cluster: Cluster, operator: str, tmp_path: Path
) -> None:
    scene = Scene(cluster, operator, tmp_path, FOUNDRY, prefix="mpt")
    scene.seatrial.run("launch", scene.write_spec("calm", STEPS, SAVE_EVERY))
    undisturbed = scene.succeeds("calm")
    assert sorted(undisturbed) == list(range(1, STEPS + 1))
    hit = lose_a_pod(scene, "hit", STEPS, SAVE_EVERY, DELETE_AT)
    assert losses(scene.volume, "hit") == undisturbed
    print(  # noqa: T201
        f"llm-foundry, {operator}: pod {hit.pod} deleted after step {DELETE_AT}, resumed at "
        f"{hit.resumed}; {len(undisturbed)} losses, 0 bits differ; {hit.lines} lines followed"
    )
    cluster.delete_namespace(scene.namespace)
