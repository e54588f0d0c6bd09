# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""No process is left behind by a training that is stopped, or of which a part is killed."""

import os
import signal
import time
from pathlib import Path

import pytest

from seatrial.engine_process.process import Training, train
from seatrial.engines.megatron.command_line import Arguments
from tests.engine.toy import DENSE

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def ranks(directory: Path) -> list[int]:
    """The processes whose event log is below a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(directory).encode() in environment:
                found.append(int(entry.name))
    return found


def wait_until_none(directory: Path) -> list[int]:
    """What is left after a while that is long enough to end."""
    until = time.monotonic() + 30
    while ranks(directory) and time.monotonic() < until:
        time.sleep(0.5)
    return ranks(directory)


def training(directory: Path) -> Training:
    return Training("long", {**DENSE, "train-iters": 100_000}, 2, directory, engine="megatron")


@pytest.mark.slow
def test_a_training_that_takes_too_long_leaves_no_rank(tmp_path: Path) -> None:
    seen = []
    outcome = train(training(tmp_path), 60, lambda step: seen.append(len(ranks(tmp_path))))
    assert outcome.timed_out
    assert max(seen) >= 3, "torchrun and two ranks"
    assert wait_until_none(tmp_path) == []


def test_ranks_end_with_a_torchrun_that_is_killed(tmp_path: Path) -> None:
    def kill_torchrun(step: int) -> None:
        # Once: a process that was killed may take a while to end, and has no environment by then.
        if step >= 1 and not killed:
            leader = next(p for p in ranks(tmp_path) if os.getpgid(p) == p and _parent(p) == me)
            os.kill(leader, signal.SIGKILL)
            killed.append(leader)

    me = os.getpid()
    killed: list[int] = []
    outcome = train(training(tmp_path), 120, kill_torchrun)
    assert outcome.code == -signal.SIGKILL
    assert not outcome.timed_out
    assert wait_until_none(tmp_path) == []


def test_what_a_killed_rank_had_started_ends_too(tmp_path: Path) -> None:
    """A rank that has saved has a process for the results of its writers, which outlives it."""
    saving: Arguments = {"save": str(tmp_path / "saved"), "save-interval": 2}
    arguments: Arguments = {**DENSE, **saving, "train-iters": 20}
    outcome = train(Training("killed", arguments, 2, tmp_path, kill=(1, 3), engine="megatron"), 120)
    assert outcome.code != 0
    assert outcome.tail == "rank 1 was killed by SIGKILL"
    assert 2 in outcome.steps()
    assert wait_until_none(tmp_path) == []


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
