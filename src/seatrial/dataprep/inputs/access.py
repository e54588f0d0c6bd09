# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""List the raw text of a source once and pin it; reading fails if a file has changed since."""

import os
from typing import BinaryIO

from seatrial.dataprep.inputs.hub import list_hub, open_hub
from seatrial.dataprep.inputs.local import list_local, open_local
from seatrial.dataprep.inputs.objects import list_objects, open_object
from seatrial.dataprep.inputs.selection import InputError, Listing, select
from seatrial.dataprep.tasks.frozen import WORK
from seatrial.dataprep.tasks.task_list import InputFile
from seatrial.spec.data import DataSource
from seatrial.storage.providers import KINDS, object_files
from seatrial.storage.retries import PATIENCE, RetryPolicy
from seatrial.storage.store import named


def can_overlap(address: str, output: str) -> bool:
    """True if one address can be below the other: both are paths, or objects of one store."""
    return _kind(address) is not None and _kind(address) == _kind(output)


def _kind(address: str) -> object:
    """Return the kind of store of an address; None if data cannot be written there."""
    scheme, separator, _ = address.partition("://")
    return KINDS.get(scheme) if separator else "path"


def refuse_within(address: str, output: str) -> None:
    """Reject a source that is the root of the output or in its work directory."""
    place, root = _place(address), _place(output)
    if place == root or f"{place}/".startswith(f"{root}/{WORK}/"):
        raise InputError(
            f"{named(address)}: the output goes to the same place as the input ({named(output)}), "
            "so a second start would read it as text. "
            "Set data.location (or --to) to another directory, which may be below this one."
        )


def _place(address: str) -> str:
    """Normalize an address, so that different spellings of one place are equal."""
    return object_files(address).root if "://" in address else os.path.realpath(address)


def list_inputs(
    source: DataSource, patience: RetryPolicy = PATIENCE, *, output: str | None = None
) -> list[InputFile]:
    """List the files of a source with size and version, sorted by address.

    Skips everything below `output`: a second start would otherwise read the parts and lists of the
    first as text. Raises InputError if the source is the output itself.
    """
    if source.from_ is None:
        raise ValueError("a prepared source has no inputs")
    if output is not None and can_overlap(source.from_, output):
        refuse_within(source.from_, output)
        return select(_listing(source.from_, patience, output), source)
    return select(_listing(source.from_, patience, None), source)


def _listing(address: str, patience: RetryPolicy, output: str | None) -> Listing:
    if address.startswith("hf://"):
        return list_hub(address, patience)
    if "://" in address:
        return list_objects(address, patience, output)
    return list_local(address, output)


def open_input(file: InputFile, patience: RetryPolicy = PATIENCE) -> BinaryIO:
    """Open the stored bytes of an input as a seekable stream.

    Resumes broken connections at the same byte. Raises InputError if the file is not the one that
    was listed: on opening, while reading, or at the latest on closing.
    """
    if file.address.startswith("hf://"):
        return open_hub(file, patience)
    if "://" in file.address:
        return open_object(file, patience)
    return open_local(file)
