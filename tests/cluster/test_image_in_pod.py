# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The image for processors, as pods of a run: nothing of this machine is shown to them.

Needs root, and what `test_image.py` needs to build the image.
"""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.build_image import Built, Variant, build, default_cache
from tests.cluster import node
from tests.cluster.cluster import Cluster, Tier, running
from tests.cluster.scene import Scene
from tests.cluster.toy_run import MEGATRON

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(3600)]

STEPS = 2


@pytest.fixture(scope="module")
def built() -> Built:
    """The image, built unless it is in the cache."""
    return build(Variant.CPU, default_cache())


@pytest.fixture(scope="module")
def bare_cluster(built: Built) -> Iterator[Cluster]:
    """A cluster whose node shows nothing of this machine, and has the image."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(node, "environments", dict)
        patch.setattr(node, "shown_to_containers", lambda _: {})
        with running(Path(folder) / "home", Tier.NODE) as found:
            node.ctr(found.layout, "images", "import", str(built.archive))
            yield found


def test_it_trains_in_pods(bare_cluster: Cluster, built: Built, tmp_path: Path) -> None:
    scene = Scene(bare_cluster, "pytorchjob", tmp_path, replace(MEGATRON, image=built.reference))
    scene.seatrial.run("launch", scene.write_spec("imaged", STEPS, STEPS))
    found = scene.succeeds("imaged")
    assert sorted(found) == list(range(1, STEPS + 1))
    told = bare_cluster.kubectl("get", "pods", "-n", scene.namespace, "-o", "json")
    pods = json.loads(told)["items"]
    ran = {each["image"] for pod in pods for each in pod["status"]["containerStatuses"]}
    assert ran == {built.reference}
    saved = scene.volume / "imaged/checkpoints/latest_checkpointed_iteration.txt"
    assert saved.read_text().strip() == str(STEPS)
    print(f"{built.reference}: {len(pods)} pods trained {len(found)} steps, losses {found}")  # noqa: T201
    bare_cluster.delete_namespace(scene.namespace)
