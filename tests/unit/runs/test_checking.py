# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is looked at around a run that is checked."""

import json
import socket
from pathlib import Path

import pytest

from seatrial.catalog.catalog import default_catalog
from seatrial.checks.check import check
from seatrial.cluster.api import Patience
from seatrial.cluster.codes import ClusterCode
from seatrial.runs import checking
from tests.unit.checks.examples import BASE


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
    monkeypatch.setattr(checking, "BRIEF", Patience(outage=0.3))
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
