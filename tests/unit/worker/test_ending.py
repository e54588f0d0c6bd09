# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A process that is spared its teardown ends with the code that any other would end with."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.engines.registry import ENGINES

PROGRAM = """
import sys
from seatrial.worker.process import spared_teardown

class Kept:
    def __del__(self):
        print("taken down")

with spared_teardown():
    import atexit, os, threading, time
    kept = Kept()
    atexit.register(print, "handler")
    thread = threading.Thread(target=lambda: (time.sleep(0.3), print("thread")))
    thread.start()
    {ending}
"""
SOURCES = Path(__file__).parents[3] / "src"


def ended(ending: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    environment.pop("PYTHONUNBUFFERED", None)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(ending=ending)],
        env=environment,
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


def test_the_error_that_ends_it_is_printed_without_secrets() -> None:
    said = ended("raise OSError('GET https://user:word@host/x?sig=0123456789abcdef')").stderr
    assert "OSError: GET https://(not shown)@host/x?sig=(not shown)" in said
    assert "Traceback" in said
    assert "word@" not in said


def test_an_interruption_ends_it_by_its_signal() -> None:
    done = ended("raise KeyboardInterrupt")
    assert done.returncode == -signal.SIGINT
    assert "taken down" in done.stdout


@pytest.mark.parametrize("stream", ["None", "open('/dev/full', 'w')"])
def test_an_output_that_cannot_be_written_does_not_change_the_code(stream: str) -> None:
    thrown = "sys.stdout and sys.stdout.write('lost')"
    done = ended(f"thread.join(); sys.stdout = {stream}; {thrown}; sys.exit(7)")
    assert done.returncode == 7, done.stderr


def test_a_copy_of_the_process_ends_by_itself() -> None:
    forked = "kid = os.fork(); kid or sys.exit(3); print(os.waitpid(kid, 0)[1] >> 8)"
    done = ended(f"thread.join(); {forked}")
    assert done.stdout.split()[:3] == ["thread", "handler", "taken"], done.stdout
    assert done.stdout.endswith("3\nhandler\n")
    assert done.returncode == 0


ENTRY = """
import atexit, contextlib, os, runpy
from seatrial.worker import process

@contextlib.contextmanager
def entered():
    print("handlers before:", atexit._ncallbacks(), flush=True)
    os._exit(0)
    yield

process.spared_teardown = entered
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    "module",
    [m for engine in ENGINES.values() for m in (engine.modules.process, engine.modules.pod)],
)
def test_every_rank_enters_before_any_handler_is_registered(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENTRY.format(module=module)],
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "handlers before: 0\n", done.stderr
