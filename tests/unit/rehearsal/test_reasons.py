# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of a training that failed, by what its processes have printed."""

from pathlib import Path

import pytest

from seatrial.engine_process.process import Training, train
from tests.conftest import MEGATRON

PEERS = """\
[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1234
[rank2]: torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was reset
"""
LAST_WORDS = """\
terminate called without an active exception
terminate called after throwing an instance of 'std::bad_alloc'
  what():  RuntimeError: no room
"""


def block(rank: int, code: str, traceback: str) -> str:
    """One failure in torchrun's account."""
    return f"""\
  time      : 2026-11-16_15:25:49
  host      : localhost
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code}
  error_file: <N/A>
  traceback : {traceback}
"""


def account(*blocks: str) -> str:
    """As torchrun prints it; what it takes for the first failure stands last."""
    *others, first = blocks
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "seatrial.worker FAILED\nFailures:\n"
        + "".join(f"[1]:\n{other}" for other in others)
        + f"Root Cause (first observed failure):\n[0]:\n{first}=====\n"
    )


def signalled(rank: int, number: int, name: str, *, newer: bool = True) -> str:
    """A rank that died; torch 2.13 names the signal twice, torch 2.7 once."""
    code = f"-{number} (pid: 17)" + (f"  ({name})" if newer else "")
    return block(rank, code, f"Signal {number} ({name}) received by PID 17")


SEE = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
LEFT = block(0, "1 (pid: 16)", SEE)


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (
            PEERS + LAST_WORDS + account(signalled(0, 15, "SIGTERM"), signalled(1, 6, "SIGABRT")),
            "rank 1 was killed by SIGABRT: terminate called after throwing an instance of "
            "'std::bad_alloc' what(): RuntimeError: no room",
        ),
        # What another rank's C++ says at its end does not explain a kill.
        (
            LAST_WORDS + account(signalled(1, 9, "SIGKILL", newer=False)),
            "rank 1 was killed by SIGKILL",
        ),
        # A peer that left within the same second counts as the first failure.
        (PEERS + account(signalled(1, 9, "SIGKILL"), LEFT), "rank 1 was killed by SIGKILL"),
        (account(signalled(1, 15, "SIGTERM")), "rank 1 was killed by SIGTERM"),
        (
            "[rank0]: ValueError: no such layer\n" + account(signalled(1, 15, "SIGTERM"), LEFT),
            "ValueError: no such layer",
        ),
        (
            PEERS + account(LEFT),
            "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer "
            "[127.0.0.1]:1234",
        ),
        # What torchrun itself ended explains nothing.
        (
            PEERS + account(signalled(1, 15, "SIGTERM"), LEFT),
            "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer "
            "[127.0.0.1]:1234",
        ),
        (
            "RuntimeError: [gloo/transport/tcp/buffer.cc:95] Timed out waiting 1000ms\n"
            "Unable to shutdown process 17 via 15, forcefully exiting via 9\n"
            + account(signalled(1, 9, "SIGKILL"), LEFT),
            "RuntimeError: [gloo/transport/tcp/buffer.cc:95] Timed out waiting 1000ms",
        ),
        (
            "[rank0]: torch.distributed.DistNetworkError: The server socket has failed to listen: "
            "EADDRINUSE\n" + account(signalled(1, 15, "SIGTERM"), LEFT),
            "torch.distributed.DistNetworkError: The server socket has failed to listen: "
            "EADDRINUSE",
        ),
        ("one\ntwo\n", "one\ntwo"),
        ("", ""),
    ],
)
def test_the_reason_of_a_failure_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: str, said: str
) -> None:
    worker = tmp_path / "worker"  # in place of torchrun
    worker.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}END\nexit 1\n")
    worker.chmod(0o755)
    monkeypatch.setenv(MEGATRON.installation.variable, str(worker))
    training = Training("any", {}, 2, tmp_path, engine="megatron")
    training.log.write_text("old")
    outcome = train(training, 60)
    assert (outcome.code, outcome.tail) == (1, said)
    # A process may print a secret; of a log that was there before, nothing stays.
    assert training.log.stat().st_mode & 0o777 == 0o600
    assert "old" not in training.log.read_text()
