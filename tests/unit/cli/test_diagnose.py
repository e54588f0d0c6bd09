# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial diagnose`: what a person sees, and what a program gets."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seatrial.cli.diagnose import app
from seatrial.cli.launch import app as launch_app
from seatrial.runs.launch import connect
from seatrial.runs.namespace import Site
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, fake_api
from tests.unit.runs.fake_cluster import jobs, pod_of

FIRST = Path(__file__).parents[2] / "data" / "failures" / "first"


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")


def said(*words: object, given: str = "") -> str:
    """What the command prints."""
    result = CliRunner().invoke(app, [str(w) for w in words], input=given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_cause_with_proof_consequences_and_what_to_do() -> None:
    """The answer first, how certain it is at the end of its line."""
    lines = said(FIRST / "funasr-2006").splitlines()
    assert lines[0].startswith("1  Rank 2 requested 336.00 MiB of GPU memory")
    assert lines[0].endswith("certain")
    assert lines[1].startswith("   worker-0.log:3  [rank2]: torch.cuda.OutOfMemoryError")
    assert any(line.startswith("   Do: ") for line in lines)
    assert any("consequence: ranks timed out in a collective (rank 5)" in one for one in lines)
    assert max(map(len, lines)) <= 100


def test_the_unknown_is_called_so() -> None:
    """No guess, but what was said last and how to learn more."""
    lines = said(FIRST / "megatron-735" / "ranks.log").splitlines()
    assert lines[0] == "unknown  No known cause matches the last messages."
    assert any("TORCH_FR_BUFFER_SIZE" in line for line in lines)


def test_standard_input_and_no_failure() -> None:
    """A log without trouble is said to be one."""
    assert said("-", given="all is well\n") == "unknown  No failure found.\n"


def test_a_line_that_is_quoted_does_not_control_the_terminal() -> None:
    """Neither colours nor titles nor the single characters of C1; a program gets it spelt out."""
    line = "[rank0]: OSError: [Errno 24] Too many open files \x1b]0;x\x07\x1b[2J\x9b2J\x08\x7fend\n"
    shown = said("-", given=line)
    assert "Too many open files end" in shown
    assert not [c for c in shown if c != "\n" and (c < " " or "\x7f" <= c < "\xa0")]
    told = said("-", "--json", given=line)
    assert not {"\x9b", "\x7f"} & set(told)
    assert "\x9b2J\x08\x7fend" in json.loads(told)["causes"][0]["proofs"][0]["text"]


def test_dumps_beside_a_log_are_not_taken_for_its_own(tmp_path: Path) -> None:
    """A file is one run's, the directory it lies in may be many runs'."""
    (tmp_path / "x.log").write_text("well\n")
    for rank in range(3):
        last = {"collective_seq_id": 1 if rank == 0 else 9, "process_group": ["0", "default"]}
        entries = json.dumps({"entries": [last]})
        (tmp_path / f"nccl_trace_rank_{rank}.json").write_text(entries)
    assert "No failure found" in said(tmp_path / "x.log")
    assert "Rank 0 did not reach collective 9" in said(tmp_path)


def test_json_has_all_of_it() -> None:
    """A program gets keys, certainty and places."""
    found = json.loads(said(FIRST / "engine-port-in-use", "--json"))
    assert found["causes"][0]["key"] == "port-in-use"
    assert found["causes"][0]["certainty"] == "certain"
    assert found["causes"][0]["proofs"][0]["line"] > 0


def test_a_run_on_a_cluster_is_explained_by_its_pods(
    monkeypatch: pytest.MonkeyPatch, spec_file: Path, tmp_path: Path
) -> None:
    """The status of pods is evidence, even where nothing was printed yet."""
    server, time = FakeTransport(), FakeTime()

    def reach(namespace: str = "", **_: Any) -> Site:
        api = fake_api(server, time)
        return Site(api, namespace or "default", sleep=time.sleep, clock=time.clock)

    monkeypatch.setattr(connect, "connect", reach)
    launched = CliRunner().invoke(launch_app, [str(spec_file)], catch_exceptions=False)
    assert launched.exit_code == 0
    (job,) = jobs(server)
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    states = [{"name": "main", "state": {"waiting": waiting}}]
    server.put(pod_of(job, 0, phase="Pending", containerStatuses=states))
    monkeypatch.chdir(tmp_path)
    lines = said("slim-7b").splitlines()
    assert lines[0].startswith("1  A container image could not be pulled")
    assert "ImagePullBackOff" in lines[1]
