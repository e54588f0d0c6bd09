# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A backend is used only where it is the version that proved exact."""

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from seatrial.dataprep.drivers.driver import Job, line_of
from seatrial.dataprep.drivers.work import Bench
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import TaskList, thaw
from seatrial.dataprep.tokenizers import backends, encoder, selection
from seatrial.sdk.data import freeze_data
from tests.unit.dataprep.little_corpus import write_corpus


@pytest.fixture
def tasks(tmp_path: Path) -> TaskList:
    """A frozen list for which the fastest backend was chosen."""
    frozen = freeze_data(write_corpus(tmp_path, sources=1, files=1, count=20))
    assert frozen.backend == "gigatoken"
    return thaw(Path(frozen.address).read_bytes())


def bench(tasks: TaskList, tmp_path: Path) -> Bench:
    """A worker that got ready before the choice was known, as the local driver's do."""
    address = str(tmp_path / "out")
    made = Bench(Job.of(tasks, address))
    made.get_ready(lambda: True)
    made.take(Job.of(tasks, address, "gigatoken"))
    return made


def done(tasks: TaskList, tmp_path: Path) -> PartRecord:
    answer = bench(tasks, tmp_path).attempt(line_of(tasks, tasks.tasks[0]))
    return PartRecord.from_json(answer["record"].encode())


def test_a_worker_uses_the_version_that_was_proved(tasks: TaskList, tmp_path: Path) -> None:
    assert done(tasks, tmp_path).backend == f"gigatoken {backends.version_of('gigatoken')}"


def test_a_worker_with_another_version_uses_the_reference(tasks: TaskList, tmp_path: Path) -> None:
    file = tmp_path / "out" / "work" / tasks.name / "backend.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": "0.0.1"}))
    used = done(tasks, tmp_path).backend
    assert used.startswith("tokenizers ")
    assert used.endswith("but 0.0.1 was verified")


def without(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    def version(name: str) -> str:
        if name in missing:
            raise PackageNotFoundError(name)
        return backends.version_of(name)

    for module in (selection, encoder):
        monkeypatch.setattr(module, "version_of", version)


def test_a_worker_without_the_package_uses_the_reference(
    tasks: TaskList, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "gigatoken")
    used = done(tasks, tmp_path).backend
    assert used.startswith("tokenizers ")
    assert used.endswith("because gigatoken is not installed on a worker")


def test_a_worker_without_the_reference_says_what_to_install(
    tasks: TaskList, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "gigatoken", "tokenizers")
    answer = bench(tasks, tmp_path).attempt(line_of(tasks, tasks.tasks[0]))
    assert answer["error"]["kind"] == "fixable"
    assert "pip install '.[data]'" in answer["error"]["text"]
