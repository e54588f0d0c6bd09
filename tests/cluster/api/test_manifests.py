# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every rendered manifest, before a real API server with the definitions of every release."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.spec.cluster import Operator
from tests.cluster.cluster import Cluster, Tier, running
from tests.cluster.definitions import NEWEST, RELEASE_SETS, ReleaseSet
from tests.cluster.matrix import rendered
from tests.cluster.strict import make_namespaces, verdict

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]
SERVED = frozenset({Operator.PYTORCHJOB, Operator.TRAINJOB})
"""The operators whose definitions are published; HyperPod's job has a test of its own."""


OLDER = [pytest.param(one, marks=pytest.mark.slow) for one in RELEASE_SETS if one is not NEWEST]


@pytest.fixture(scope="module", params=[*OLDER, NEWEST], ids=str)
def releases(request: pytest.FixtureRequest) -> ReleaseSet:
    chosen: ReleaseSet = request.param
    return chosen


@pytest.fixture(scope="module")
def server(releases: ReleaseSet) -> Iterator[Cluster]:
    """An API server that serves a set, without the operators' webhooks: they are of one version."""
    with (
        tempfile.TemporaryDirectory(prefix="seatrial-") as folder,
        running(Path(folder) / "home", Tier.API, releases) as found,
    ):
        yield found


def test_every_manifest_is_taken_without_a_warning(server: Cluster, releases: ReleaseSet) -> None:
    # What does not depend on a version is the same in every set: the newest has all of it.
    made = rendered(releases, SERVED, whole=releases is NEWEST)
    api = server.api()
    make_namespaces(api, made.distinct.values())
    refused, warned = [], []
    for digest, manifest in made.distinct.items():
        found = verdict(api, manifest)
        name = f"{manifest['kind']} of {made.origin[digest]}"
        if found.refusal:
            refused.append(f"{name}: {found.refusal}")
        warned += [f"{name}: {warning}" for warning in found.warnings]
    print(  # noqa: T201
        f"\n{releases}: {made.objects} objects of {made.combinations} renderings, "
        f"{len(made.distinct)} distinct, {len(refused)} refused, {len(warned)} warnings"
    )
    assert made.objects > 500
    assert refused == []
    assert warned == []


def test_the_server_is_the_version_that_was_built(server: Cluster) -> None:
    assert server.api().ask("GET", "/version").body["gitVersion"] == "v1.35.4"
