# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run tasks in a worker process, independent of the driver that started it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from traceback import format_exc
from typing import Any

from seatrial.dataprep.drivers.driver import Job
from seatrial.dataprep.kernel.run import run_task
from seatrial.dataprep.tasks.frozen import files_of
from seatrial.dataprep.tasks.records import PartRecord, record_file
from seatrial.dataprep.tasks.task_list import Task, TaskList, thaw
from seatrial.dataprep.tokenizers.backends import LADDERS
from seatrial.dataprep.tokenizers.encoder import Encoder, open_encoder
from seatrial.dataprep.tokenizers.locations import tokenizer_path
from seatrial.dataprep.tokenizers.selection import proven_encoder, unproven
from seatrial.errors import FindingsError, SeatrialError
from seatrial.storage.access import store_at
from seatrial.storage.store import BusyStoreError
from seatrial.storage.writer_claims import new_attempt


class Bench:
    """The state of a worker process for one list: the first task loads the tokenizer."""

    def __init__(self, job: Job) -> None:
        """Open the store of the output."""
        self.job = job
        self.store = store_at(job.address)
        self._encoder: Encoder | None = None

    def get_ready(self, is_wanted: Callable[[], bool]) -> None:
        """Load the most likely backend while the backend of the job is being chosen.

        This is usually the fastest one. The code that chooses reports any problem with it.

        Args:
            is_wanted: Returns True as soon as the process has other work.
        """
        settings = thaw(f"{self.job.head}\n".encode()).settings
        likely = LADDERS[settings.tokenizer.kind][0]
        try:
            self._encoder = self._opened(TaskList(settings, (), self.job.digest), likely)
            if not is_wanted():
                self._encoder.load_reference()
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException:
            # A panic of a Rust library is not an Exception.
            self._encoder = None

    def take(self, job: Job) -> None:
        """Continue with the complete job after its backend is chosen."""
        self.job = job
        if self._encoder is None:
            return
        tasks = TaskList(thaw(f"{job.head}\n".encode()).settings, (), job.digest)
        is_other = self._encoder.name != job.backend
        if is_other or unproven(self.store, tasks, job.backend) is not None:
            self._encoder = None

    def attempt(self, line: str, read: Callable[[int], None] | None = None) -> dict[str, Any]:
        """Do the task of a line; return `record` as JSON, or `error` with kind and text."""
        one = thaw(f"{self.job.head}\n{line.rstrip()}\n".encode())
        tasks = replace(one, digest=self.job.digest)
        attempt = new_attempt()
        try:
            record = self._run(tasks.tasks[0], tasks, attempt, read)
        except Exception as error:
            answer = _error_answer(error)
            # If the store itself fails, the cleanup fails too; another process will do it.
            with suppress(SeatrialError, OSError):
                self.store.delete(files_of(self.store, tasks.name, attempt))
            return {"error": answer}
        return {"record": record.to_json().decode()}

    def _run(
        self, task: Task, tasks: TaskList, attempt: str, read: Callable[[int], None] | None
    ) -> PartRecord:
        """Return the existing record of a task, or do the task."""
        path = record_file(tasks.name, task.number)
        try:
            return PartRecord.from_json(self.store.read(path))
        except FileNotFoundError:
            pass
        except (ValueError, TypeError, KeyError):
            # Damaged, or empty after a kill on a file system without links.
            self.store.delete([path])
        if self._encoder is None:
            self._encoder = proven_encoder(self.store, tasks, self.job.backend)
        return run_task(task, tasks, self.store, self._encoder, attempt, read)

    def _opened(self, tasks: TaskList, backend: str) -> Encoder:
        """Open the tokenizer of a list with a backend."""
        settings = tasks.settings
        file = tokenizer_path(self.store, tasks)
        return open_encoder(settings.tokenizer, file, backend, settings.end_token_in_text)


def _error_answer(error: Exception) -> dict[str, Any]:
    """Describe an error: one that the user can fix, a transient one, or a bug."""
    if isinstance(error, FindingsError):
        findings = [finding.to_dict() for finding in error.findings]
        return {"kind": "fixable", "text": str(error), "findings": findings}
    if isinstance(error, BusyStoreError):
        return {"kind": "system", "text": str(error)}
    if isinstance(error, SeatrialError):
        return {"kind": "fixable", "text": str(error)}
    if isinstance(error, OSError | EOFError | MemoryError):
        return {"kind": "system", "text": str(error) or type(error).__name__}
    return {"kind": "defect", "text": format_exc()}
