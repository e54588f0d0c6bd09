# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The evidence of a run: its logs, events, pods and dumps."""

import io
import json
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.errors import UsageError
from seatrial.monitoring.diagnosis.diagnosis import diagnose
from seatrial.monitoring.diagnosis.evidence import Evidence
from seatrial.monitoring.event_log import Event, EventKind, encoded
from seatrial.runs.diagnose import cluster_lines, event_lines, evidence_of, pod_lines
from seatrial.runs.find_history import Places, find_history
from seatrial.runs.history import RunHistory


def history(run: str, directory: Path) -> RunHistory:
    """The history that a word means."""
    return find_history(run, Places(Catalog(), io.BytesIO(b""), directory=directory))


def test_a_directory_of_logs_and_dumps(tmp_path: Path) -> None:
    """All files of a directory are evidence, under their names from there on."""
    (tmp_path / "node-0").mkdir()
    (tmp_path / "node-0" / "ranks.log").write_text("[rank1]: OSError: [Errno 24] Too many open\n")
    (tmp_path / "dmesg.txt").write_text("all is well\n")
    entries = {"entries": [{"collective_seq_id": 1, "process_group": ["0", "default"]}]}
    (tmp_path / "nccl_trace_rank_0.json").write_text(json.dumps(entries))
    _, evidence = evidence_of(history(str(tmp_path), tmp_path), directory=tmp_path)
    assert [file.name for file in evidence.files] == ["dmesg.txt", "node-0/ranks.log", "events"]
    assert [name for name, _ in evidence.dumps] == ["nccl_trace_rank_0.json"]
    (cause,) = diagnose(evidence).causes
    assert (cause.key, cause.proofs[0].file) == ("open-files-limit", "node-0/ranks.log")


def test_each_log_of_a_directory_is_of_its_own_attempt(tmp_path: Path) -> None:
    """What ended the first attempt is no cause of the end of the second."""
    for number, said in ((1, "OSError: [Errno 24] Too many open files"), (2, "well")):
        step = Event(EventKind.STEP, number, 100.0 * number, {"seconds": 1.0})
        text = f"{encoded(step).decode()}[rank1]: {said}\n"
        (tmp_path / f"start-{number}.log").write_text(text)
    seen = history(str(tmp_path), tmp_path)
    attempt, evidence = evidence_of(seen, directory=tmp_path)
    assert (attempt.number, diagnose(evidence).causes) == (2, ())
    _, before = evidence_of(seen, 1, directory=tmp_path)
    assert [cause.key for cause in diagnose(before).causes] == ["open-files-limit"]


def test_an_attempt_that_is_not_there(tmp_path: Path) -> None:
    """The message says how many there are."""
    (tmp_path / "x.log").write_text("well\n")
    with pytest.raises(UsageError, match=r"--attempt 7: .* has 1"):
        evidence_of(history(str(tmp_path / "x.log"), tmp_path), 7)


def test_events_tell_of_anomalies_and_of_the_end() -> None:
    """A loss that is no number is found in events, told or not, and told once."""
    values = {"code": "ST-WATCH-001", "severity": "error", "rule": "the loss is no number."}
    events = [
        Event(EventKind.START, 0, 0.0, {"world_size": 2}),
        Event(EventKind.STEP, 1, 1.0, {"seconds": 1.0, "loss": float("nan")}),
        Event(EventKind.FINDING, 1, 1.0, values),
        Event(EventKind.EXIT, 1, 2.0, {"code": 1, "error": "CUDA out of memory."}),
    ]
    lines = list(event_lines(events))
    assert [line.split()[0] for line in lines] == ["ST-WATCH-001", "exit"]


def test_pods_and_their_events_as_lines() -> None:
    """What Kubernetes says of a pod is evidence as it stands."""
    pod = {
        "metadata": {"name": "slim-worker-0"},
        "spec": {"containers": [{"name": "main"}]},
        "status": {
            "reason": "Evicted",
            "message": "The node was low on resource: memory.",
            "containerStatuses": [
                {
                    "name": "main",
                    "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
                }
            ],
        },
    }
    assert list(pod_lines([pod])) == [
        "pod slim-worker-0 reason: Evicted The node was low on resource: memory.",
        "pod slim-worker-0 main terminated reason: OOMKilled exit code: 137",
    ]
    event = {
        "type": "Warning",
        "reason": "FailedMount",
        "involvedObject": {"name": "slim-worker-0"},
        "message": "MountVolume.SetUp failed\n for volume x",
    }
    (line,) = cluster_lines([event])
    assert line == "Warning FailedMount slim-worker-0: MountVolume.SetUp failed for volume x"


def test_nothing_is_evidence_of_nothing() -> None:
    """Without files there is no cause."""
    assert diagnose(Evidence(())).causes == ()
