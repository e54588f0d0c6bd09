# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What torchrun is told, and what its lines tell."""

import pytest

from seatrial.worker.supervisor.agent import Closing, Failure, Rendezvous, Sign, sign_of
from seatrial.worker.supervisor.probe import ProbeKind, trouble
from seatrial.worker.supervisor.status import SupervisorStatus

LINES: dict[bytes, Sign | None] = {
    b"E1115 17:09:53.684000 24598 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
    b"(exitcode: -9) local_rank: 3 (pid: 26694) of binary: /usr/bin/python3": Failure(-9, 3, 26694),
    b"failed (exitcode: 75) local_rank: 0 (pid: 12) of binary: python3\n": Failure(75, 0, 12),
    b"W1115 17:11:10.873000 24598 torch/distributed/elastic/multiprocessing/api.py:1028] Sending "
    b"process 30192 closing signal SIGTERM": Closing(30192),
    b"[default0]: loss 3.4": None,
    b"": None,
}
"""Lines as torch 2.13 printed them here."""


@pytest.mark.parametrize("line", LINES)
def test_lines_of_torchrun_are_understood(line: bytes) -> None:
    assert sign_of(line) == LINES[line]


def test_nodes_are_numbered_as_their_pods_are() -> None:
    names = []
    for number in range(12):
        words = Rendezvous(12, 8, number, "run-master-0", 23456, "run-attempt-1").words(10)
        names.append(next(w for w in words if w.startswith("--local-addr=")))
        host = "is_host=true" if number == 0 else "is_host=false"
        assert any(host in word for word in words)
        assert "--rdzv-endpoint=run-master-0:23456" in words
        assert "--rdzv-id=run-attempt-1" in words
    # torch sorts addresses as text, in which 10 would come before 2.
    assert names == sorted(names)


def test_without_restarts_torchrun_has_none_either() -> None:
    meeting = Rendezvous(1, 8, 0, "127.0.0.1", 1, "run")
    assert "--max-restarts=0" in meeting.words(0)
    assert "--max-restarts=0" not in meeting.words(1)


@pytest.mark.parametrize(
    ("status", "startup", "liveness"),
    [
        (None, False, False),
        (SupervisorStatus(1000.0, "starting", 0, 0.0, 1800.0, 0), True, True),
        (SupervisorStatus(1000.0, "steps", 7, 30.0, 10.0, 0), True, True),
        # Silent for long, and the supervisor has done nothing about it.
        (SupervisorStatus(1000.0, "steps", 7, 41.0, 10.0, 0), True, False),
        (SupervisorStatus(900.0, "steps", 7, 0.0, 10.0, 0), False, False),
    ],
)
def test_a_probe_fails_where_the_supervisor_does_not_do_its_work(
    status: SupervisorStatus | None, startup: bool, liveness: bool
) -> None:
    assert (not trouble(ProbeKind.STARTUP, status, 1001.0)) is startup
    assert (not trouble(ProbeKind.LIVENESS, status, 1001.0)) is liveness
