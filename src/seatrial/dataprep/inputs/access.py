# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The raw text of a source: listed once and pinned, then read as what was listed or not at all."""

from typing import BinaryIO

from seatrial.dataprep.inputs.hub import list_hub, open_hub
from seatrial.dataprep.inputs.local import list_local, open_local
from seatrial.dataprep.inputs.objects import list_objects, open_object
from seatrial.dataprep.inputs.overlap import can_overlap, refuse_within
from seatrial.dataprep.inputs.selection import Listing, select
from seatrial.dataprep.stores.patience import PATIENCE, Patience
from seatrial.dataprep.tasks.task_list import InputFile
from seatrial.spec.data import DataSource


def list_inputs(
    source: DataSource, patience: Patience = PATIENCE, *, output: str | None = None
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


def _listing(address: str, patience: Patience, output: str | None) -> Listing:
    if address.startswith("hf://"):
        return list_hub(address, patience)
    if "://" in address:
        return list_objects(address, patience, output)
    return list_local(address, output)


def open_input(file: InputFile, patience: Patience = PATIENCE) -> BinaryIO:
    """The bytes of an input as stored, from the first; seekable.

    Broken connections are taken up where they broke. Raises InputError when the file is not the
    one that was listed: at once, or at the end of reading, at the latest when it is closed.
    """
    if file.address.startswith("hf://"):
        return open_hub(file, patience)
    if "://" in file.address:
        return open_object(file, patience)
    return open_local(file)
