# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Do tasks of a frozen list, for the pods of a Kubernetes Indexed Job or of any scheduler.

::

    python -m seatrial.dataprep.drivers.single --list /data/work/0123456789ab/tasks.jsonl --task 7
    python -m seatrial.dataprep.drivers.single --at /data --workers 4

The first form does one task; without `--task`, it uses JOB_COMPLETION_INDEX, which Kubernetes sets.
The second form waits for the list, and does every fourth task, from JOB_COMPLETION_INDEX on.
Several processes may do the same task: only one record counts. Exit codes: 0 if the tasks have
their records, 1 if an input is bad and a retry is useless, 2 if the arguments or the number are
wrong, 75 if a retry may help, for example after a timeout of the store.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

from seatrial.dataprep.drivers.driver import (
    Done,
    Job,
    PendingJob,
    TransientTaskError,
    limit_threads,
    line_of,
    usable_cores,
)
from seatrial.dataprep.drivers.local import LocalDriver
from seatrial.dataprep.drivers.work import Bench
from seatrial.dataprep.output.completion import finished_record, remove_work
from seatrial.dataprep.tasks.frozen import current_list, load_records
from seatrial.dataprep.tasks.records import PartRecord, tasks_file
from seatrial.dataprep.tasks.task_list import TaskList, thaw
from seatrial.dataprep.tokenizers.selection import chosen_backend
from seatrial.errors import ExitCode, SeatrialError, UsageError
from seatrial.storage.access import store_at
from seatrial.storage.store import BusyStoreError, Store

INDEX = "JOB_COMPLETION_INDEX"
"""Kubernetes sets this variable in the pods of an Indexed Job."""
TRY_AGAIN = 75
"""EX_TEMPFAIL of sysexits.h."""
LIST_SECONDS = 600.0
"""How long a worker waits for the list before it exits, to be retried."""
LOOK_SECONDS = 2.0
_LIST = re.compile(r"(?P<root>.+)/work/(?P<name>[0-9a-f]{12})/tasks\.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one task, or a share of the tasks, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m seatrial.dataprep.drivers.single")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--list", metavar="ADDRESS", help="path of tasks.jsonl")
    which.add_argument("--at", metavar="ADDRESS", help="output location; waits for its list")
    parser.add_argument("--task", type=int, metavar="N", help=f"task number; default ${INDEX}")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="number of shares")
    options = parser.parse_args(arguments)
    limit_threads()
    try:
        if options.at is not None:
            _do_share(store_at(options.at), options.workers)
            return ExitCode.OK
        answer = _do(options.list, options.task)
    except SeatrialError as error:
        print(f"seatrial: {error}", file=sys.stderr)  # noqa: T201
        is_transient = isinstance(error, BusyStoreError | TransientTaskError)
        return TRY_AGAIN if is_transient else error.exit_code
    if "error" in answer:
        print(f"seatrial: {answer['error']['text']}", file=sys.stderr)  # noqa: T201
        return TRY_AGAIN if answer["error"]["kind"] == "system" else ExitCode.FINDINGS
    _report(PartRecord.from_json(answer["record"].encode()))
    return ExitCode.OK


def _report(record: PartRecord) -> None:
    tokens = sum(file.tokens for file in record.files)
    told = {"task": record.task, "attempt": record.attempt, "tokens": tokens}
    print(json.dumps(told), flush=True)  # noqa: T201


def _do_share(store: Store, workers: int) -> None:
    """Do the tasks of this worker that have no record."""
    index = os.environ.get(INDEX, "")
    if not (index.isascii() and index.isdigit() and int(index) < workers):
        raise UsageError(
            f"{INDEX} is {index or 'not set'}, but with --workers {workers} it must be a number "
            f"from 0 to {workers - 1}. Kubernetes sets it in the pods of an Indexed Job."
        )
    tasks = _awaited(store)
    if tasks is None:
        return
    records = load_records(store, tasks)
    own = [
        task
        for task in tasks.tasks
        if task.number % workers == int(index) and task.number not in records
    ]
    job = PendingJob(Job.of(tasks, store.address), lambda: chosen_backend(store, tasks))
    if own:
        for event in LocalDriver(usable_cores()).run(job, tasks, own):
            if isinstance(event, Done):
                _report(event.record)
    finished = finished_record(store)
    if finished is not None:
        # Another process has finished the data set in the meantime: discard this work.
        remove_work(store, finished)


def _awaited(store: Store) -> TaskList | None:
    """Wait for the list and return it; None if the data set is already complete."""
    began = time.monotonic()
    while finished_record(store) is None:
        name = current_list(store)
        if name:
            return _thawed(store, name, f"{store.address}/{tasks_file(name)}")
        if time.monotonic() - began > LIST_SECONDS:
            raise TransientTaskError(
                f"{store.address} has no task list after {LIST_SECONDS:.0f} s. Check the job that "
                "lists the inputs."
            )
        time.sleep(LOOK_SECONDS)
    return None


def _do(address: str, number: int | None) -> dict[str, Any]:
    """Do one task of a list."""
    match = _LIST.fullmatch(address)
    if match is None:
        raise UsageError(
            f"{address} is not the address of a frozen list. The address must end in "
            "/work/NAME/tasks.jsonl, as seatrial data prepare writes it."
        )
    store = store_at(match["root"])
    tasks = _thawed(store, match["name"], address)
    task = tasks.tasks[_number(tasks, number)]
    bench = Bench(Job.of(tasks, match["root"], chosen_backend(store, tasks)))
    answer = bench.attempt(line_of(tasks, task))
    finished = finished_record(store)
    if finished is not None:
        # Another process has finished the data set in the meantime: discard this work.
        remove_work(store, finished)
    return answer


def _thawed(store: Store, name: str, address: str) -> TaskList:
    """Read a list and check that it is the one that was frozen under this name."""
    try:
        tasks = thaw(store.read(tasks_file(name)))
    except FileNotFoundError:
        raise UsageError(f"{address} does not exist. Prepare the list first.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SeatrialError(
            f"{address} is damaged: {error}. Delete the directory and prepare the list again."
        ) from None
    if tasks.name != name:
        raise SeatrialError(
            f"{address} was changed after it was frozen: its digest starts with {tasks.name}. "
            "Delete the directory and prepare the list again."
        )
    return tasks


def _number(tasks: TaskList, given: int | None) -> int:
    """Return the number of the task to do."""
    text = os.environ.get(INDEX, "") if given is None else str(given)
    if not (text.isascii() and text.isdigit()) or int(text) >= len(tasks.tasks):
        raise UsageError(
            f"{f'there is no task {text}' if text else 'no task number is set'}: the list has "
            f"tasks 0 to {len(tasks.tasks) - 1}. Use --task, or set {INDEX}."
        )
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
