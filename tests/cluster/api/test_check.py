# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial check --cluster` before a real API server: a healthy cluster, and many broken ones."""

import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from docs.tools.page_blocks import blocks_of
from docs.tools.page_parts import ROOT
from seatrial.checks.check import Verdict
from seatrial.codes.cluster_checks import SiteCode
from seatrial.findings import Severity
from seatrial.sdk.check import check
from tests.cluster.check_site import (
    BROKEN,
    KUEUE,
    Broken,
    make_cluster,
    make_namespace,
    overrides_in,
)
from tests.cluster.cluster import Cluster, Tier, running
from tests.cluster.strict import verdict
from tests.unit.checks.examples import BASE

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
TENANCY = ROOT / "docs/platforms/tenancy.md"
LEAST = 10
"""How many broken clusters there have to be."""
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """An API server without controllers, so that what tests write of nodes and claims stays."""
    with (
        tempfile.TemporaryDirectory(prefix="seatrial-") as folder,
        running(Path(folder) / "home", Tier.API) as found,
    ):
        make_cluster(found.api())
        yield found


@pytest.fixture
def namespace(server: Cluster) -> str:
    name = f"check-{next(_NUMBERS)}"
    make_namespace(server.api(), name)
    return name


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "run.yaml"
    file.write_text(BASE)
    return file


def checked(spec: Path, overrides: tuple[str, ...], access: Path) -> Verdict:
    return check(spec, overrides, cluster=True, kubeconfig=str(access))


def objects(server: Cluster, namespace: str) -> str:
    kinds = "configmaps,services,networkpolicies,persistentvolumeclaims,pytorchjobs,deployments"
    return server.kubectl("get", kinds, "-n", namespace, "-o", "name")


def test_a_healthy_cluster_is_clean_and_left_as_it_was(
    server: Cluster, namespace: str, spec: Path
) -> None:
    before = objects(server, namespace)
    verdict = checked(spec, overrides_in(namespace), server.kubeconfig)
    assert verdict.findings == ()
    assert set(map(str, SiteCode)) <= verdict.applied
    assert objects(server, namespace) == before


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_a_broken_cluster_is_caught(
    server: Cluster, namespace: str, spec: Path, broken: Broken
) -> None:
    api = server.api()
    if broken.spoil is not None:
        broken.spoil(api, namespace)
    overrides = (*overrides_in(namespace), *broken.overrides)
    with broken.everywhere(api) if broken.everywhere else nullcontext():
        verdict = checked(spec, overrides, server.kubeconfig)
    found = [finding for finding in verdict.findings if finding.code == broken.code]
    assert found, verdict.findings
    assert found[0].severity is Severity.ERROR


def test_there_are_enough_broken_clusters() -> None:
    assert len({broken.code for broken in BROKEN}) >= LEAST


def test_a_launcher_is_told_what_it_could_not_look_at(
    server: Cluster, namespace: str, spec: Path
) -> None:
    access = server.restricted_kubeconfig(namespace)
    verdict = checked(spec, overrides_in(namespace), access)
    (note,) = verdict.findings
    assert (note.code, note.severity) == (SiteCode.UNSEEN, Severity.NOTE)
    assert "nodes" in note.rule
    assert "secrets" in note.rule


def test_the_queues_on_the_tenancy_page_are_accepted(server: Cluster, namespace: str) -> None:
    texts = [block.text for block in blocks_of(TENANCY) if KUEUE in block.text]
    made = [YAML(typ="safe").load(text) for text in texts]
    assert [each["kind"] for each in made] == ["ResourceFlavor", "ClusterQueue", "LocalQueue"]
    for each in made:
        each["metadata"]["name"] += "-of-the-page"
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = namespace
        found = verdict(server.api(), each)
        assert (found.refusal, found.warnings) == ("", ()), each


def test_rights_that_are_missing_are_told(server: Cluster, namespace: str, spec: Path) -> None:
    access = server.restricted_kubeconfig(namespace, "trainjob")
    overrides = (*overrides_in(namespace), "cluster.operator=pytorchjob")
    verdict = checked(spec, overrides, access)
    said = [finding for finding in verdict.findings if finding.code == SiteCode.RIGHTS]
    launching, following = said
    assert launching.severity is Severity.ERROR
    assert "create pytorchjobs.kubeflow.org" in launching.rule
    assert following.severity is Severity.WARNING
    assert "watch pytorchjobs.kubeflow.org" in following.rule


def test_a_policy_of_the_cluster_is_asked(server: Cluster, namespace: str, spec: Path) -> None:
    api = server.api()
    limit = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "storage", "namespace": namespace},
        "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]},
    }
    answer = api.apply(limit)
    assert answer.accepted, answer.message
    overrides = (*overrides_in(namespace), "cluster.storage={tier: amlfs-125, capacity: 16Ti}")
    verdict = checked(spec, overrides, server.kubeconfig)
    found = [f for f in verdict.findings if f.code == SiteCode.OBJECT_REFUSED]
    assert found, verdict.findings
    assert found[0].where.field.startswith("PersistentVolumeClaim ")
