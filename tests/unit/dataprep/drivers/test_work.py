# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A process that gets ready for tasks before it is known which backend they will want."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from seatrial.dataprep.drivers.driver import Job, line_of
from seatrial.dataprep.drivers.work import Bench
from seatrial.dataprep.prepare import list_tasks
from seatrial.dataprep.tasks.frozen import freeze_into
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.dataprep.tokenizers import backends
from seatrial.sdk.plan import plan
from seatrial.storage.directory import LocalStore
from tests.unit.dataprep.little_corpus import write_corpus

pytest.importorskip("gigatoken")


@dataclass
class Ready:
    """A frozen list, and what was loaded for it."""

    tasks: TaskList
    draft: Job
    loaded: list[str]

    def backend_of_first(self, bench: Bench, backend: str) -> str:
        """The backend that the first task was done with, once it is chosen."""
        bench.take(replace(self.draft, backend=backend))
        answer = bench.attempt(line_of(self.tasks, self.tasks.tasks[0]))
        return PartRecord.from_json(answer["record"].encode()).backend.split()[0]


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ready:
    loaded: list[str] = []

    def counted(name: str) -> None:
        load = backends.BACKENDS[name]

        def opened(model: backends.Model) -> backends.Backend:
            loaded.append(name)
            return load(model)

        monkeypatch.setitem(backends.BACKENDS, name, opened)

    for name in ("gigatoken", "tokenizers"):
        counted(name)
    backends.reference_backend.cache_clear()
    store = LocalStore(tmp_path / "out")
    tasks = freeze_into(store, *list_tasks(plan(write_corpus(tmp_path, sources=1))))
    return Ready(tasks, Job.of(tasks, store.address), loaded)


def test_what_was_loaded_early_is_not_loaded_again(ready: Ready) -> None:
    bench = Bench(ready.draft)
    bench.get_ready(lambda: False)
    assert ready.loaded == ["gigatoken", "tokenizers"]
    assert ready.backend_of_first(bench, "gigatoken") == "gigatoken"
    assert ready.loaded == ["gigatoken", "tokenizers"]


def test_the_reference_can_wait_when_there_is_work(ready: Ready) -> None:
    bench = Bench(ready.draft)
    bench.get_ready(lambda: True)
    assert ready.loaded == ["gigatoken"]


def test_the_backend_that_is_chosen_counts(ready: Ready) -> None:
    bench = Bench(ready.draft)
    bench.get_ready(lambda: False)
    assert ready.backend_of_first(bench, "tokenizers") == "tokenizers"


def test_a_backend_that_fails_early_is_left_to_who_chooses(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicError(BaseException):
        pass

    def panics(_: backends.Model) -> backends.Backend:
        raise PanicError

    monkeypatch.setitem(backends.BACKENDS, "gigatoken", panics)
    bench = Bench(ready.draft)
    bench.get_ready(lambda: False)
    assert ready.backend_of_first(bench, "tokenizers") == "tokenizers"
