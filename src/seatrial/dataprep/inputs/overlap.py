# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Sources and output that are in each other's way.

An output below a source is left out when the source is listed. What cannot be is an output that is
the source itself, or a source among the work, which is removed in the end.
"""

import os

from seatrial.dataprep.inputs.selection import InputError
from seatrial.dataprep.stores.addresses import named
from seatrial.dataprep.stores.object_files import KINDS, object_files
from seatrial.dataprep.tasks.frozen import WORK


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
