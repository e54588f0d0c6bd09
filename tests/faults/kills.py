# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Killing preparations: who can be killed, when, and what must hold at the end."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.dataprep.little_corpus import contents, write_corpus

ROOT = Path(__file__).parents[2]
PARENT = Path(__file__).with_name("data_parent.py")
PATIENCE = 120.0
"""Seconds that a preparation may take before it counts as hung."""


def children(pid: int) -> list[int]:
    """Processes that a process has started, theirs included."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    own = [int(word) for word in text.split()]
    return own + [below for child in own for below in children(child)]


@dataclass
class Bench:
    """A corpus, what must come of it, and where it is tried."""

    home: Path
    seed: int
    variables: Mapping[str, str] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    finished: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311
        self.spec = write_corpus(self.home, sources=3, files=4, count=150)
        self.temporary = self.home / "tmp"
        self.temporary.mkdir()
        began = time.monotonic()
        assert self.start("expected", "local").wait() == 0
        self.seconds = time.monotonic() - began
        self.expected = contents(self.home / "expected")
        assert "dataset.json" in self.expected

    def start(self, to: str, driver: str, *more: str) -> "subprocess.Popen[bytes]":
        """Start a preparation."""
        variables = {
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "TMPDIR": str(self.temporary),
            **self.variables,
        }
        with (self.home / "stderr").open("ab") as words:
            return subprocess.Popen(
                [sys.executable, str(PARENT), str(self.spec), str(self.home / to), driver, *more],
                env=os.environ | variables,
                stdout=subprocess.DEVNULL,
                stderr=words,
            )

    def check(self, to: str) -> None:
        """All is there, bit for bit, and nothing else is: no file, no directory, no process."""
        found = contents(self.home / to)
        differing = {
            path: (found.get(path), self.expected.get(path))
            for path in found.keys() | self.expected.keys()
            if found.get(path) != self.expected.get(path)
        }
        assert not differing, differing
        # Python itself tries a temporary directory with such a file, and can be killed there.
        left = [path for path in self.temporary.rglob("*") if path.is_file()]
        assert all(path.read_bytes() == b"blat" for path in left), left
        for path in left:
            path.unlink()
        self.finished += 1
        shutil.rmtree(self.home / to)

    def finish(self, to: str, driver: str = "local") -> None:
        """Start until the data set is there, undisturbed, and check it."""
        process = self.start(to, driver)
        assert process.wait(PATIENCE) == 0, (self.home / "stderr").read_text()[-2000:]
        self.check(to)

    def kill(self, pid: int, what: str) -> bool:
        """Kill a process; False when it has ended already."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.kills[what] += 1
            return True
        return False


@contextmanager
def ended(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """See to it that a preparation and its workers have ended."""
    workers = children(process.pid)
    try:
        yield
    finally:
        if process.poll() is None:
            workers = children(process.pid)
            process.kill()
        process.wait()
        end = time.monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() for pid in workers):
            assert time.monotonic() < end, f"workers outlived their parent: {workers}"
            time.sleep(0.01)


def kill_at_random(bench: Bench, kills: int, driver: str = "local") -> None:
    """Kill parents and workers at random moments until so many kills have hit."""
    until = bench.kills.total() + kills
    while bench.kills.total() < until:
        process = bench.start("out", driver)
        with ended(process):
            while process.poll() is None and bench.kills.total() < until:
                time.sleep(bench.random.uniform(0, bench.seconds))
                if process.poll() is not None:
                    break
                workers = children(process.pid)
                if workers and bench.random.random() < 0.5:
                    bench.kill(bench.random.choice(workers), "worker")
                else:
                    bench.kill(process.pid, "parent")
                    process.wait()
        if process.returncode == 0:
            bench.check("out")
    bench.finish("out", driver)


def kill_at_call(bench: Bench, function: str, inside: str, number: int) -> bool:
    """Kill at the N-th call of a function, then go on; False when there are fewer calls."""
    process = bench.start("out", "local", "--kill", f"{function}:{number}", "--in", inside)
    with ended(process):
        process.wait(PATIENCE)
    counter = bench.home / "out.count"
    reached = counter.exists() and counter.stat().st_size >= number
    counter.unlink(missing_ok=True)
    if reached:
        bench.kills[f"{inside}, {function}"] += 1
    if inside == "parent" and reached:
        assert process.returncode == -signal.SIGKILL
        bench.finish("out")
    else:
        # A worker that dies is replaced, and the preparation ends by itself.
        assert process.returncode == 0, (bench.home / "stderr").read_text()[-2000:]
        bench.check("out")
    return reached
