# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The helper processes of a save outlive SIGTERM, and do not unpickle what goes through them."""

import inspect
import multiprocessing
import os
import pickle
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seatrial.worker.megatron.save_processes import PickledQueue, pickle_results

RANK = """
import multiprocessing, os, signal, sys, time
from seatrial.worker.megatron.save_processes import shield_managers

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


class Loud:
    """Leaves a file where it is opened."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __setstate__(self, state: dict[str, Path]) -> None:
        self.__dict__.update(state)
        process = multiprocessing.current_process()
        (self.place / process.name).touch()


def test_items_are_opened_at_the_ends_alone(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Manager() as manager:
        held = manager.Queue()
        sealed = pickle.loads(pickle.dumps(PickledQueue(held)))  # noqa: S301  (as to a writer)
        sealed.put([Loud(tmp_path), OSError(5, "no disk")])
        assert list(tmp_path.iterdir()) == []
        _, error = sealed.get_nowait()
        with pytest.raises(queue.Empty):
            sealed.get_nowait()
    assert [opened.name for opened in tmp_path.iterdir()] == ["MainProcess"]
    assert error.errno == 5


def test_a_plain_queue_opens_them(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Manager() as manager:
        held = manager.Queue()
        held.put(Loud(tmp_path))
        assert [opened.name for opened in tmp_path.iterdir()] != []


def test_how_the_queue_is_made_stays_the_engines(tmp_path: Path) -> None:
    def make(mp_mode: str = "spawn") -> queue.Queue[bytes]:
        (tmp_path / mp_mode).touch()
        return queue.Queue()

    made = pickle_results(make)(mp_mode="fork")
    made.put("a result")
    assert made.get_nowait() == "a result"
    assert (tmp_path / "fork").exists()
    assert "mp_mode" in inspect.signature(pickle_results(make)).parameters
