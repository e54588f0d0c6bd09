# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What goes through a sealed queue is closed to the process that holds it."""

import inspect
import multiprocessing
import pickle
import queue
from pathlib import Path

import pytest

from seatrial.worker.megatron.sealed_results import SealedQueue, sealing


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
        sealed = pickle.loads(pickle.dumps(SealedQueue(held)))  # noqa: S301  (as to a writer)
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

    made = sealing(make)(mp_mode="fork")
    made.put("a result")
    assert made.get_nowait() == "a result"
    assert (tmp_path / "fork").exists()
    assert "mp_mode" in inspect.signature(sealing(make)).parameters
