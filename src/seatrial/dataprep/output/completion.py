# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The claim: which task list may put its files into the root of a store.

Files of any list have the same names there, so only one list may write them until a data set has
its record. Its claim is created once, before the first of these files, and goes with the rest of
the work after the record. It is the list's and not a process's: whoever prepares the same list, or
takes it up again after a kill, would write the same bytes.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from seatrial.dataprep.output.dataset import RECORD_FILE, DatasetRecord
from seatrial.dataprep.output.quarantine import QUARANTINE_FILE
from seatrial.dataprep.tasks.frozen import WORK
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.errors import SeatrialError
from seatrial.hashing import canonical_json
from seatrial.storage.state_files import decode, parse_json
from seatrial.storage.store import Store
from seatrial.storage.writer_claims import new_attempt


class OtherDataError(SeatrialError):
    """Where the data should go there are others already."""


def finished_record(store: Store) -> DatasetRecord | None:
    """The record of the data set that is there, if one is."""
    try:
        return DatasetRecord.from_json(store.read(RECORD_FILE))
    except FileNotFoundError:
        return None


def remove_work(store: Store, record: DatasetRecord) -> None:
    """Remove all work, once the data set has its record: nothing of it can be needed any more.

    Work on other lists goes too, with the files that it had put in place: its data set could not
    have its record here. So does a list of bad lines that is not of this data set.
    """
    # Else a loss of power could take the record, or a file's name, and the parts were gone too.
    store.sync()
    paths = [file.path for file in store.list(WORK)]
    kept = {path for file in record.files for path in (file.tokens_file, file.index_file)}
    store.delete(path for path in _put_in_place(store, paths) if path not in kept)
    if record.quarantine_file is None:
        store.delete([QUARANTINE_FILE])
    store.delete(paths)
    store.sweep(WORK, everything=True)
    store.sweep()


def _put_in_place(store: Store, paths: Iterable[str]) -> Iterable[str]:
    """Files in the root that assembling any list has recorded."""
    for path in paths:
        if "/assembled/" in path and path.endswith(".json"):
            try:
                name = parse_json(store.read(path))["name"]
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                continue
            yield f"{name}.bin"
            yield f"{name}.idx"


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
        return decode(Claim, parse_json(store.read(CLAIM_FILE)))
    except (FileNotFoundError, ValueError, TypeError):
        return None
