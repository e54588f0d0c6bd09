# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Ending what a training leaves behind."""

import os
import signal
import subprocess
import sys

import pytest

from seatrial.monitoring.processes import MARK, end_marked, marked, new_mark


@pytest.mark.skipif(sys.platform != "linux", reason="found through /proc")
def test_only_processes_with_the_mark_are_ended() -> None:
    mine, other = new_mark(), new_mark()
    sleeping = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    processes = [
        subprocess.Popen(sleeping, env=os.environ | {MARK: mark}, stdout=subprocess.PIPE)
        for mark in (mine, other)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        assert marked(mine) == [processes[0].pid]
        end_marked(mine)
        assert processes[0].wait(timeout=10) == -signal.SIGKILL
        assert processes[1].poll() is None
    finally:
        for process in processes:
            process.kill()
            process.communicate()
