# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Commands in surroundings that a user does not choose, hundreds of them in a minute.

    python -m tests.unit.cli.forking

loads every command once and then forks for each call that it reads from its standard input. A
call says where it runs, with which variables, and what is wrong there: a full disk, no rights, no
network, an interrupt. Loading a command anew for each would take most of the time.
"""

import ctypes
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self

from seatrial.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[3]
LONGEST_CALL = 120.0
"""Seconds after which a call is ended."""
_CAPABILITY_VERSION = 0x20080522


@dataclass(frozen=True, slots=True)
class Call:
    """A command and its surroundings."""

    arguments: tuple[str, ...]
    """What stands behind `seatrial`."""
    directory: str
    """Where it runs."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Its whole environment."""
    largest_file: int | None = None
    """Bytes that a file may have; the next write fails as on a full disk."""
    obeys_modes: bool = False
    """Whether even root is held to the modes of files and directories."""
    has_network: bool = True
    """Whether it can reach any host, itself included."""
    interrupted_after: float | None = None
    """Seconds after which somebody presses Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended."""

    code: int
    """Its exit code; negative, the signal that ended it."""
    out: str
    """What it printed."""
    err: str
    """What it printed beside that."""

    @property
    def said(self) -> str:
        """All of it."""
        return self.out + self.err


class Forker:
    """A process that answers calls."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        """Start it with the variables that count when Python starts, such as those of a locale."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.cli.forking"],
            cwd=ROOT,
            env={**variables, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def __call__(self, call: Call) -> Answer:
        """The answer to a call."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(call)) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return Answer(**answer)

    def __enter__(self) -> Self:
        """The process itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.communicate()


def serve() -> None:
    """Answer the calls on standard input."""
    for name in COMMANDS:
        import_module(f"seatrial.cli.{name}")
    # Loaded by the commands that ask a cluster, only then.
    import_module("seatrial.cluster.connection")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    for line in os.fdopen(os.dup(0), encoding="utf-8"):
        given = json.loads(line)
        answers.write(json.dumps(asdict(_answer(Call(**given)))) + "\n")
        answers.flush()


def _answer(call: Call) -> Answer:
    """Fork, run the command, and collect what it says."""
    out, err, ready = os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        for number, (_, end) in enumerate((out, err), start=1):
            os.dup2(end, number)
        _become(call, ready[1])
    for _, end in (out, err, ready):
        os.close(end)
    # An interrupt is meant for the command, not for what puts it into its surroundings.
    os.read(ready[0], 1)
    os.close(ready[0])
    said = _read((out[0], err[0]), child, call.interrupted_after)
    _, status = os.waitpid(child, 0)
    texts = [text.decode("utf-8", "backslashreplace") for text in said]
    return Answer(os.waitstatus_to_exitcode(status), *texts)


def _read(ends: tuple[int, int], child: int, interrupt: float | None) -> list[bytearray]:
    """What both streams say until both are closed; Ctrl-C on the way."""
    said, selector, began = [bytearray(), bytearray()], selectors.DefaultSelector(), time.time()
    for number, end in enumerate(ends):
        selector.register(end, selectors.EVENT_READ, number)
    while selector.get_map():
        passed = time.time() - began
        if interrupt is not None and passed >= interrupt:
            interrupt = None
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGINT)
        if passed > LONGEST_CALL:
            os.kill(child, signal.SIGKILL)
        for key, _ in selector.select(0.005 if interrupt is not None else 1.0):
            part = os.read(key.fd, 1 << 16)
            said[key.data] += part
            if not part:
                selector.unregister(key.fd)
                os.close(key.fd)
    return said


def _become(call: Call, ready: int) -> NoReturn:
    """Run the command in this process, which is a fork; tell when it begins."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.environ.clear()
    os.environ.update(call.variables)
    os.chdir(call.directory)
    sys.argv = ["seatrial", *call.arguments]
    # Where the tests run in the background of a shell, Ctrl-C is ignored.
    signal.signal(signal.SIGINT, _interrupted)
    if call.largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (call.largest_file, call.largest_file))
    if call.obeys_modes:
        obey_modes()
    if not call.has_network:
        _lose_network()
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  (with the encoding of the locale)
    try:
        os.write(ready, b"!")
        os.close(ready)
        main()
    except SystemExit as end:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os._exit(99)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Stop the command; before it has begun and after its end there is nothing to be stopped."""
    while frame is not None:
        if frame.f_code is main.__code__:
            signal.default_int_handler(number, frame)
        frame = frame.f_back


def obey_modes() -> None:
    """Give up root's right, in this thread, to read and write whatever the modes say."""
    if os.geteuid() != 0:
        return
    library = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    if library.capset(head, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "the rights of root cannot be given up")


def _lose_network() -> None:
    """Let every connection fail as it does without a network."""

    def unreachable(*_: object, **__: object) -> NoReturn:
        raise OSError(101, "Network is unreachable")

    def unknown(*_: object, **__: object) -> NoReturn:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    for name in ("connect", "connect_ex"):
        setattr(socket.socket, name, unreachable)
    socket.getaddrinfo = unknown


if __name__ == "__main__":
    serve()
