# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A manager process outlives the signal that its process group is sent, and not its owner."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

RANK = """
import multiprocessing, os, signal, sys, time
from seatrial.worker.megatron.lasting_managers import shield_managers

if __name__ == "__main__":
    if sys.argv[1] == "shielded":
        shield_managers()
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
    # As the engine's checkpoint writer makes it, at its first save.
    queue = multiprocessing.get_context("spawn").Manager().Queue()
    print("ready", flush=True)
    while not asked:
        time.sleep(0.01)
    time.sleep(0.5)
    queue.put("saved")
    print(queue.get(), flush=True)
"""


@pytest.mark.parametrize("how", ["shielded", "bare"])
def test_what_is_saved_after_the_wish_to_end_is_saved(tmp_path: Path, how: str) -> None:
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    # In a group of its own, as torchrun starts a rank.
    rank = subprocess.Popen(
        [sys.executable, str(script), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert rank.stdout is not None
    assert rank.stdout.readline() == "ready\n"
    os.killpg(rank.pid, signal.SIGTERM)
    out, err = rank.communicate(timeout=60)
    if how == "bare":
        # Were it otherwise, nothing would have to be shielded.
        assert "EOFError" in err or "Connection" in err or "BrokenPipe" in err
        return
    assert (out, rank.returncode) == ("saved\n", 0), err
    deadline = time.monotonic() + 30
    while _members(rank.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _members(rank.pid) == []


def _members(group: int) -> list[str]:
    """The processes of a group that live."""
    found = subprocess.run(
        ["ps", "-eo", "pgid=,stat=,args="], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    parts = [line.split(None, 2) for line in found]
    return [part[2] for part in parts if part[0] == str(group) and not part[1].startswith("Z")]
