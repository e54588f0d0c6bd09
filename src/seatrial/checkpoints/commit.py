# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The commit: a checkpoint counts from the moment its record exists, and never in part.

The files are on the disk before; then their list; then, created once and by the start that may
still do so, the record. Directories are never renamed for it: object stores and blobfuse cannot do
that at once.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from seatrial.checkpoints.by_engine import format_of
from seatrial.checkpoints.naming import (
    FORMAT_FILE,
    METADATA,
    OURS,
    RECORD,
    TRACKER,
    directory_name,
    incarnation_of,
    is_left_behind,
    set_aside_name,
    shard_list_name,
)
from seatrial.checkpoints.pickle_rules import UnsafeFileError
from seatrial.checkpoints.record import Record, ShardFile, write_list
from seatrial.checkpoints.starts import refuse_stale
from seatrial.checkpoints.stored_tensors import stored_items
from seatrial.errors import SeatrialError
from seatrial.storage.location import LocalPlace
from seatrial.storage.state_files import sync_directory

_BLOCK = 1 << 20


class CommitError(SeatrialError):
    """A save that cannot be made to count; what was saved before stays as it is."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A checkpoint that counts now."""

    record: Record
    path: Path


def make_room(place: LocalPlace, step: int, incarnation: int, name: str = "") -> Path | None:
    """Have a fresh directory for a step; what was committed there before is set aside, and named.

    What earlier starts left of a save that was cut short goes: a disk that it fills would else
    stay full, and those starts cannot commit it any more.

    Only a run that went back behind a checkpoint saves its step again: the old one was damaged, or
    somebody chose an older one to go on from. It is kept until `seatrial checkpoints prune`. The
    directory has Megatron's name where none is given.
    """
    refuse_stale(place, incarnation)
    directory = Path(place.address, name or directory_name(step))
    if not os.path.lexists(directory / RECORD):
        _remove_earlier(directory, incarnation)
        return None
    aside = directory.with_name(set_aside_name(directory.name, incarnation))
    os.rename(directory, aside)
    return aside


def commit(
    place: LocalPlace, files: Iterable[ShardFile], record: Record, name: str = ""
) -> Committed:
    """Make the files of a step's directory count.

    Args:
        place: Where the run's checkpoints are.
        files: The checkpoint shards, as their ranks wrote them. The engine's two small files are
            read and added here.
        record: The record without its list of files.
        name: The directory, where the engine is not Megatron.
    """
    refuse_stale(place, record.incarnation)
    directory = Path(place.address, name or directory_name(record.step))
    shards = sorted(files, key=lambda file: file.name)
    named = {file.name for file in shards}
    small: list[ShardFile | None] = []
    if format_of(record.setup).has_tensor_list:
        missing = [file for file in (METADATA, FORMAT_FILE) if file not in named]
        small = [read_back(directory / file) for file in missing]
    every = [*shards, *filter(None, small)]
    _refuse_incomplete(directory, every)
    _refuse_unlisted(directory, {file.name for file in every})
    list_name = shard_list_name(record.incarnation)
    with place.store.open_writer(f"{directory.name}/{list_name}") as stream:
        listed = write_list(every, stream)
    _sync(directory)
    _sync(directory.parent)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    whole = replace(record, shards=listed, saved_at=now)
    # As late as possible: between this look and the record there is nothing that takes time.
    refuse_stale(place, record.incarnation)
    if not place.store.create(f"{directory.name}/{RECORD}", whole.to_bytes()):
        raise CommitError(
            f"{directory}: another process has committed this step. Look whether the run was "
            "started twice."
        )
    _sync(directory)
    _remove_left_behind(directory, {list_name, *(file.name for file in every)})
    return Committed(whole, directory)


def write_tracker(place: LocalPlace, text: str) -> None:
    """Replace the engine's tracker whole: a reader sees the old one or the new one."""
    place.replace(TRACKER, text.encode())
    _sync(Path(place.address))


def read_back(path: Path) -> ShardFile | None:
    """A file of the engine's, on the disk and hashed; none where its format has none."""
    if path.name == FORMAT_FILE and not path.exists():
        return None
    hasher, size = hashlib.sha256(), 0
    try:
        with path.open("rb+") as stream:
            while block := stream.read(_BLOCK):
                hasher.update(block)
                size += len(block)
            os.fsync(stream.fileno())
    except OSError as error:
        raise CommitError(f"{path}: {error.strerror}. The save is not complete.") from error
    return ShardFile(path.name, size, hasher.hexdigest())


def _refuse_incomplete(directory: Path, files: list[ShardFile]) -> None:
    """Refuse a save of which a file is not there, or is not as long as was written."""
    for file in files:
        try:
            size = (directory / file.name).stat().st_size
        except OSError as error:
            raise CommitError(f"{directory / file.name}: {error.strerror}.") from error
        if size != file.size:
            raise CommitError(
                f"{directory / file.name}: {size:,} bytes are there, and {file.size:,} were "
                "written. Check the disk and who else writes there."
            )


def _refuse_unlisted(directory: Path, listed: set[str]) -> None:
    """Refuse a save whose list of tensors points at a file that no rank has a digest of.

    It could never be verified, and what has no digest is removed after the record: an engine that
    writes in a way that nobody here knows must fail at its first save, not at the first restart.
    """
    if METADATA not in listed:
        # A format of whole files: there is no list that could point anywhere.
        return
    path = directory / METADATA
    try:
        pointed = {item.file for item in stored_items(path.read_bytes())}
    except (OSError, UnsafeFileError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise CommitError(
            f"{path}: the engine's list of tensors cannot be read: {said}. The save does not count."
        ) from error
    lacking = sorted(pointed - (listed - {METADATA, FORMAT_FILE}))
    if lacking:
        raise CommitError(
            f"{path}: {len(lacking):,} of {len(pointed):,} checkpoint shards have no digest of the "
            f"rank that wrote them, {lacking[0]!r} among them. The save does not count. Use the "
            "version of the engine that Seatrial was made for, without options of its writing."
        )


def _remove_left_behind(directory: Path, kept: set[str]) -> None:
    """Remove what a save of this step that was cut short had left."""
    for entry in list(os.scandir(directory)):
        if is_left_behind(entry.name) and entry.name not in kept | OURS:
            Path(entry.path).unlink(missing_ok=True)


def _remove_earlier(directory: Path, incarnation: int) -> None:
    """Remove the checkpoint shards of earlier starts, and their lists; their names tell which."""
    if not directory.is_dir():
        return
    for entry in list(os.scandir(directory)):
        written_by = incarnation_of(entry.name)
        if written_by is not None and written_by < incarnation:
            Path(entry.path).unlink(missing_ok=True)


def _sync(directory: Path) -> None:
    """Have the names in a directory on the disk, where its file system can do that.

    Shares and FUSE mounts often cannot, and say so. A disk that fails at it has lost something.
    """
    try:
        sync_directory(directory)
    except OSError as error:
        raise CommitError(
            f"{directory}: {error.strerror}. What was saved may not be on the disk: check it. "
            "The next start goes on from the newest checkpoint that is good."
        ) from error
