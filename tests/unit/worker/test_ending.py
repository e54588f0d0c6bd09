# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A process that is spared its teardown ends as any other would, but for the teardown."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from seatrial.worker.ending import spared_teardown

class Kept:
    def __del__(self):
        print("taken down")

with spared_teardown():
    import atexit, os, threading, time
    kept = Kept()
    atexit.register(print, "handler")
    threading.Thread(target=lambda: (time.sleep(0.3), print("thread"))).start()
    {ending}
"""
SOURCES = Path(__file__).parents[3] / "src"


def ended(ending: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(ending=ending)],
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("sys.exit()", 0),
        ("sys.exit(75)", 75),
        ("sys.exit(-1)", 255),
        ("sys.exit('in words')", 1),
        ("raise KeyError('a key')", 1),
        ("raise KeyboardInterrupt", 130),
    ],
)
def test_it_ends_with_the_code_that_was_meant(ending: str, code: int) -> None:
    done = ended(ending)
    assert done.returncode == code, done.stderr
    # Threads and handlers have their time; what is after them does not happen.
    assert done.stdout == "thread\nhandler\n"


def test_what_it_says_at_its_end_is_said() -> None:
    assert ended("sys.exit('in words')").stderr == "in words\n"
    assert "KeyError: 'a key'" in ended("raise KeyError('a key')").stderr


def test_a_copy_of_the_process_ends_by_itself() -> None:
    done = ended(
        "time.sleep(0.5); kid = os.fork(); kid or sys.exit(3); print(os.waitpid(kid, 0)[1] >> 8)"
    )
    assert done.stdout.split()[:3] == ["thread", "handler", "taken"], done.stdout
    assert done.stdout.endswith("3\nhandler\n")
    assert done.returncode == 0
