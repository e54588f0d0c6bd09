# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""List the raw text of a source once and pin it; reading fails if a file has changed since."""

import os
import posixpath
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from pydantic import TypeAdapter, ValidationError

from seatrial.dataprep.inputs.hub import list_hub, open_hub
from seatrial.dataprep.inputs.local import list_local, open_local
from seatrial.dataprep.inputs.objects import list_objects, open_object
from seatrial.dataprep.inputs.selection import InputError, Listed, Listing, select, spread
from seatrial.dataprep.tasks.frozen import WORK
from seatrial.dataprep.tasks.task_list import InputFile, InputFormat
from seatrial.secrets.redaction import looks_secret
from seatrial.spec.addresses import Address
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
            f"{named(address)}: the output location is the same as the input ({named(output)}), so "
            "a second start would read the output as text. "
            "Set data.location (or --to) to a different directory, which can be below this one."
        )


def _place(address: str) -> str:
    """Normalize an address, so that different spellings of one location are equal."""
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
    listing = _listing(source.from_, patience, output)
    if not is_list(listing):
        return select(listing, source)
    entries = list_entries(listing.files[0], patience)
    if source.files is not None:
        raise InputError(
            f"{named(source.from_)}: files ({source.files!r}) applies to a directory, and this "
            "corpus list names its files. Remove files."
        )

    def inputs_of(entry: ListEntry) -> list[InputFile]:
        one = source.model_copy(update={"from_": entry.address, "sample_files": None})
        with _at(entry):
            return select(_listing(entry.address, patience, output), one)

    lines: dict[str, ListEntry] = {}
    found: list[InputFile] = []
    with ThreadPoolExecutor(_LISTERS) as pool:
        for entry, files in zip(entries, pool.map(inputs_of, entries), strict=True):
            for file in files:
                before = lines.setdefault(file.address, entry)
                if before is not entry:
                    raise InputError(
                        f"{entry}: {named(file.address)} is already listed on line {before.line}, "
                        "so its documents would be read twice. Remove one of the two lines."
                    )
            found += files
    return spread(sorted(found, key=lambda file: file.address), source.sample_files)


def list_corpus(address: str) -> Listing:
    """List every file at an address; for a corpus list, the files of all its entries."""
    listing = _listing(address, PATIENCE, None)
    if not is_list(listing):
        return listing
    files: list[Listed] = []
    for entry in list_entries(listing.files[0], PATIENCE):
        with _at(entry):
            below = _listing(entry.address, PATIENCE, None).files
        files += [file._replace(path=file.address) for file in below]
    return Listing(files)


def _listing(address: str, patience: RetryPolicy, output: str | None) -> Listing:
    """List the files at an address that are not below the output."""
    if output is not None and can_overlap(address, output):
        refuse_within(address, output)
    else:
        output = None
    if address.startswith("hf://"):
        return list_hub(address, patience)
    if "://" in address:
        return list_objects(address, patience, output)
    return list_local(address, output)


_LIST_SUFFIX = ".list"
_LONGEST_LIST = 64 << 20
"""Most bytes of a corpus list, about 600,000 lines."""
_LISTERS = 16
"""Entries to list in parallel: in object stores each costs a round trip."""
_ADDRESS: TypeAdapter[str] = TypeAdapter(Address)


class ListEntry(NamedTuple):
    """One line of a corpus list."""

    list_address: str
    line: int
    """Line number, counted from 1."""
    address: str
    """A file or a directory, with the directory of the list prepended if it is relative."""

    def __str__(self) -> str:
        return f"{named(self.list_address)}:{self.line}"


def is_list(listing: Listing) -> bool:
    """True if the address is a corpus list. A list below a directory is not read."""
    return listing.alone and listing.files[0].path.lower().endswith(_LIST_SUFFIX)


def list_entries(file: Listed, patience: RetryPolicy = PATIENCE) -> list[ListEntry]:
    """Return the entries of a corpus list: one per line, without blank lines and comments.

    The spec names the list, so its entries are trusted like the spec: they may be anywhere.
    """
    where = named(file.address)
    if file.size > _LONGEST_LIST:
        raise InputError(
            f"{where}: has {file.size:,} bytes, and a corpus list has at most {_LONGEST_LIST:,}. "
            "List directories instead of files, or use several lists."
        )
    with open_input(InputFile(file.address, file.size, file.version, InputFormat.TEXT)) as stream:
        data = stream.read()
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(
            f"{where}: is not UTF-8 text, and a file that ends in {_LIST_SUFFIX} is a corpus list: "
            "one path or address per line. Rename the file if it is not a list."
        ) from None
    entries = [
        _entry(file.address, number, line.strip())
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not entries:
        raise InputError(
            f"{where}: the corpus list has no entries. Add one path or address per line."
        )
    return entries


def _entry(list_address: str, line: int, text: str) -> ListEntry:
    entry = ListEntry(list_address, line, text)
    if looks_secret(text, "revision"):
        raise InputError(
            f"{entry}: looks like a secret. Remove it: Seatrial reads credentials from the "
            "environment."
        )
    if text.lower().endswith(_LIST_SUFFIX):
        raise InputError(
            f"{entry}: {text} is a corpus list, and a list cannot contain a list. Write its "
            "entries here instead."
        )
    try:
        _ADDRESS.validate_python(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{entry}: {first['msg']} {first['ctx']['fix']}") from None
    if "://" in text or text.startswith("/"):
        return entry
    scheme, separator, rest = list_address.rpartition("://")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(rest), text))
    return entry._replace(address=f"{scheme}{separator}{path}")


@contextmanager
def _at(entry: ListEntry) -> Iterator[None]:
    """Name the line of the list in errors about its entry."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{entry}: {error}") from error


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
