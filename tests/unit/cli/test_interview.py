# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial init -i` on a terminal: wrong answers are refused at once and asked for again."""

import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from seatrial.spec.loader import load

PROMPT = re.compile(r"(\]|data\)): $")


class Terminal:
    """A command on a terminal of 80 columns."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self.master, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "seatrial", *arguments],
            cwd=cwd,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=os.environ | {"COLUMNS": "80"},
            start_new_session=True,
            # Where tests run in the background, Ctrl-C is ignored, and children inherit it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(terminal)
        self.shown = ""

    def read(self) -> str:
        """What is printed until the next question, or the end."""
        new = ""
        while not PROMPT.search(new):
            try:
                chunk = os.read(self.master, 4096)
            except OSError:
                break
            if not chunk:
                break
            new += chunk.decode()
        self.shown += new
        return new

    def answer(self, text: str) -> str:
        """Type a line, and what follows it."""
        os.write(self.master, f"{text}\n".encode())
        return self.read()

    def end(self) -> int:
        """Read the rest; the exit code."""
        while self.read():
            pass
        os.close(self.master)
        return self.process.wait(timeout=30)


def test_wrong_answers_are_refused_and_asked_for_again(tmp_path: Path) -> None:
    terminal = Terminal("init", "-i", cwd=tmp_path)
    assert "Model (? lists them) [stories-260k]" in terminal.read()
    assert "llama3-8b" in terminal.answer("?")
    assert "There is no model 'nonsense'" in terminal.answer("nonsense")
    terminal.answer("llama3-8b")
    assert "[p5.48xlarge]" in terminal.answer("eks")
    listed = terminal.answer("?")
    assert "p4d.24xlarge" in listed
    assert "Standard_ND96isr_H100_v5" not in listed
    assert max(map(len, listed.splitlines())) <= 80
    assert "has no Standard_ND96isr_H100_v5" in terminal.answer("Standard_ND96isr_H100_v5")
    assert "Nodes [1]" in terminal.answer("p4d.24xlarge")
    assert "'0' is not a whole number" in terminal.answer("0")
    assert "'two' is not a whole number" in terminal.answer("two")
    assert "Raw text" in terminal.answer("4")
    assert "Tokenizer [hf://meta-llama/Meta-Llama-3-8B]" in terminal.answer("s3://bucket/corpus")
    assert "does not have the right form" in terminal.answer("hf://x # y")
    assert "Tokens to train on [10B]" in terminal.answer("hf://gpt2")
    assert "150B" in terminal.answer("many")
    assert "Name of the run [llama3-8b]" in terminal.answer("26B")
    assert "is not a valid run name" in terminal.answer("A b")
    terminal.answer("mine")
    assert terminal.end() == 0, terminal.shown
    spec = load(tmp_path / "run.yaml").spec
    assert (spec.name, spec.cluster.nodes, spec.data.tokenizer) == ("mine", 4, "hf://gpt2")


def test_an_existing_file_is_refused_before_the_first_question(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").touch()
    terminal = Terminal("init", "-i", cwd=tmp_path)
    assert terminal.end() == 2
    assert terminal.shown.startswith("seatrial: run.yaml exists.")


def test_processes_are_asked_for_where_there_are_no_gpus(tmp_path: Path) -> None:
    terminal = Terminal("init", "-i", "--profile", "local", cwd=tmp_path)
    for _ in range(4):
        terminal.read() if not terminal.shown else terminal.answer("")
    assert "Processes per node [2]" in terminal.answer("")
    assert "'-1' is not a whole number" in terminal.answer("-1")
    for _ in range(5):
        terminal.answer("")
    assert terminal.end() == 0, terminal.shown


def assert_stopped(terminal: Terminal, cwd: Path) -> None:
    assert terminal.end() == 130
    assert terminal.shown.endswith("\r\nStopped.\r\n")
    assert os.listdir(cwd) == []


def test_ctrl_c_stops(tmp_path: Path) -> None:
    terminal = Terminal("init", "-i", cwd=tmp_path)
    terminal.read()
    while terminal.process.poll() is None:
        # One that comes just before the process begins to wait for a line is not seen until then.
        terminal.process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            terminal.process.wait(timeout=3)
    assert_stopped(terminal, tmp_path)


def test_ctrl_d_stops(tmp_path: Path) -> None:
    terminal = Terminal("init", "-i", cwd=tmp_path)
    terminal.read()
    os.write(terminal.master, b"\x04")
    assert_stopped(terminal, tmp_path)
