# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Trainings of the real engine under the supervisor of a pod, for tests that disturb them."""

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from seatrial.codes.supervisor import SupervisorCode
from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import Training, train, worker_python
from seatrial.engines.megatron.command_line import Arguments, command_line
from seatrial.monitoring.event_log import Event, EventKind, read_events
from seatrial.monitoring.processes import MARK, children, end_marked, marked, new_mark, state
from seatrial.worker.supervisor.heartbeats import Beat, read_beats
from tests.conftest import MEGATRON
from tests.engine.test_pods import ENVIRONMENT
from tests.engine.toy import DENSE, SHARDED

PATIENCE = 1200.0
"""Seconds within which anything that is waited for should have happened, on a busy host."""
SAVE_EVERY = 10
DROPOUT: Arguments = {"hidden-dropout": 0.1, "attention-dropout": 0.1}
MODEL: Arguments = {**DENSE, **SHARDED, **DROPOUT, "save-interval": SAVE_EVERY}
"""With dropout, so that the state of random numbers must be restored as well."""

Figures = dict[int, tuple[float, float]]
"""Loss and gradient norm of each step."""


class Supervised:
    """One node's supervisor with its ranks."""

    def __init__(
        self, directory: Path, arguments: Arguments, processes: int = 2, **variables: str
    ) -> None:
        """Start it, in a session of its own."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory, self.processes = directory, processes
        self.events_file = directory / "events.jsonl"
        self.saved = directory / "saved"
        self.mark = new_mark()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        arguments = {
            **arguments,
            "save": str(self.saved),
            "load": str(self.saved),
            "exit-signal-handler": True,
        }
        words = [
            *("-m", "seatrial.worker.supervisor", "--nodes=1", f"--processes={processes}"),
            *("--node-rank=0", "--address=127.0.0.1", f"--port={port}", "--name=test"),
            *("--restarts=100", "--grace-seconds=300", f"--directory={directory / 'beats'}"),
            *(
                "--",
                "--tee=3",
                "--module",
                "seatrial.worker.megatron.pod",
                *command_line(arguments),
            ),
        ]
        settings = {
            **os.environ,
            **ENVIRONMENT,
            **variables,
            "SEATRIAL_EVENTS": str(self.events_file),
            "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "280",
            "PYTHONPATH": python_path(),
            MARK: self.mark,
        }
        with (directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [worker_python(MEGATRON), *words],
                env=settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def beats(self) -> list[Beat]:
        """What the ranks that are alive last told."""
        return [beat for beat in read_beats(self.directory / "beats") if state(beat.process)]

    def agent(self) -> int:
        """The process of torchrun."""
        # While the supervisor starts it again there is none.
        self.until(lambda: len(self._agents()) == 1)
        (found,) = self._agents()
        return found

    def _agents(self) -> list[int]:
        started = children(self.process.pid)
        return [p for p in started if state(p) and b"torch.distributed.run" in _words(p)]

    def others(self) -> list[int]:
        """All processes of the training but the supervisor and torchrun."""
        known = {self.process.pid, *children(self.process.pid)}
        return [process for process in marked(self.mark) if process not in known]

    def trains_from(self, step: int, restart: int | None = None) -> list[Beat]:
        """The ranks, once all have done a step."""

        def reached() -> bool:
            beats = [beat for beat in self.beats() if restart in (None, beat.restart)]
            return sum(beat.step >= step and beat.resumed >= 0 for beat in beats) == self.processes

        self.until(reached)
        return self.beats()

    def until(self, happened: Callable[[], bool], every: float = 0.02) -> float:
        """Wait for something, looking every so many seconds; how long it took."""
        began = time.monotonic()
        while not happened():
            late = time.monotonic() - began > PATIENCE
            assert not late, f"in vain, see {self.directory / 'log'}"
            assert self.process.poll() is None or happened(), f"ended: {self.directory / 'log'}"
            time.sleep(every)
        return time.monotonic() - began

    def reported(self, code: SupervisorCode, before: int = 0) -> Event:
        """What the supervisor reports under a code, once there is more than before."""
        # To read the whole log takes a while, which the ranks have to do without.
        self.until(lambda: len(self.findings(code)) > before, every=0.25)
        return self.findings(code)[before]

    def finish(self) -> int:
        """The exit code, once it has ended by itself."""
        return self.process.wait(timeout=PATIENCE)

    def end(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait()
        end_marked(self.mark)

    def all_events(self) -> list[Event]:
        """What the event log has."""
        return list(read_events(self.events_file)) if self.events_file.exists() else []

    def events(self, kind: EventKind) -> list[Event]:
        """The events of a kind."""
        return [event for event in self.all_events() if event.kind is kind]

    def findings(self, code: SupervisorCode) -> list[Event]:
        """What the supervisor has reported under a code."""
        return [e for e in self.events(EventKind.FINDING) if e.values["code"] == code]

    def usual_step(self) -> float:
        """The 99th percentile of the steps, but for the first after each start."""
        starts = {event.step for event in self.events(EventKind.START)}
        steps = [e for e in self.events(EventKind.STEP) if e.step - 1 not in starts]
        taken = sorted(event.values["seconds"] for event in steps)
        return float(taken[int(0.99 * len(taken))]) if taken else 0.0


def undisturbed(directory: Path, arguments: Arguments, processes: int = 2) -> tuple[Path, Figures]:
    """Where a training saved that nobody disturbed, and its figures."""
    saved = directory / "saved"
    training = Training(
        "straight", {**arguments, "save": str(saved)}, processes, directory, engine="megatron"
    )
    outcome = train(training, 3 * PATIENCE)
    assert outcome.code == 0, f"{outcome.tail}\n{training.log}"
    return saved, dict(all_figures([*outcome.steps().values()]))


def _words(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def all_figures(events: list[Event]) -> list[tuple[int, tuple[float, float]]]:
    """Step, loss and gradient norm of every step that was done, those done twice too."""
    return [(e.step, (e.values["loss"], e.values["grad_norm"])) for e in events]


def differing(straight: Figures, disturbed: list[Event]) -> list[int]:
    """The steps whose loss or gradient norm is not that of the undisturbed training, bit by bit."""
    return [step for step, figures in all_figures(disturbed) if straight[step] != figures]
