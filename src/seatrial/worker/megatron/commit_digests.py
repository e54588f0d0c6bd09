# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Digests of checkpoint shards, computed during the write by the rank that writes them.

A digest therefore covers the intended bytes, not the bytes that a disk returns, and no file is read
again. A background save runs in a separate process; `run_saving_loop` installs hashing there, and
the digests come back with the engine's own results.
"""

import builtins
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from megatron.core.dist_checkpointing.strategies import async_utils
from megatron.core.dist_checkpointing.strategies import filesystem_async as writing
from torch.distributed.checkpoint.api import _wrap_exception
from torch.distributed.checkpoint.filesystem import _StoragePrefix

from seatrial.checkpoints.digesting_file import DigestingFile, Digests
from seatrial.checkpoints.record import ShardFile
from seatrial.errors import SeatrialError

Wrapped = Callable[..., Any]


def opening(digests: Digests) -> Callable[..., Any]:
    """Return the function with which the engine's writer opens files."""

    def opened(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if mode == "wb":
            return DigestingFile(str(path), digests)
        return builtins.open(path, mode, *args, **kwargs)

    return opened


class _Relay:
    """Wraps the result queue and adds a digest to each result."""

    def __init__(self, queue: Any, path: str, digests: Digests) -> None:
        self._queue, self._path, self._digests = queue, path, digests

    def put(self, output: tuple[int, Any]) -> None:
        self._queue.put(_with_digest(output, self._path, self._digests))


def _with_digest(output: tuple[int, Any], path: str, digests: Digests) -> tuple[int, Any]:
    file = digests.take(path)
    if file is not None and isinstance(output[1], list):
        output[1].append(file)
    return output


def writing_with_digest(digests: Digests) -> Callable[[Wrapped], Wrapped]:
    """Wrap the engine's function that writes one file, to add its digest to the results."""

    def wrap(original: Wrapped) -> Wrapped:
        def write_preloaded_data(
            transform_list: Any,
            local_proc_idx: int,
            write_bucket: Any,
            results_queue: Any,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            path = str(write_bucket[0])
            relay = None if results_queue is None else _Relay(results_queue, path, digests)
            output = original(transform_list, local_proc_idx, write_bucket, relay, *args, **kwargs)
            return _with_digest(output, path, digests) if relay is None else output

        return write_preloaded_data

    return wrap


def install_writing() -> None:
    """Make this process hash the checkpoint files that it writes."""
    digests = Digests()
    writer = writing.FileSystemWriterAsync
    wrapped = writing_with_digest(digests)(writer.write_preloaded_data)
    writer.write_preloaded_data = staticmethod(wrapped)
    # The module does not define `open`, so this name shadows the built-in.
    writing.open = opening(digests)


def run_saving_loop(*args: Any, **kwargs: Any) -> None:
    """Run the engine's loop in the background saving process, with hashing."""
    install_writing()
    async_utils.PersistentAsyncCaller.async_loop(*args, **kwargs)


class Written:
    """The files that this rank has written, by checkpoint directory."""

    def __init__(self, incarnation: Callable[[], int], refuse: Callable[[], None]) -> None:
        """Start empty.

        Args:
            incarnation: Returns the number of this start, which is part of file names.
            refuse: Raises an error if a later start has replaced this one.
        """
        self._files: dict[str, list[ShardFile]] = {}
        self._incarnation = incarnation
        self._refuse = refuse

    def take(self, directory: str) -> list[ShardFile]:
        """Remove and return the files of a checkpoint."""
        return self._files.pop(directory, [])

    def naming(self, original: Wrapped) -> Wrapped:
        """Make file names unique per start: an orphan of an earlier start may still be writing."""

        def prepare_write_data(writer: Any, plan: Any, planner: Any) -> Any:
            prefix = f"{plan.storage_data.prefix}i{self._incarnation()}_"
            named = replace(plan, storage_data=_StoragePrefix(prefix))
            return original(writer, named, planner)

        return prepare_write_data

    def collecting(self, original: Wrapped) -> Wrapped:
        """Remove the digests from the results before the engine processes them."""

        def retrieve_write_results(writer: Any) -> Any:
            results = original(writer)
            if not isinstance(results, list):
                return results
            try:
                # The metadata file, written next, has the same name for all starts.
                self._refuse()
            except SeatrialError as error:
                return _wrap_exception(error)
            files = [one for one in results if isinstance(one, ShardFile)]
            self._files.setdefault(str(writer.checkpoint_dir), []).extend(files)
            return [one for one in results if not isinstance(one, ShardFile)]

        return retrieve_write_results
