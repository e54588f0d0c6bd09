# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The commit: a checkpoint is valid from the moment its record exists, and never in part.

First the files are synced to disk, then their list. Last, the start that is still allowed to commit
creates the record exactly once. No directory is renamed for it, because object stores and blobfuse
cannot rename one atomically.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from seatrial.checkpoints.by_engine import format_of, naming_of
from seatrial.checkpoints.naming import (
    METADATA,
    OURS,
    RECORD,
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
from seatrial.storage.visibility import wait_until

_BLOCK = 1 << 20


class CommitError(SeatrialError):
    """A save that cannot be committed. Earlier checkpoints are not affected."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed checkpoint."""

    record: Record
    path: Path


def make_room(place: LocalPlace, name: str, incarnation: int) -> Path | None:
    """Prepare a step's directory. Return the new path of a checkpoint that was set aside.

    Deletes what interrupted saves of earlier starts left: they cannot commit it any more, and it
    could fill the disk.

    A step is saved again only if the run went back before it: its checkpoint was damaged, or the
    user chose an older one to resume from. The old checkpoint is kept until `seatrial checkpoints
    prune`.
    """
    refuse_stale(place, incarnation)
    directory = Path(place.address, name)
    if not os.path.lexists(directory / RECORD):
        _remove_earlier(directory, incarnation)
        return None
    aside = directory.with_name(set_aside_name(directory.name, incarnation))
    os.rename(directory, aside)
    return aside


def commit(
    place: LocalPlace, files: Iterable[ShardFile], record: Record, patience: float = 0.0
) -> Committed:
    """Commit the files in a step's directory.

    Args:
        place: The location of the run's checkpoints.
        files: The checkpoint shards, as written by the ranks. The list of tensors and the
            engine's format file are read and added here.
        record: The record without its list of files.
        patience: Seconds after which the files of other nodes are visible here.
    """
    refuse_stale(place, record.incarnation)
    naming = naming_of(record.setup)
    directory = Path(place.address, naming.directory_name(record.step))
    every = sorted(files, key=lambda file: file.name)
    named = {file.name for file in every}
    if format_of(record.setup).has_tensor_list:
        small = [METADATA]
        if naming.format_file and (directory / naming.format_file).exists():
            small.append(naming.format_file)
        every += [read_back(directory / name) for name in small if name not in named]
    # One limit for all files: each of them is complete on the node that wrote it.
    wait_until(lambda: not any(_trouble(directory, file) for file in every), patience)
    _refuse_incomplete(directory, every)
    _refuse_unlisted(directory, {file.name for file in every} - {naming.format_file})
    list_name = shard_list_name(record.incarnation)
    with place.store.open_writer(f"{directory.name}/{list_name}") as stream:
        listed = write_list(every, stream)
    _sync(directory)
    _sync(directory.parent)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    whole = replace(record, shards=listed, saved_at=now)
    # As late as possible: no slow operation comes between this check and the record.
    refuse_stale(place, record.incarnation)
    if not place.store.create(f"{directory.name}/{RECORD}", whole.to_bytes()):
        raise CommitError(
            f"{directory}: another process has committed this step. Check if the run was started "
            "twice."
        )
    _sync(directory)
    _remove_left_behind(directory, {list_name, *(file.name for file in every)})
    return Committed(whole, directory)


def write_tracker(place: LocalPlace, name: str, text: str) -> None:
    """Replace the engine's tracker atomically: readers see the old or the new one."""
    place.replace(name, text.encode())
    _sync(Path(place.address))


def read_back(path: Path, patience: float = 0.0) -> ShardFile:
    """Sync and hash a file of the engine, which may be visible here only after a time."""
    wait_until(path.exists, patience)
    hasher, size = hashlib.sha256(), 0
    try:
        with path.open("rb+") as stream:
            while block := stream.read(_BLOCK):
                hasher.update(block)
                size += len(block)
            os.fsync(stream.fileno())
    except OSError as error:
        raise CommitError(f"{path}: {error.strerror}. The save is incomplete.") from error
    return ShardFile(path.name, size, hasher.hexdigest())


def saved_names(directory: Path, patience: float) -> list[str]:
    """Return the names of a save's files, once those of other nodes are visible here."""
    names: list[str] = []

    def is_whole() -> bool:
        names[:] = sorted(os.listdir(directory))
        return METADATA not in names or _pointed(directory) <= set(names)

    wait_until(is_whole, patience)
    return names


def _refuse_incomplete(directory: Path, files: list[ShardFile]) -> None:
    """Reject a save if a file is missing or has a wrong size."""
    for file in files:
        trouble = _trouble(directory, file)
        if trouble:
            raise CommitError(f"{directory / file.name}: {trouble}")


def _trouble(directory: Path, file: ShardFile) -> str:
    """Explain why a file is not complete; empty if it is."""
    try:
        size = (directory / file.name).stat().st_size
    except OSError as error:
        return f"{error.strerror}."
    if size == file.size:
        return ""
    return (
        f"the file has {size:,} bytes, but {file.size:,} were written. Check the disk, and what "
        "else writes there."
    )


def _refuse_unlisted(directory: Path, listed: set[str]) -> None:
    """Reject a save whose list of tensors references a file without a digest.

    It could never be verified, and files without a digest are deleted after the record is written.
    An engine that writes in an unknown way must fail at its first save, not at the first restart.
    """
    if METADATA not in listed:
        # A format of whole files, without a list of tensors.
        return
    path, pointed = directory / METADATA, _pointed(directory)
    lacking = sorted(pointed - (listed - {METADATA}))
    if lacking:
        raise CommitError(
            f"{path}: {len(lacking):,} of {len(pointed):,} checkpoint shards (for example, "
            f"{lacking[0]!r}) have no digest from the rank that wrote them. The save is not "
            "committed. Use the engine version that Seatrial supports, without options that change "
            "how it writes checkpoints."
        )


def _pointed(directory: Path) -> set[str]:
    """Return the files that a save's list of tensors references."""
    path = directory / METADATA
    try:
        return {item.file for item in stored_items(path.read_bytes())}
    except (OSError, UnsafeFileError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise CommitError(
            f"{path}: cannot read the engine's list of tensors: {said}. The save is not committed."
        ) from error


def _remove_left_behind(directory: Path, kept: set[str]) -> None:
    """Delete what an interrupted save of this step left."""
    for entry in list(os.scandir(directory)):
        if is_left_behind(entry.name) and entry.name not in kept | OURS:
            Path(entry.path).unlink(missing_ok=True)


def _remove_earlier(directory: Path, incarnation: int) -> None:
    """Delete the shards and lists of earlier starts, identified by their names."""
    if not directory.is_dir():
        return
    for entry in list(os.scandir(directory)):
        written_by = incarnation_of(entry.name)
        if written_by is not None and written_by < incarnation:
            Path(entry.path).unlink(missing_ok=True)


def _sync(directory: Path) -> None:
    """Sync the entries of a directory to disk, if the file system supports it.

    Network shares and FUSE mounts often do not, and report that. On a disk, a failure means data
    loss.
    """
    try:
        sync_directory(directory)
    except OSError as error:
        raise CommitError(
            f"{directory}: {error.strerror}. The save may not be on the disk: check the disk. "
            "The next start resumes from the newest good checkpoint."
        ) from error
