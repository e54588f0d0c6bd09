# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of a training that failed, by what its processes have printed."""

from pathlib import Path

import pytest

from seatrial.rehearsal.worker_process import WORKER_PYTHON, Training, train

ABORTED = """\
[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1234
terminate called after throwing an instance of 'std::bad_alloc'
  what():  std::bad_alloc
Root Cause (first observed failure):
[0]:
  time      : 2026-11-16_15:25:49
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : -6 (pid: 17873)  (SIGABRT)
  error_file: <N/A>
  traceback : Signal 6 (SIGABRT) received by PID 17873
=======================================================
"""
FAILED = """\
[rank1]: ValueError: no such layer
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 17873)
"""
"""As torchrun 2.13 prints them."""


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (
            ABORTED,
            "rank 1 died of SIGABRT: terminate called after throwing an instance of "
            "'std::bad_alloc': what():  std::bad_alloc",
        ),
        (FAILED, "ValueError: no such layer"),
        ("one\ntwo\n", "one\ntwo"),
    ],
)
def test_the_reason_of_a_failure_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: str, said: str
) -> None:
    worker = tmp_path / "worker"  # in place of torchrun
    worker.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}END\nexit 1\n")
    worker.chmod(0o755)
    monkeypatch.setenv(WORKER_PYTHON, str(worker))
    outcome = train(Training("any", {}, 2, tmp_path), 60)
    assert (outcome.code, outcome.tail) == (1, said)
