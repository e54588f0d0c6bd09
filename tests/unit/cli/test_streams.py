# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Outputs that take not everything: poor encodings, full disks, readers that go."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = [
    ("--help",),
    ("--version",),
    ("validate", "run.yaml"),
    ("validate", "absent.yaml", "--json"),
    ("validate", "--help"),
    ("catalog", "list", "models"),
    ("recipes", "list", "--json"),
    ("schema",),
]


def call(
    arguments: tuple[str, ...], cwd: Path, stdout: int, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Start the command with that standard output."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, "-m", "seatrial", *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=environment | variables,
    )


def test_what_cannot_be_encoded_is_written_plainly(spec_file: Path) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    done = call(("validate", "run.yaml"), spec_file.parent, subprocess.PIPE, **ascii_only)
    assert done.returncode == 0, done.stderr
    assert "2 x p4d.24xlarge = 16 x a100-40gb" in done.stdout
    assert "tp 4 | pp 1 | dp 4" in done.stdout
    batch = "training.global_batch_size=1000"
    refused = call(("validate", "run.yaml", batch), spec_file.parent, subprocess.PIPE, **ascii_only)
    assert refused.returncode == 1
    assert "micro-batch 4 x dp 4 = 16" in refused.stderr


def test_the_picture_of_a_layout_has_a_plain_form(spec_file: Path) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    done = call(("plan", "run.yaml"), spec_file.parent, subprocess.PIPE, **ascii_only)
    assert "node 0  [0 0 0 0|1 1 1 1]" in done.stdout, done.stderr
    assert "?" not in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_output_is_said_in_a_line(
    spec_file: Path, arguments: tuple[str, ...], unbuffered: str
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = call(arguments, spec_file.parent, full, PYTHONUNBUFFERED=unbuffered)
    finally:
        os.close(full)
    assert done.returncode == 2
    assert done.stderr == "seatrial: cannot write to standard output: No space left on device.\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_closed_pipe_ends_a_command_quietly(
    spec_file: Path, arguments: tuple[str, ...], unbuffered: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = call(arguments, spec_file.parent, writer, PYTHONUNBUFFERED=unbuffered)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_closed_output_is_said_in_a_line(spec_file: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" -m seatrial --version >&-', sys.executable],
        cwd=spec_file.parent,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "seatrial: cannot write to standard output: it is closed.\n"


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        ("ENOSPC", 2, "seatrial: No space left on device. Free disk space"),
        ("EIO", 2, "seatrial: Input/output error. The disk"),
        ("EBADF", 70, "this is a bug in Seatrial"),
    ],
)
def test_errors_of_other_files_are_not_taken_for_those_of_the_output(
    tmp_path: Path, number: str, code: int, words: str
) -> None:
    script = (
        "import errno, os, seatrial.cli.main as m\n"
        "def fail(*_):\n"
        f"    raise OSError(errno.{number}, os.strerror(errno.{number}))\n"
        "m.LazyGroup.get_command = fail\n"
        "m.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "schema"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert "the output cannot be written" not in done.stderr
    assert (done.returncode, words in done.stderr) == (code, True)
