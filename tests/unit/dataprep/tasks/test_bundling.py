# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from seatrial.dataprep.tasks.task_list import (
    LARGEST,
    SMALLEST,
    TASKS,
    InputFile,
    InputFormat,
    bundle,
)

MIB = 1 << 20


def _files(*sizes: int, prefix: str = "f") -> list[InputFile]:
    return [
        InputFile(f"/{prefix}/{place:06d}", size, "1", InputFormat.JSONL)
        for place, size in enumerate(sizes)
    ]


def test_small_files_share_a_task() -> None:
    tasks = bundle([("a", _files(*[MIB] * 20))])
    assert [task.size // MIB for task in tasks] == [8, 8, 4]
    assert [task.number for task in tasks] == [0, 1, 2]


def test_a_large_file_has_a_task_of_its_own() -> None:
    tasks = bundle([("a", _files(MIB, 50 * MIB, MIB, MIB))])
    assert [[file.size // MIB for file in task.inputs] for task in tasks] == [[1], [50], [1, 1]]


def test_a_middle_sized_corpus_gives_as_many_tasks_as_are_wanted() -> None:
    tasks = bundle([("a", _files(*[MIB] * 16 * TASKS))])
    assert len(tasks) == TASKS


def test_a_task_stays_below_the_largest_size() -> None:
    tasks = bundle([("a", _files(*[100 * MIB] * 10_000))])
    assert all(task.size <= LARGEST + 50 * MIB for task in tasks)


def test_nothing_gives_no_task() -> None:
    assert bundle([]) == []
    assert bundle([("a", [])]) == []


@given(st.lists(st.lists(st.integers(0, 64 * MIB), max_size=50), max_size=4))
def test_every_input_is_in_one_task_in_order(sizes: list[list[int]]) -> None:
    sources = [
        (f"s{place}", _files(*group, prefix=f"s{place}")) for place, group in enumerate(sizes)
    ]
    tasks = bundle(sources)
    assert [task.number for task in tasks] == list(range(len(tasks)))
    for name, files in sources:
        mine = [task.inputs for task in tasks if task.source == name]
        assert list(chain.from_iterable(mine)) == files
    order = [task.source for task in tasks]
    assert order == sorted(order)
    # Two neighbours of a source would not have fitted together.
    total = sum(map(sum, sizes))
    target = min(max(total // TASKS, SMALLEST), LARGEST)
    for before, after in pairwise(tasks):
        if before.source == after.source:
            assert before.size + after.inputs[0].size > target
