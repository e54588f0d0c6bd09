# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Copy a checkpoint to or from an object store, or between disks.

Every file is hashed during the copy and compared with the record. The copy becomes valid when its
record is written, which happens last; if verification of the copy fails, the record is deleted.
Files that already exist at the target and are correct are skipped.
"""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from seatrial.checkpoints.inventory import look
from seatrial.checkpoints.naming import RECORD, shard_list_name
from seatrial.checkpoints.record import Record, ShardFile, ShardListError, read_list
from seatrial.checkpoints.resumable_verification import verify_noting
from seatrial.checkpoints.verification import RESTORE, read_record, unreadable
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import Finding, has_errors
from seatrial.storage.location import Location

THREADS = 4
"""Number of parallel transfers."""
_BLOCK = 8 << 20

Tell = Callable[[int, int], None]
"""Progress callback: the number of files and bytes done."""


def copy(source: Location, directory: str, target: Location, tell: Tell | None = None) -> Record:
    """Copy a checkpoint and verify the copy.

    Raises FindingsError if the checkpoint or the copy is damaged.
    """
    record, findings = read_record(source, directory)
    if record is None:
        raise FindingsError([*findings, *_not_good(source, directory)])
    _refuse_other(target, directory, record)
    done, size = 0, 0
    with ThreadPoolExecutor(THREADS) as pool:
        waiting = _listed(source, directory, record)
        while some := list(islice(waiting, THREADS * 4)):
            sent = pool.map(lambda file: _send(source, directory, target, file), some)
            for file, wrong in zip(some, sent, strict=True):
                if wrong is not None:
                    raise FindingsError([wrong])
                done, size = done + 1, size + file.size
                if tell is not None:
                    tell(done, size)
    name = shard_list_name(record.incarnation)
    target.replace(f"{directory}/{name}", source.store.read(f"{directory}/{name}"))
    target.store.create(f"{directory}/{RECORD}", record.to_bytes())
    read_back = verify_noting(target, look(target, directory), again=True)
    if has_errors(read_back):
        target.store.delete([f"{directory}/{RECORD}"])
        raise FindingsError(read_back)
    return record


def _listed(source: Location, directory: str, record: Record) -> Iterator[ShardFile]:
    """Yield the files of a checkpoint, after comparing the whole list with the record."""
    path = f"{directory}/{shard_list_name(record.incarnation)}"
    try:
        for last in (False, True):
            with source.open(path) as stream:
                for file in read_list(stream, record.shards):
                    if last:
                        yield file
    except (ShardListError, FileNotFoundError) as error:
        rule = f"the shard list is damaged: {error}."
        where = f"{source.address}/{path}"
        raise FindingsError([found(CheckpointCode.SHARD_LIST, where, rule, RESTORE)]) from error
    except OSError as error:
        raise FindingsError([unreadable(f"{source.address}/{path}", error)]) from error


def _refuse_other(target: Location, directory: str, record: Record) -> None:
    """Refuse to overwrite a different checkpoint for the same step."""
    there = look(target, directory)
    if there.record is not None and there.record.identity != record.identity:
        raise UsageError(
            f"{target.address}/{directory} contains a different checkpoint for this step. Copy to "
            "a different location, or delete that checkpoint first."
        )


def _send(source: Location, directory: str, target: Location, file: ShardFile) -> Finding | None:
    """Copy one file unless the target already has it. Return a finding if the source is bad."""
    path = f"{directory}/{file.name}"
    if _is_right(target, path, file):
        return None
    hasher = hashlib.sha256()
    try:
        with source.open(path) as stream, target.store.open_writer(path) as sink:
            while block := stream.read(_BLOCK):
                hasher.update(block)
                sink.write(block)
            if hasher.hexdigest() != file.sha256:
                # Raising here leaves no file at the target.
                raise ValueError("damaged")
    except FileNotFoundError:
        where = f"{source.address}/{path}"
        return found(CheckpointCode.MISSING, where, "the file does not exist.", RESTORE)
    except ValueError:
        rule = "the content has changed since the save: its SHA-256 differs."
        where = f"{source.address}/{path}"
        return found(CheckpointCode.DIGEST, where, rule, RESTORE, hasher.hexdigest())
    except OSError as error:
        # A failed write to the target is a StoreError.
        return unreadable(f"{source.address}/{path}", error)
    return None


def _is_right(place: Location, path: str, file: ShardFile) -> bool:
    """True if the correct file already exists. An unreadable file is copied again."""
    hasher = hashlib.sha256()
    try:
        if place.size(path) != file.size:
            return False
        with place.open(path) as stream:
            while block := stream.read(_BLOCK):
                hasher.update(block)
    except OSError:
        return False
    return hasher.hexdigest() == file.sha256


def _not_good(source: Location, directory: str) -> list[Finding]:
    where = f"{source.address}/{directory}"
    rule, fix = (
        "only a committed checkpoint can be copied.",
        "Use seatrial checkpoints list to find a committed checkpoint.",
    )
    return [found(CheckpointCode.NONE_GOOD, where, rule, fix)]
