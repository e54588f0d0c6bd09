# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The raw text of a source: listed once and pinned, then read as what was listed or not at all."""

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
    """Whether one of two addresses can be below the other: paths, or objects of one store."""
    return _kind(address) is not None and _kind(address) == _kind(output)


def _kind(address: str) -> object:
    """The kind of store of an address; None when data cannot be written there."""
    scheme, separator, _ = address.partition("://")
    return KINDS.get(scheme) if separator else "path"


def refuse_within(address: str, output: str) -> None:
    """Refuse a source that is the root of the output, or lies in its work."""
    place, root = _place(address), _place(output)
    if place == root or f"{place}/".startswith(f"{root}/{WORK}/"):
        raise InputError(
            f"{named(address)}: the data would go to where they are read from ({named(output)}), "
            "and a second start would take them for text. "
            "Set data.location (or --to) to another directory, which may be below this one."
        )


def _place(address: str) -> str:
    """An address in the form that two ways to write the same place share."""
    return object_files(address).root if "://" in address else os.path.realpath(address)


def list_inputs(
    source: DataSource, patience: RetryPolicy = PATIENCE, *, output: str | None = None
) -> list[InputFile]:
    """The files of a source, with size and version, in order of their addresses.

    What is below `output`, where the data go, is none of them: at a second start, parts and lists
    of the first would be taken for text. Raises InputError when that is all there can be.
    """
    if source.from_ is None:
        raise ValueError("a source that is prepared already has no inputs")
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
    """The bytes of an input as stored, from the first; seekable.

    Broken connections are taken up where they broke. Raises InputError when the file is not the
    one that was listed: at once, or at the end of reading, at the latest when it is closed.
    """
    if file.address.startswith("hf://"):
        return open_hub(file, patience)
    if "://" in file.address:
        return open_object(file, patience)
    return open_local(file)
