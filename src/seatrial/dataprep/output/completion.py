# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The claim: the task list that may write its files to the root of a store.

Files of all lists have the same names there, so only one list may write them until a data set has
its record. The claim is created before the first of these files, and is deleted with the rest of
the work after the record is written. It belongs to the list, not to a process: any process that
prepares the same list, or resumes it after a kill, writes the same bytes.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from seatrial.dataprep.output.dataset import DatasetRecord
from seatrial.dataprep.output.quarantine import QUARANTINE_FILE
from seatrial.dataprep.output.tokenizer_copy import COPY
from seatrial.dataprep.tasks.frozen import WORK
from seatrial.dataprep.tasks.records import RECORD_FILE
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.errors import SeatrialError
from seatrial.hashing import canonical_json
from seatrial.storage.state_files import decode, parse_json
from seatrial.storage.store import Store
from seatrial.storage.writer_claims import new_attempt


class OtherDataError(SeatrialError):
    """The output location already contains different data."""


def finished_record(store: Store) -> DatasetRecord | None:
    """Return the record of the data set, or None if it is not complete."""
    try:
        return DatasetRecord.from_json(store.read(RECORD_FILE))
    except FileNotFoundError:
        return None


def remove_work(store: Store, record: DatasetRecord) -> None:
    """Delete all work after the data set has its record.

    This includes work on other lists and the files they have put in place, because their data set
    cannot get a record here, and a list of bad lines that does not belong to this data set.
    """
    # Otherwise a power loss could lose the record or a rename after the parts are deleted.
    store.sync()
    paths = [file.path for file in store.list(WORK)]
    kept = {path for file in record.files for path in (file.tokens_file, file.index_file)}
    store.delete(path for path in _put_in_place(store, paths) if path not in kept)
    if record.quarantine_file is None:
        store.delete([QUARANTINE_FILE])
    store.delete(paths)
    store.sweep(WORK, everything=True)
    store.sweep(COPY, everything=True)
    store.sweep()


def _put_in_place(store: Store, paths: Iterable[str]) -> Iterable[str]:
    """Yield the files in the root that the assembly of any list has recorded."""
    for path in paths:
        if "/assembled/" in path and path.endswith(".json"):
            try:
                name = parse_json(store.read(path))["name"]
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                continue
            yield f"{name}.bin"
            yield f"{name}.idx"


CLAIM_FILE = f"{WORK}/claim.json"
"""Path of the claim below the root of the output."""
_TRIES = 3
"""Attempts to create or read the claim if others delete it in between."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write files to the root."""

    list_digest: str
    """Digest of the frozen list."""
    attempt: str
    """The attempt that made the claim; distinguishes a claim that was deleted and made again."""
    is_new: bool = False
    """True if it was just created, so that a different list may have written there before."""

    def to_json(self) -> bytes:
        """Return the claim as it is stored."""
        data = asdict(self)
        del data["is_new"]
        return canonical_json(data).encode()


def take_claim(store: Store, tasks: TaskList) -> Claim:
    """Claim the root for a list, or join an existing claim for the same list.

    Raises:
        OtherDataError: The root is claimed for a different list, or contains a finished data set.
    """
    own = Claim(tasks.digest, new_attempt(), is_new=True)
    for _ in range(_TRIES):
        if store.create(CLAIM_FILE, own.to_json()):
            if finished_record(store) is not None:
                # The claim was free only because the list that held it is finished.
                store.delete([CLAIM_FILE])
                raise OtherDataError(f"{store.address} now contains a different data set.")
            return own
        there = _holder(store)
        if there is not None and there.list_digest == tasks.digest:
            return there
        if there is not None:
            break
    raise OtherDataError(
        f"{store.address} is in use by a preparation with different settings or inputs. Wait for "
        "it to finish, or set data.location (or --to) to a different directory. If it was stopped "
        f"and will not continue, delete {store.address}/{CLAIM_FILE} and rerun this command: the "
        "finished tasks of this preparation are kept."
    )


def is_held(store: Store, claim: Claim) -> bool:
    """True if the root still has this claim."""
    there = _holder(store)
    return there is not None and there.to_json() == claim.to_json()


def _holder(store: Store) -> Claim | None:
    """Return the current claim; None if there is none, or only an empty file after a kill."""
    try:
        return decode(Claim, parse_json(store.read(CLAIM_FILE)))
    except (FileNotFoundError, ValueError, TypeError):
        return None
