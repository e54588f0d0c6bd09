# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run a command as on a terminal and note when each line of its output came."""

import fcntl
import os
import pty
import selectors
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from docs.tools.terminal.draw import Line
from docs.tools.tutorial.comparing import PROGRESS


def recorded(
    argv: Sequence[str], directory: Path, variables: Mapping[str, str], columns: int
) -> list[Line]:
    """The lines that the command prints; fail if it fails.

    Standard output is a terminal, so that the command uses colours. Standard error is not, so that
    a progress display writes lines, which are left out.
    """
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**variables, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    began = time.monotonic()
    with subprocess.Popen(
        argv,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(child)
        errors = process.stderr.fileno() if process.stderr else parent
        lines = _read((parent, errors), began)
        code = process.wait()
    os.close(parent)
    if code != 0:
        raise SystemExit(f"{' '.join(argv)} ended with {code}:\n{lines}")
    return [line for line in lines if not PROGRESS.match(line.text)]


def _read(ends: tuple[int, int], began: float) -> list[Line]:
    """Whole lines from both ends, in the order in which they came."""
    rest = dict.fromkeys(ends, b"")
    lines: list[Line] = []
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                try:
                    data = os.read(key.fd, 65536)
                except OSError:  # A terminal whose last writer is gone.
                    data = b""
                if not data:
                    selector.unregister(key.fd)
                *whole, rest[key.fd] = (rest[key.fd] + data).split(b"\n")
                now = time.monotonic() - began
                lines += [
                    Line(now, one.decode(errors="replace").rstrip("\r ").rpartition("\r")[2])
                    for one in whole
                ]
    return lines
