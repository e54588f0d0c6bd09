# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs in an object store."""

from typing import Any, BinaryIO

from seatrial.dataprep.inputs.local import changed
from seatrial.dataprep.inputs.selection import InputError, Listed, Listing
from seatrial.dataprep.tasks.task_list import InputFile
from seatrial.storage.object_reader import open_range_reader
from seatrial.storage.providers import ObjectFiles, object_files
from seatrial.storage.retries import PATIENCE, RetryPolicy
from seatrial.storage.store import named


def list_objects(
    address: str, patience: RetryPolicy = PATIENCE, output: str | None = None
) -> Listing:
    """List the object at an address, or every object below it that is not below the output."""
    place = object_files(address, patience)
    foreign = f"{object_files(output, patience).root}/" if output else None

    def find() -> dict[str, dict[str, Any]]:
        # Directories exist only as prefixes, and an object may have the same name.
        found: dict[str, dict[str, Any]] | list[str] = place.files.find(place.root, detail=True)
        return found if isinstance(found, dict) else {}

    try:
        found = place.call("", find)
        below = [
            Listed(name[len(place.root) + 1 :], "", int(info["size"]), place.version(info))
            for name, info in found.items()
            if info["type"] == "file"
            and name.startswith(f"{place.root}/")
            and not name.endswith("/")
            and not (foreign and name.startswith(foreign))
        ]
        if below:
            return Listing(
                [file._replace(address=f"{place.address}/{file.path}") for file in below]
            )
        info = place.info("")
    except FileNotFoundError as error:
        raise _absent(place) from error
    if info["type"] != "file":
        raise _absent(place)
    name = place.address.rpartition("/")[2]
    return Listing(
        [Listed(name, place.address, int(info["size"]), place.version(info))], alone=True
    )


def _absent(place: ObjectFiles) -> InputError:
    fix = "Check the bucket or container, the path and the account."
    if any(mark in place.address for mark in "*?["):
        fix = "Move the glob to files, and set from to the address before it."
    return InputError(f"{named(place.address)}: no object in {place.kind.name}. {fix}")


def open_object(file: InputFile, patience: RetryPolicy = PATIENCE) -> BinaryIO:
    """Open an object; reading fails if it is not the one that was listed."""
    place = object_files(file.address, patience)

    def verify() -> None:
        try:
            info = place.info("")
        except FileNotFoundError as error:
            raise InputError(
                f"{named(file.address)}: deleted since the inputs were listed. Restore it, or "
                "prepare the data from scratch."
            ) from error
        now = (int(info["size"] or 0), place.version(info))
        if now != (file.size, file.version):
            before = f"{file.size:,} bytes, version {file.version}"
            raise changed(named(file.address), before, f"{now[0]:,} bytes, version {now[1]}")

    verify()
    return open_range_reader(place, "", file.size, verify=verify)
