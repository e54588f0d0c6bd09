# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""100 SIGKILLs while tokens are cut into MDS: what is there afterwards is bit for bit the same.

Every case is a process of its own that cuts a prepared source, and is killed at a call that
writes, or at any moment; then another one goes on. In every third case samples of another cut are
there already and are removed first. Run in pieces: SEATRIAL_FAULT_SEEDS=0:25 make
faults ARGS='-k mds'; every case is appended to build/fault-results.jsonl.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from seatrial.dataprep.output import mds_shard
from seatrial.dataprep.output.dataset import DatasetRecord
from seatrial.dataprep.output.mds_splits import cut
from seatrial.storage.directory import LocalStore
from tests.faults.checkpoint_starts import record, seeds
from tests.faults.data_parent import die_at
from tests.unit.dataprep.little_corpus import contents
from tests.unit.dataprep.output.test_mds import CUT, prepared

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

KILLS = 100
SUITE = "mds kills"
WANTED = replace(CUT, length=64, directory="mds-64")
OTHER = replace(WANTED, shares=(50.0, 50.0, 0.0))
"""Another cut in the same place, whose shards have the same size."""
CALLS = ("replace", "link", "fsync")
"""The calls of `os` by which files come to be."""
REMOVAL = "unlink"
"""The one by which they go."""
SIZES = (45_001, 20_000, 7)
"""Tokens of the source's files, so that samples reach over their ends."""


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few samples a shard, so that there are dozens."""
    monkeypatch.setattr(mds_shard, "SIZE_LIMIT", 16384)


def in_a_process(action: Callable[[], object]) -> int:
    """Begin an action in a process of its own; its number."""
    child = os.fork()
    if not child:
        _end(action)
    return child


def _end(action: Callable[[], object]) -> NoReturn:
    code = 1
    try:
        action()
        code = 0
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """The exit code of a process, once it has ended."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_killed_while_tokens_are_cut(tmp_path: Path) -> None:
    expected = tmp_path / "expected"
    made = prepared(expected, SIZES)

    def conversion(root: Path) -> None:
        cut(LocalStore(root), made, WANTED)

    began = time.monotonic()
    assert ended(in_a_process(lambda: conversion(expected))) == 0
    seconds = time.monotonic() - began
    wanted = contents(expected)
    assert sum(name.endswith(".mds") for name in wanted) > 12
    wrong = []
    for seed in seeds(KILLS):
        how, right = killed_and_resumed(seed, tmp_path / str(seed), made, seconds, wanted)
        record(SUITE, seed=seed, how=how, right=right)
        if not right:
            wrong.append((seed, how))
    assert not wrong


def killed_and_resumed(
    seed: int, root: Path, made: DatasetRecord, seconds: float, wanted: dict[str, str]
) -> tuple[str, bool]:
    """Kill a conversion as the seed says, let another go on, and compare."""
    draw, store = random.Random(seed), LocalStore(root)  # noqa: S311
    prepared(root, SIZES)
    recut = not seed % 3
    function = draw.choice((*CALLS, REMOVAL) if recut else CALLS) if seed % 2 else ""
    for _ in range(100):
        if recut:
            cut(store, made, OTHER)
        if function:
            number, counter = draw.randint(1, 15), root.with_suffix(".count")

            def dying(number: int = number, counter: Path = counter) -> None:
                die_at(function, number, counter)
                cut(store, made, WANTED)

            code = ended(in_a_process(dying))
            counter.unlink(missing_ok=True)
        else:
            child = in_a_process(lambda: cut(store, made, WANTED))
            time.sleep(draw.uniform(0, seconds))
            os.kill(child, signal.SIGKILL)
            code = ended(child)
        if code == -signal.SIGKILL:
            break
        # It had ended before: anew, from nothing.
        store.delete([file.path for file in store.list(WANTED.directory)])
    killed = code == -signal.SIGKILL
    finished = ended(in_a_process(lambda: cut(store, made, WANTED))) == 0
    how = f"{function or 'any moment'}{', another cut there' if recut else ''}"
    return how, killed and finished and contents(root) == wanted
