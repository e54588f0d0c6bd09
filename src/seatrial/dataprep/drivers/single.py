# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Do task N of a frozen list: what the pods of a Kubernetes Indexed Job call.

::

    python -m seatrial.dataprep.drivers.single --list /data/work/0123456789ab/tasks.jsonl --task 7

Without `--task`, the number is that of JOB_COMPLETION_INDEX, which Kubernetes sets. Any number of
processes may do the same task: one record counts. Exit code 0 when the task has its record, 1 when
its input is bad and another try is in vain, 2 when the arguments or the number are wrong, 75 when
another try may do, as after a store did not answer.
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
"""What Kubernetes tells a pod of an Indexed Job."""
TRY_AGAIN = 75
"""EX_TEMPFAIL of sysexits.h."""
_LIST = re.compile(r"(?P<root>.+)/work/(?P<name>[0-9a-f]{12})/tasks\.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one task and give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m seatrial.dataprep.drivers.single")
    parser.add_argument("--list", required=True, metavar="ADDRESS", help="the file tasks.jsonl")
    parser.add_argument("--task", type=int, metavar="N", help=f"the task; {INDEX} when absent")
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
    """Do the task of a list."""
    match = _LIST.fullmatch(address)
    if match is None:
        raise UsageError(
            f"{address} is not the address of a frozen list. It ends in "
            "/work/NAME/tasks.jsonl, as seatrial data prepare writes it."
        )
    store = store_at(match["root"])
    try:
        tasks = thaw(store.read(f"work/{match['name']}/tasks.jsonl"))
    except FileNotFoundError:
        raise UsageError(f"{address} is not there. Prepare the list first.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SeatrialError(
            f"{address} is damaged: {error}. Remove the directory and prepare the list again."
        ) from None
    if tasks.name != match["name"]:
        raise SeatrialError(
            f"{address} was changed since it was frozen: its digest begins with {tasks.name}. "
            "Remove the directory and prepare the list again."
        )
    task = tasks.tasks[_number(tasks, number)]
    bench = Bench(Job.of(tasks, match["root"], chosen_backend(store, tasks)))
    answer = bench.attempt(line_of(tasks, task))
    finished = finished_record(store)
    if finished is not None:
        # A rival has finished the data set meanwhile: what was written here is of no use.
        remove_work(store, finished)
    return answer


def _number(tasks: TaskList, given: int | None) -> int:
    """The number of the task to do."""
    text = os.environ.get(INDEX, "") if given is None else str(given)
    if not (text.isascii() and text.isdigit()) or int(text) >= len(tasks.tasks):
        raise UsageError(
            f"there is no task {text or 'given'}: the list has tasks 0 to {len(tasks.tasks) - 1}. "
            f"Give --task, or set {INDEX}."
        )
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
