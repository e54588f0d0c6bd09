# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The claim: which task list may put its files into the root of a store.

Files of any list have the same names there, so only one list may write them until a data set has
its record. Its claim is created once, before the first of these files, and goes with the rest of
the work after the record. It is the list's and not a process's: whoever prepares the same list, or
takes it up again after a kill, would write the same bytes.
"""

import json
from dataclasses import asdict, dataclass

from seatrial.dataprep.output.finished import OtherDataError, finished_record
from seatrial.dataprep.stores.attempts import new_attempt
from seatrial.dataprep.stores.store import Store
from seatrial.dataprep.tasks.frozen import WORK
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.hashing import canonical_json

CLAIM_FILE = f"{WORK}/claim.json"
"""Where the claim lies below the root of the output."""
_TRIES = 3
"""How often a claim may vanish between not being created and being read."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Who may put files into the root."""

    list_digest: str
    """Digest of the frozen list."""
    attempt: str
    """The attempt that made the claim: one that was removed and made again is another."""
    is_new: bool = False
    """Whether it was made just now, so that another list may have written there before."""

    def to_json(self) -> bytes:
        """The claim as it is stored."""
        data = asdict(self)
        del data["is_new"]
        return canonical_json(data).encode()


def take_claim(store: Store, tasks: TaskList) -> Claim:
    """Claim the root for a list, or join those who have claimed it for the same list.

    Raises:
        OtherDataError: The root is claimed for another list, or a data set has its record there.
    """
    own = Claim(tasks.digest, new_attempt(), is_new=True)
    for _ in range(_TRIES):
        if store.create(CLAIM_FILE, own.to_json()):
            if finished_record(store) is not None:
                # The list that had the claim before is finished, and only so the claim was free.
                store.delete([CLAIM_FILE])
                raise OtherDataError(f"{store.address} has got another data set meanwhile.")
            return own
        there = _holder(store)
        if there is not None and there.list_digest == tasks.digest:
            return there
        if there is not None:
            break
    raise OtherDataError(
        f"{store.address} is being filled by a preparation with other settings or inputs. Wait "
        "until it has ended, or give data.location (or --to) another directory. If it was stopped "
        f"and is not to go on, remove {store.address}/{CLAIM_FILE} and start again: what this one "
        "has finished is kept."
    )


def is_held(store: Store, claim: Claim) -> bool:
    """Whether the root is claimed as it was."""
    there = _holder(store)
    return there is not None and there.to_json() == claim.to_json()


def _holder(store: Store) -> Claim | None:
    """The claim that is there; None when there is none, or an empty file of who was killed."""
    try:
        return Claim(**json.loads(store.read(CLAIM_FILE)))
    except (FileNotFoundError, ValueError, TypeError):
        return None
