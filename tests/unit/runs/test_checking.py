# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is looked at around a run that is checked."""

import json
import socket
from pathlib import Path

import pytest

from seatrial.catalog.catalog import default_catalog
from seatrial.checks.check import check
from seatrial.checks.repairs.yaml_edits import applied
from seatrial.cluster.api import CallPatience
from seatrial.codes.cluster import ClusterCode
from seatrial.codes.resume import ResumeCode
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError
from seatrial.runs.launch.kubernetes import ClusterBackend
from seatrial.runs.launch.launcher import Wanted, launch
from seatrial.runs.namespace import Site
from seatrial.sdk import check as checking
from tests.unit.checks.examples import BASE
from tests.unit.cluster.fake_api import FakeTransport, fake_api


def kubeconfig(directory: Path, port: int) -> str:
    """A kubeconfig that leads to a port of this host."""
    server = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    kept = {"clusters": [server], "contexts": [context], "current-context": "c"}
    file = directory / "kubeconfig.json"
    file.write_text(json.dumps(kept | {"users": [{"name": "u", "user": {}}]}))
    return str(file)


@pytest.mark.parametrize("listens", [False, True])
def test_a_server_that_says_nothing_is_waited_for_briefly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listens: bool
) -> None:
    assert checking.BRIEF.outage + checking.FIRST_ANSWER <= 15
    monkeypatch.setattr(checking, "BRIEF", CallPatience(outage=0.3))
    monkeypatch.setattr(checking, "FIRST_ANSWER", 0.4)
    situation = check(BASE, "run.yaml", default_catalog()).situation
    assert situation is not None
    with socket.create_server(("127.0.0.1", 0)) as held:
        access = kubeconfig(tmp_path, held.getsockname()[1])
        if not listens:
            held.close()
        looked = checking.Looked(cluster=True, kubeconfig=access)
        around = checking.look_around(situation, looked)
    assert around.cluster is None
    assert around.trouble is not None
    assert around.trouble.code is ClusterCode.UNREACHABLE


@pytest.mark.parametrize("kind", ["NetworkPolicy", "PyTorchJob"])
def test_a_check_reports_the_names_that_a_launch_would_refuse(kind: str) -> None:
    catalog, server = default_catalog(), FakeTransport()
    situation = check(BASE, "run.yaml", catalog).situation
    assert situation is not None
    name, namespace = situation.spec.name, situation.spec.cluster.namespace
    notes = {"meta.helm.sh/release-name": "baseline"}
    head = {"name": name, "namespace": namespace, "annotations": notes}
    groups = {"NetworkPolicy": "networking.k8s.io/v1", "PyTorchJob": "kubeflow.org/v1"}
    server.put({"apiVersion": groups[kind], "kind": kind, "metadata": head})
    before = dict(server.objects)
    site = Site(fake_api(server), namespace)
    facts = checking.facts_of(situation, site)
    with pytest.raises(FindingsError) as refused:
        launch(ClusterBackend(site), Wanted(situation.plan, catalog), lambda _: True)
    verdict = check(BASE, "run.yaml", catalog, cluster=facts)
    found = [each for each in verdict.findings if each.code == RunCode.NOT_OURS]
    assert found == list(refused.value.findings)
    assert "Helm release baseline" in found[0].rule
    assert server.objects == before


HERE = ("cluster.profile=local", "cluster.node_type=local", "cluster.processes_per_node=8")


@pytest.mark.parametrize(
    ("named", "field"),
    [
        ("continue_from={run: first, checkpoints: nowhere}", "continue_from.checkpoints"),
        ("initial_weights={checkpoint: nowhere}", "initial_weights.checkpoint"),
    ],
)
def test_a_parent_that_is_not_on_this_host_is_told(tmp_path: Path, named: str, field: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(BASE)
    for where, told in ((HERE, True), ((), False)):
        overrides = (*where, named, "checkpoints.location=own")
        verdict = checking.check(file, overrides)
        codes = {(found.code, found.where.field) for found in verdict.findings}
        assert ((ResumeCode.NOTHING_SAVED, field) in codes) is told


def test_a_file_keeps_the_ends_of_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    text = BASE.replace("size: 128", "size: 130   # odd").replace("\n", "\r\n")
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    read = checking.text_of(file)
    assert read == text
    verdict = check(read, "run.yaml", default_catalog())
    assert [finding.code for finding in verdict.findings] == ["ST-BATCH-002"]
    fixed = applied(read, ["training.global_batch_size=128"])
    assert fixed == text.replace("130   #", "128   #")
    assert check(fixed, "run.yaml", default_catalog()).clean
