# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The evidence of a run: its logs, events, pods and dumps."""

import io
import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.errors import UsageError
from seatrial.monitoring.diagnosis.diagnosis import diagnose
from seatrial.monitoring.diagnosis.evidence import Evidence
from seatrial.monitoring.event_log import Event, EventKind, EventLog, encoded
from seatrial.runs.history.diagnose import cluster_lines, event_lines, evidence_of, pod_lines
from seatrial.runs.history.history import RunHistory
from seatrial.runs.history.locate import Places, find_history


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
    with pytest.raises(UsageError, match=r"--attempt 7: .*: 1"):
        evidence_of(history(str(tmp_path / "x.log"), tmp_path), 7)


def test_events_tell_of_anomalies_and_of_the_end() -> None:
    """A loss that is no number is found in events, told or not, and told once."""
    values = {"code": "ST-WATCH-001", "severity": "error", "rule": "The loss at step 812 is nan."}
    events = [
        Event(EventKind.START, 0, 0.0, {"world_size": 2}),
        Event(EventKind.STEP, 1, 1.0, {"seconds": 1.0, "loss": float("nan")}),
        Event(EventKind.FINDING, 1, 1.0, values),
        Event(EventKind.EXIT, 1, 2.0, {"code": 1, "error": "CUDA out of memory."}),
    ]
    lines = list(event_lines(events))
    assert [line.split()[0] for line in lines] == ["ST-WATCH-001", "exit", "CUDA"]


def written(directory: Path, **end: str | int) -> Path:
    """An event log that ends in a way."""
    with closing(EventLog(directory / "events.jsonl")) as log:
        log.write(EventKind.START, 0, world_size=2)
        log.write(EventKind.STEP, 1, seconds=1.0, loss=2.0)
        log.write(EventKind.EXIT, 1, **end)
    return directory / "events.jsonl"


def test_an_error_in_an_event_log_is_said_where_nothing_explains_it(tmp_path: Path) -> None:
    """The words of the exception stand alone, as in a traceback."""
    log = written(tmp_path, code=1, error="NobodyKnowsThisError: the widget is bent")
    _, evidence = evidence_of(history(str(log), tmp_path))
    words = [proof.text for proof in diagnose(evidence).last_words]
    assert "NobodyKnowsThisError: the widget is bent" in words


def test_an_exit_code_alone_is_evidence(tmp_path: Path) -> None:
    """137 is a kill, whoever has noted it; what tells nothing is still no success."""
    _, evidence = evidence_of(history(str(written(tmp_path, code=137)), tmp_path))
    assert diagnose(evidence).first == "rank-killed"
    (tmp_path / "two").mkdir()
    _, evidence = evidence_of(history(str(written(tmp_path / "two", code=3)), tmp_path))
    (proof,) = diagnose(evidence).last_words
    assert proof.text == "exit at step 1, exit code: 3"
    (tmp_path / "well").mkdir()
    _, evidence = evidence_of(history(str(written(tmp_path / "well", code=0)), tmp_path))
    assert diagnose(evidence).last_words == ()


def dump(path: Path) -> None:
    """A dump with one collective."""
    entries = {"entries": [{"collective_seq_id": 1, "process_group": ["0", "default"]}]}
    path.write_text(json.dumps(entries))


def test_dumps_of_other_runs_are_none_of_a_file(tmp_path: Path) -> None:
    """Beside a log, and below, others may have written theirs."""
    (tmp_path / "other").mkdir()
    dump(tmp_path / "nccl_trace_rank_0")
    dump(tmp_path / "other" / "nccl_trace_rank_1")
    (tmp_path / "x.log").write_text("well\n")
    _, evidence = evidence_of(history(str(tmp_path / "x.log"), tmp_path), names_from=tmp_path)
    assert evidence.dumps == ()
    assert [file.name for file in evidence.files] == ["x.log", "events"]


def test_dumps_of_a_run_are_those_of_the_attempt(tmp_path: Path) -> None:
    """Those that were written in its time; all of a directory where nobody knows the time."""
    log = written(tmp_path, code=1)
    dump(tmp_path / "nccl_trace_rank_0")
    now = time.time()

    def names(
        directory: Path | None, submitted: float | None = None, until: float | None = None
    ) -> list[str]:
        found = history(str(log), tmp_path)
        (attempt,) = found.attempts
        one = replace(attempt, number=2, submitted=submitted, until=until)
        _, evidence = evidence_of(replace(found, look=lambda: (one,)), directory=directory)
        return [name for name, _ in evidence.dumps]

    assert names(None, submitted=1.0) == ["nccl_trace_rank_0"]
    assert names(None, submitted=1.0, until=now - 60) == []
    assert names(None, submitted=now + 60) == []
    assert names(None) == []
    assert names(tmp_path) == ["nccl_trace_rank_0"]


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
