# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Do task N of a frozen list, for the pods of a Kubernetes Indexed Job.

::

    python -m seatrial.dataprep.drivers.single --list /data/work/0123456789ab/tasks.jsonl --task 7

Without `--task`, it uses JOB_COMPLETION_INDEX, which Kubernetes sets. Several processes may do the
same task: only one record counts. Exit codes: 0 if the task has its record, 1 if its input is bad
and a retry is useless, 2 if the arguments or the number are wrong, 75 if a retry may help, for
example after a timeout of the store.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from seatrial.dataprep.drivers.driver import Job, limit_threads, line_of
from seatrial.dataprep.drivers.work import Bench
from seatrial.dataprep.output.completion import finished_record, remove_work
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import TaskList, thaw
from seatrial.dataprep.tokenizers.selection import chosen_backend
from seatrial.errors import ExitCode, SeatrialError, UsageError
from seatrial.storage.access import store_at
from seatrial.storage.store import BusyStoreError

INDEX = "JOB_COMPLETION_INDEX"
"""Kubernetes sets this variable in the pods of an Indexed Job."""
TRY_AGAIN = 75
"""EX_TEMPFAIL of sysexits.h."""
_LIST = re.compile(r"(?P<root>.+)/work/(?P<name>[0-9a-f]{12})/tasks\.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one task and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m seatrial.dataprep.drivers.single")
    parser.add_argument("--list", required=True, metavar="ADDRESS", help="path of tasks.jsonl")
    parser.add_argument("--task", type=int, metavar="N", help=f"task number; default ${INDEX}")
    options = parser.parse_args(arguments)
    limit_threads()
    try:
        answer = _do(options.list, options.task)
    except SeatrialError as error:
        print(f"seatrial: {error}", file=sys.stderr)  # noqa: T201
        return TRY_AGAIN if isinstance(error, BusyStoreError) else error.exit_code
    if "error" in answer:
        print(f"seatrial: {answer['error']['text']}", file=sys.stderr)  # noqa: T201
        return TRY_AGAIN if answer["error"]["kind"] == "system" else ExitCode.FINDINGS
    record = PartRecord.from_json(answer["record"].encode())
    tokens = sum(file.tokens for file in record.files)
    print(json.dumps({"task": record.task, "attempt": record.attempt, "tokens": tokens}))  # noqa: T201
    return ExitCode.OK


def _do(address: str, number: int | None) -> dict[str, Any]:
    """Do one task of a list."""
    match = _LIST.fullmatch(address)
    if match is None:
        raise UsageError(
            f"{address} is not the address of a frozen list. The address must end in "
            "/work/NAME/tasks.jsonl, as seatrial data prepare writes it."
        )
    store = store_at(match["root"])
    try:
        tasks = thaw(store.read(f"work/{match['name']}/tasks.jsonl"))
    except FileNotFoundError:
        raise UsageError(f"{address} does not exist. Prepare the list first.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SeatrialError(
            f"{address} is damaged: {error}. Delete the directory and prepare the list again."
        ) from None
    if tasks.name != match["name"]:
        raise SeatrialError(
            f"{address} was changed after it was frozen: its digest starts with {tasks.name}. "
            "Delete the directory and prepare the list again."
        )
    task = tasks.tasks[_number(tasks, number)]
    bench = Bench(Job.of(tasks, match["root"], chosen_backend(store, tasks)))
    answer = bench.attempt(line_of(tasks, task))
    finished = finished_record(store)
    if finished is not None:
        # Another process has finished the data set in the meantime: discard this work.
        remove_work(store, finished)
    return answer


def _number(tasks: TaskList, given: int | None) -> int:
    """Return the number of the task to do."""
    text = os.environ.get(INDEX, "") if given is None else str(given)
    if not (text.isascii() and text.isdigit()) or int(text) >= len(tasks.tasks):
        raise UsageError(
            f"there is no task {text or 'given'}: the list has tasks 0 to {len(tasks.tasks) - 1}. "
            f"Use --task, or set {INDEX}."
        )
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
