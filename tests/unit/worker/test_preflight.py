# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A node is looked at before training: each fault is a finding, and is left to be read."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.codes.preflight import PreflightCode
from seatrial.findings import Finding
from seatrial.monitoring.event_log import EventKind, read_events
from seatrial.monitoring.node_measurements import NodeMeasurement
from seatrial.planning.node_floors import NodeFloors
from seatrial.worker.node import preflight
from seatrial.worker.node.measure import finding
from seatrial.worker.node.preflight import (
    Company,
    Expected,
    NodeResult,
    look,
    main,
    meet,
    read_findings,
)

HOST = NodeMeasurement("ip-1", write_gb_s=1.5)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Expected:
    """A node that has what is expected of it."""
    for number in range(4):
        (tmp_path / f"nvidia{number}").touch()
        (tmp_path / f"uverbs{number}").touch()
    (tmp_path / "nvidiactl").touch()
    monkeypatch.setattr(preflight, "GPU_GLOB", f"{tmp_path}/nvidia[0-9]*")
    monkeypatch.setattr(preflight, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(tmp_path))
    monkeypatch.setenv("NODE_NAME", "ip-1")
    monkeypatch.setattr(preflight, "measure_host", lambda directory, size: HOST)
    # As in an image without torch, whether this environment has it or not.
    monkeypatch.setattr(preflight, "find_spec", lambda name: None)
    return Expected(
        gpus=4,
        devices=f"{tmp_path}/uverbs*",
        device_count=4,
        shared_memory_gib=0,
        mount=str(tmp_path),
        directory=f"{tmp_path}/run",
        free_bytes=1,
    )


def test_a_good_node_is_passed_and_left_as_it_was(node: Expected) -> None:
    assert look(node) == []
    assert list(Path(node.directory).iterdir()) == []


def test_a_topology_file_that_is_not_there_fails_the_node(
    node: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "topology.xml"
    monkeypatch.setenv("NCCL_TOPO_FILE", str(there))
    (found,) = look(node)
    assert found.code == PreflightCode.TOPOLOGY
    assert str(there) in found.rule
    there.write_text("<system/>")
    assert look(node) == []


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"gpus": 8}, PreflightCode.GPUS, "4 of 8 GPUs"),
        ({"device_count": 5}, PreflightCode.DEVICES, "4 of 5 devices"),
        ({"shared_memory_gib": 1 << 40}, PreflightCode.SHARED_MEMORY, "the plan needs"),
        ({"mount": "/elsewhere"}, PreflightCode.MOUNT, "no volume is mounted at /elsewhere"),
        ({"directory": "/proc/nowhere"}, PreflightCode.MOUNT, "cannot write to"),
        ({"free_bytes": 1 << 62}, PreflightCode.ROOM, "a checkpoint needs"),
    ],
)
def test_a_fault_is_a_finding_that_names_the_node(
    node: Expected, change: dict[str, object], code: PreflightCode, said: str
) -> None:
    (found,) = look(replace(node, **change))  # type: ignore[arg-type]
    assert found.code == code
    assert found.where.field == "ip-1"
    assert said in found.rule
    assert found.fix


def words(node: Expected) -> list[str]:
    """The command line of a look, as pods have it."""
    return [
        f"--gpus={node.gpus}",
        f"--devices={node.devices}",
        f"--device-count={node.device_count}",
        f"--mount={node.mount}",
        f"--directory={node.directory}",
    ]


def test_the_findings_are_left_where_kubernetes_reads_them(
    node: Expected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    termination_log = tmp_path / "termination-log"
    termination_log.touch()
    assert main(words(replace(node, gpus=8)), termination_log) == 1
    (left,) = json.loads(termination_log.read_text())
    assert left["code"] == "ST-PREFLIGHT-001"
    assert left["where"]["field"] == "ip-1"
    assert "ST-PREFLIGHT-001 ip-1: 4 of 8 GPUs" in capsys.readouterr().err
    assert main(words(node), termination_log) == 0
    assert json.loads(termination_log.read_text()) == [
        {"measured": {"node": "ip-1", "write_gb_s": 1.5}}
    ]


def test_more_than_kubernetes_keeps_is_cut_between_findings(
    node: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [finding(PreflightCode.SUM, "x" * 1000, "fix", number) for number in range(9)]
    monkeypatch.setattr(preflight, "look", lambda expected: many)
    termination_log = tmp_path / "termination-log"
    termination_log.touch()
    assert main(words(node), termination_log) == 1
    text = termination_log.read_text()
    assert len(text) <= 4096
    assert 1 <= len(json.loads(text)) < 9


def test_a_node_meets_the_others_only_when_it_is_well(
    node: Expected, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    met: list[Company] = []

    def meeting(company: Company, *_: object) -> NodeResult:
        met.append(company)
        return NodeResult([], HOST)

    monkeypatch.setattr(preflight, "meet", meeting)
    address = ["--nodes=2", "--processes=4", "--node-rank=0", "--first-rank=1"]
    address += ["--master-addr=slim-7b--meeting", "--master-port=29400"]
    assert main([*words(replace(node, gpus=8)), *address], tmp_path / "none") == 1
    assert met == []
    assert main([*words(node), *address], tmp_path / "none") == 0
    assert met == [Company(2, 4, 1, "slim-7b--meeting", 29400)]


def test_a_pod_that_comes_later_in_an_attempt_looks_alone(
    node: Expected, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[list[Finding]] = [[finding(PreflightCode.TOGETHER, "alone.", "Wait.")], []]
    monkeypatch.setattr(preflight, "meet", lambda *_: NodeResult(calls.pop(0), HOST))
    file = tmp_path / "logs" / "attempt-1" / "met"
    address = ["--nodes=2", "--processes=4", "--master-addr=a", f"--met={file}"]
    assert main([*words(node), *address], tmp_path / "none") == 1
    assert not file.exists()
    assert main([*words(node), *address], tmp_path / "none") == 0
    assert file.exists()
    # Nobody is asked a third time, and a node with a fault is still found out.
    assert main([*words(node), *address], tmp_path / "none") == 0
    assert main([*words(replace(node, gpus=8)), *address], tmp_path / "none") == 1
    assert calls == []


def test_findings_are_read_from_among_other_lines() -> None:
    one = finding(PreflightCode.CLOCK, "the clock is off.", "Mend it.", 9.5)
    line = json.dumps(one.to_dict())
    text = f"NCCL INFO something\n[default0]:{line}\n{line}\n{{}}\n"
    assert read_findings(text) == [one]


def test_nodes_that_do_not_meet_are_a_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A program that fails stands in for torchrun, which this environment does not have.
    failing = tmp_path / "python"
    failing.write_text("#!/bin/sh\nexit 3\n")
    failing.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(failing))
    company = Company(2, 8, 0, "slim-7b--meeting", 29400)
    (found,) = meet(company, "/data", NodeFloors(), HOST).findings
    assert found.code == PreflightCode.TOGETHER
    assert "slim-7b--meeting:29400" in found.rule


def test_a_node_below_its_floor_fails_and_its_history_keeps_why(
    node: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEATRIAL_ATTEMPT", "3")
    floors = "--floors=write_gb_s=2,matmul_tflops=400"
    assert main([*words(node), floors], tmp_path / "none") == 1
    assert main([*words(node), "--floors=write_gb_s=1"], tmp_path / "none") == 0
    history = Path(node.directory) / "preflight" / "ip-1.jsonl"
    first, second = map(json.loads, history.read_text().splitlines())
    assert first["codes"] == ["ST-PREFLIGHT-014"]
    assert first["attempt"] == "3"
    assert second["codes"] == []
    assert second["measured"] == {"node": "ip-1", "write_gb_s": 1.5}


def test_the_only_node_of_a_run_writes_the_event(
    node: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = tmp_path / "events.jsonl"
    monkeypatch.setenv("SEATRIAL_EVENTS", str(events))
    # Without a rendezvous, other nodes may write at the same time.
    assert main(words(node), tmp_path / "none") == 0
    assert not events.exists()
    alone = ["--nodes=1", "--processes=1", "--master-addr=a"]
    assert main([*words(node), *alone], tmp_path / "none") == 0
    (event,) = read_events(events)
    assert event.kind is EventKind.PREFLIGHT
    assert event.values["nodes"] == [{"node": "ip-1", "write_gb_s": 1.5}]


@pytest.mark.parametrize("text", ["speed=1", "write_gb_s=fast", "write_gb_s=-1", "write_gb_s=inf"])
def test_floors_that_cannot_be_are_rejected(node: Expected, text: str) -> None:
    with pytest.raises(SystemExit):
        main([*words(node), f"--floors={text}"])
