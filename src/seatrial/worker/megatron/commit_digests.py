# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Digests of checkpoint shards, made by the rank that writes them, while it writes them.

So a digest is of the bytes that were meant, not of what a disk gives back, and no file is read
again for it. A save beside the training is written in a process of its own; there the same is
installed (`run_saving_loop`), and the digests come back with the engine's own results.
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
    """What the engine's writer opens files with."""

    def opened(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if mode == "wb":
            return DigestingFile(str(path), digests)
        return builtins.open(path, mode, *args, **kwargs)

    return opened


class _Relay:
    """Stands before the queue of results and adds the digest to what goes through."""

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
    """The engine's function that writes one file, with its digest among the results."""

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
    """Let this process hash what it writes of checkpoints."""
    digests = Digests()
    writer = writing.FileSystemWriterAsync
    wrapped = writing_with_digest(digests)(writer.write_preloaded_data)
    writer.write_preloaded_data = staticmethod(wrapped)
    # The module has no name `open` of its own: this one comes before the built-in.
    writing.open = opening(digests)


def run_saving_loop(*args: Any, **kwargs: Any) -> None:
    """The engine's loop of the process that saves beside the training, which hashes too."""
    install_writing()
    async_utils.PersistentAsyncCaller.async_loop(*args, **kwargs)


class Written:
    """What this rank has written, by the directory of the checkpoint."""

    def __init__(self, incarnation: Callable[[], int], refuse: Callable[[], None]) -> None:
        """Begin without any.

        Args:
            incarnation: The number of this start, which the names of files carry.
            refuse: Raises where this start has been replaced.
        """
        self._files: dict[str, list[ShardFile]] = {}
        self._incarnation = incarnation
        self._refuse = refuse

    def take(self, directory: str) -> list[ShardFile]:
        """The files of a checkpoint, once."""
        return self._files.pop(directory, [])

    def naming(self, original: Wrapped) -> Wrapped:
        """Let no two starts write the same file: an orphan may still be at it."""

        def prepare_write_data(writer: Any, plan: Any, planner: Any) -> Any:
            prefix = f"{plan.storage_data.prefix}i{self._incarnation()}_"
            named = replace(plan, storage_data=_StoragePrefix(prefix))
            return original(writer, named, planner)

        return prepare_write_data

    def collecting(self, original: Wrapped) -> Wrapped:
        """Take the digests out of the results before the engine looks at them."""

        def retrieve_write_results(writer: Any) -> Any:
            results = original(writer)
            if not isinstance(results, list):
                return results
            try:
                # The list of tensors, which comes next, has one name for all starts.
                self._refuse()
            except SeatrialError as error:
                return _wrap_exception(error)
            files = [one for one in results if isinstance(one, ShardFile)]
            self._files.setdefault(str(writer.checkpoint_dir), []).extend(files)
            return [one for one in results if not isinstance(one, ShardFile)]

        return retrieve_write_results
