# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The first step of a preparation on its own: for those who place the tasks themselves."""

from dataclasses import dataclass

from seatrial.dataprep.output.finished import finished_record
from seatrial.dataprep.prepare import list_tasks
from seatrial.dataprep.stores.access import store_at
from seatrial.dataprep.tasks.frozen import freeze_into, load_records
from seatrial.dataprep.tasks.records import tasks_file
from seatrial.dataprep.tasks.task_list import thaw
from seatrial.dataprep.tokenizers.choice import chosen_backend
from seatrial.errors import UsageError
from seatrial.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class FrozenList:
    """A task list that is ready to be worked on."""

    address: str
    """The file `tasks.jsonl`, for `--list` of whoever does a task."""
    tasks: int
    """How many tasks it has; their numbers begin with 0."""
    done: int
    """How many of them have their record already."""
    backend: str
    """The tokenizer backend that has proved exact."""


def freeze_list(plan: Plan, to: str | None = None) -> FrozenList:
    """List the inputs of a plan, freeze them into tasks, choose the tokenizer, and do no task.

    Args:
        plan: The plan.
        to: Where the data go, when not to where the run will look for them.
    """
    store = store_at(to or plan.data_location)
    frozen, tokenizer = list_tasks(plan)
    if finished_record(store) is not None:
        raise UsageError(
            f"{store.address} holds a data set already, so there are no tasks to do. Verify it "
            "with: seatrial data verify; or give data.location (or --to) another directory."
        )
    tasks = freeze_into(store, frozen, tokenizer)
    done = load_records(store, thaw(frozen))
    return FrozenList(
        f"{store.address}/{tasks_file(tasks.name)}",
        len(tasks.tasks),
        len(done),
        chosen_backend(store, tasks),
    )
