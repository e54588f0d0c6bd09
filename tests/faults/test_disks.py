# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, read-only or broken under the real engine: what was committed stays good.

50 cases by seed: a third each of a small tmpfs that fills up, a volume that becomes read-only, and
writes and syncs that fail with EIO (broken_disk.c). Run in pieces: SEATRIAL_FAULT_SEEDS=0:10 make
faults ARGS='-k disks'; every case is appended to build/fault-results.jsonl. Needs root for mounts.
"""

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from seatrial.checkpoints.inventory import checkpoints
from seatrial.checkpoints.naming import RECORD
from seatrial.checkpoints.verification import verify
from seatrial.findings import Severity
from seatrial.storage.location import LocalPlace
from tests.faults.checkpoint_starts import STEPS, Engine, figures, record, seeds, whole_run

pytestmark = [
    pytest.mark.faults,
    pytest.mark.engine,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="builds a library that breaks writes"),
]

CASES = 50
KINDS = ("full", "read-only", "error")
AMPLE = 1 << 28


@dataclass(frozen=True, slots=True)
class Disk:
    """What a run saves to, and how it fails."""

    saved: Path
    environment: dict[str, str]
    mend: Callable[[], None] = lambda: None
    """Lets it be as it should."""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    library = tmp_path / "broken_disk.so"
    source = Path(__file__).with_name("broken_disk.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    made = Engine()
    monkeypatch.delenv("LD_PRELOAD")
    yield made
    made.close()


def test_disks_that_fail_leave_what_was_committed(tmp_path: Path, engine: Engine) -> None:
    straight = figures(whole_run(engine, tmp_path / "whole"))
    pristine = tmp_path / "whole" / "saved"
    size = sum(file.stat().st_size for file in next(pristine.glob("iter_*")).iterdir())
    wrong, struck, chosen = [], 0, seeds(CASES)
    for seed in chosen:
        directory = tmp_path / str(seed)
        directory.mkdir()
        kind, draw = KINDS[seed % len(KINDS)], random.Random(seed)  # noqa: S311
        with failing(kind, draw, directory, pristine, size) as disk:
            outcome, _ = engine.start(directory, disk.saved, environment=disk.environment)
            committed, damaged = looked_at(disk.saved)
            disk.mend()
            again, printed = engine.start(directory / "again", disk.saved)
        done = figures(outcome)
        went_on = outcome.code == 0 and max(done, default=0) == STEPS
        honest = went_on or outcome.code not in (0, -signal.SIGALRM)
        struck += not went_on
        mine = figures(again)
        resumed = again.code == 0 and all(mine[step] == straight[step] for step in mine)
        right = honest and bool(committed) and not damaged and resumed
        values = {"seed": seed, "kind": kind, "code": outcome.code, "committed": committed}
        record("disks", **values, damaged=damaged, resumed=resumed, right=right)
        print(f"DISK | {values} | {damaged} | {'right' if right else 'WRONG'} |", flush=True)  # noqa: T201
        if not right:
            wrong.append((values, damaged, printed[-500:]))
    assert wrong == []
    # Some fail too late to be felt; if most did, nothing would have been shown.
    assert struck > len(chosen) / 2


@contextmanager
def failing(
    kind: str, draw: random.Random, directory: Path, pristine: Path, size: int
) -> Iterator[Disk]:
    """A disk that fails somewhere in a run of four saves of that size."""
    mount = directory / "disk"
    mount.mkdir()
    saved = mount / "saved"
    if kind == "error":
        after = int(draw.uniform(1.2, 3.9) * size)
        count = directory / "count"
        count.write_bytes(bytes(8))
        broken = {"UNDER": saved, "AFTER": after, "COUNT": count}
        yield Disk(saved, {f"BROKEN_{name}": str(value) for name, value in broken.items()})
        return
    room = int(draw.uniform(1.3, 3.9) * size) if kind == "full" else AMPLE
    options = ["-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(mount)]
    subprocess.run(["mount", *options], check=True)
    over = threading.Event()
    watching = threading.Thread(target=shut, args=(mount, draw.randrange(4), over))

    def mend() -> None:
        over.set()
        if watching.ident is not None:
            watching.join()
        subprocess.run(["mount", "-o", f"remount,rw,size={AMPLE}", str(mount)], check=True)

    try:
        if kind == "read-only":
            # From the start on with saves that are there, or after so many of the run's own.
            if draw.random() < 0.3:
                shutil.copytree(pristine, saved)
            watching.start()
        yield Disk(saved, {}, mend)
    finally:
        mend()
        subprocess.run(["umount", str(mount)], check=True)


def shut(mount: Path, saves: int, over: threading.Event) -> None:
    """Make a volume read-only once it has so many checkpoints, and at least one."""
    while not over.is_set() and len(list(mount.glob(f"saved/iter_*/{RECORD}"))) < max(1, saves):
        time.sleep(0.002)
    # Refused while a file is open for writing.
    while (
        not over.is_set()
        and subprocess.run(
            ["mount", "-o", "remount,ro", str(mount)], check=False, stderr=subprocess.DEVNULL
        ).returncode
    ):
        time.sleep(0.002)


def looked_at(saved: Path) -> tuple[list[int], list[str]]:
    """The steps that are committed, and what is wrong with them."""
    place = LocalPlace(str(saved))
    there = [one for one in checkpoints(place) if one.record is not None]
    damaged = [
        finding.one_line()
        for one in there
        for finding in verify(place, one.directory)
        if finding.severity is Severity.ERROR
    ]
    return [one.step for one in there], damaged
