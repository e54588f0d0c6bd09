# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial watch` on a terminal of its own, and with a standard input that is closed."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ENGINE_LOG = Path(__file__).parents[2] / "data" / "logs" / "megatron-0.19.log"
PATIENCE = 60.0
COMMAND = (sys.executable, "-m", "seatrial")


class Terminal:
    """A terminal of 80 columns and 24 lines, and what is on it."""

    def __init__(self) -> None:
        self.outer, self.inner = pty.openpty()
        fcntl.ioctl(self.inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.said = b""

    def wait_for(self, words: bytes) -> bool:
        """Read until the words are there; whether they came."""
        end = time.monotonic() + PATIENCE
        while words not in self.said and time.monotonic() < end:
            if select.select([self.outer], [], [], 0.1)[0]:
                try:
                    self.said += os.read(self.outer, 65536)
                except OSError:
                    break
        return words in self.said


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    os.close(made.outer)


def test_a_pipe_is_drawn_and_the_terminal_has_the_keys(terminal: Terminal) -> None:
    """The log comes through standard input, `q` through the terminal."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            "import fcntl, runpy, sys, termios; fcntl.ioctl(1, termios.TIOCSCTTY, 0); "
            "sys.argv = ['seatrial', 'watch', '-']; "
            "runpy.run_module('seatrial', run_name='__main__')",
        ],
        stdin=subprocess.PIPE,
        stdout=terminal.inner,
        stderr=terminal.inner,
        env={**os.environ, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(terminal.inner)
    try:
        assert process.stdin is not None
        process.stdin.write(ENGINE_LOG.read_bytes())
        process.stdin.flush()
        assert terminal.wait_for(b"attempt 1"), terminal.said[-2000:]
        assert terminal.wait_for(b"no events for"), terminal.said[-2000:]
        assert process.poll() is None
        os.write(terminal.outer, b"q")
        # Leaving the view restores the terminal, which is read meanwhile.
        assert terminal.wait_for(b"\x1b[?1049l"), terminal.said[-2000:]
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("words", [("watch", "--once"), ("diagnose",)])
@pytest.mark.parametrize(("run", "code"), [(str(ENGINE_LOG), 0), ("-", 2)])
def test_a_closed_standard_input_matters_only_where_it_is_meant(
    words: tuple[str, ...], run: str, code: int
) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, *words, run],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    assert ("standard input, which is closed" in ended.stderr) is (run == "-")
