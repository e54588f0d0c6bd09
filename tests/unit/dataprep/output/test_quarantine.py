# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The list of bad lines is part of the data set: recorded, verified, and removed when unnamed."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.drivers.driver import Event, PendingJob
from seatrial.dataprep.inspection import verify_at
from seatrial.dataprep.prepare import PreparationOutcome, prepare
from seatrial.dataprep.tasks.task_list import Task, TaskList
from seatrial.sdk.plan import plan
from tests.unit.dataprep.little_corpus import InlineDriver, contents, write_corpus

ALLOWED = "data.preparation.largest_bad_share=0.5"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A corpus with three bad lines in one file."""
    made = write_corpus(tmp_path, sources=2)
    lines = '{"text": "good"}\nno json\n{"text": 5}\n{"txt": ""}\n'
    (tmp_path / "corpus" / "s1" / "9.jsonl").write_text(lines)
    return made


def run(spec: Path, driver: InlineDriver | None = None) -> PreparationOutcome:
    return prepare(plan(spec, [ALLOWED]), driver or InlineDriver())


CHANGES: list[tuple[Callable[[Path], object], DatasetCode]] = [
    (lambda path: path.write_bytes(b""), DatasetCode.COUNTS),
    (lambda path: path.unlink(), DatasetCode.ABSENT),
    (lambda path: path.write_bytes(path.read_bytes().replace(b"9.j", b"8.j")), DatasetCode.DIGEST),
]


@pytest.mark.parametrize(("change", "code"), CHANGES)
def test_a_changed_list_is_found(
    spec: Path, tmp_path: Path, change: Callable[[Path], object], code: DatasetCode
) -> None:
    assert run(spec).record.quarantine_digest
    assert verify_at(str(tmp_path / "out")) == []
    change(tmp_path / "out" / "quarantine.jsonl")
    (finding,) = verify_at(str(tmp_path / "out"))
    assert (finding.code, finding.where.file) == (code, "quarantine.jsonl")


@pytest.mark.parametrize("change", [change for change, _ in CHANGES])
def test_a_task_whose_list_is_not_what_it_wrote_is_done_again(
    spec: Path, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    run(spec)
    expected = contents(tmp_path / "out")

    class Damaging(InlineDriver):
        """Damages the list of bad lines, once."""

        def run(self, job: PendingJob, tasks: TaskList, wanted: Sequence[Task]) -> Iterator[Event]:
            first = not self.done
            yield from super().run(job, tasks, wanted)
            if first:
                (path,) = (other / "work").rglob("*.bad.jsonl")
                change(path)

    other = tmp_path / "other"
    driver = Damaging()
    prepare(plan(spec, [ALLOWED]), driver, to=str(other))
    assert driver.done == [0, 1, 1]
    assert contents(other) == expected


def test_a_list_that_the_record_does_not_name_is_removed(tmp_path: Path) -> None:
    spec = write_corpus(tmp_path, sources=1)
    left = tmp_path / "out" / "quarantine.jsonl"
    left.parent.mkdir()
    left.write_text("{}\n")
    assert run(spec).record.quarantine_file is None
    assert not left.exists()
