# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Multipart uploads: the object appears when the upload is complete."""

import importlib
from collections.abc import Awaitable, Buffer, Callable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from seatrial.storage.providers import AZURE, ObjectFiles
from seatrial.storage.retries import RetryPolicy
from seatrial.storage.writer import Sink

BLOCK = 8 << 20
"""Initial part size in bytes."""
_SHARE = 1000
"""A part has at least 1/1000 of the bytes before it, so S3's limit of 10,000 parts allows 5 TB."""


def upload(place: ObjectFiles, path: str) -> Sink:
    """Start the upload of a new object."""
    return _AzureSink(place, path) if place.kind is AZURE else _FileSink(place, path)


def _block_size(written: int) -> int:
    """Return the size of the next part, a multiple of 256 KiB as Google Storage requires."""
    return max(BLOCK, written // _SHARE // BLOCK * BLOCK)


class _FileSink(Sink):
    """An upload through an fsspec file, whose library retries requests itself."""

    def __init__(self, place: ObjectFiles, path: str) -> None:
        # Retrying a whole call would add its last part twice.
        self._place = replace(place, patience=RetryPolicy(tries=1))
        self._path = path
        self._written = 0
        self._file: Any = place.call(
            path, lambda: place.files.open(place.full(path), "wb", block_size=BLOCK)
        )

    def write(self, data: Buffer) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), BLOCK):
            write = partial(self._file.write, view[start : start + BLOCK])
            self._place.call(self._path, write)
        self._written += len(view)
        self._file.blocksize = _block_size(self._written)
        return len(view)

    def commit(self) -> None:
        self._place.call(self._path, self._file.close)

    def abort(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            self._place.call(self._path, file.discard)
        finally:
            # Closing would complete the upload, so make fsspec treat the file as closed.
            file.closed = True
            file.buffer = None


class _AzureSink(Sink):
    """An upload to Azure in blocks with unique names, which are safe to send again.

    An adlfs file does not work: Azure's library does not retry after a 429, and on a retry, adlfs
    adds its last blocks twice. Uncommitted blocks are invisible, and Azure deletes them after a
    week.
    """

    def __init__(self, place: ObjectFiles, path: str) -> None:
        self._place = place
        self._path = path
        self._held = bytearray()
        self._blocks: list[str] = []
        self._written = 0

    def write(self, data: Buffer) -> int:
        view = memoryview(data).cast("B")
        size = _block_size(self._written)
        for start in range(0, len(view), BLOCK):
            self._held += view[start : start + BLOCK]
            if len(self._held) >= size:
                self._stage()
        self._written += len(view)
        return len(view)

    def commit(self) -> None:
        if self._held:
            self._stage()
        blocks = [importlib.import_module("azure.storage.blob").BlobBlock(b) for b in self._blocks]
        self._ask(lambda blob: blob.commit_block_list(blocks))

    def abort(self) -> None:
        self._held.clear()

    def _stage(self) -> None:
        name = uuid4().hex
        block = bytes(self._held)
        self._ask(lambda blob: blob.stage_block(name, block))
        self._blocks.append(name)
        self._held.clear()

    def _ask(self, question: Callable[[Any], Awaitable[Any]]) -> None:
        """Send one request about the blob."""
        files = self._place.files
        container, name, _ = files.split_path(self._place.full(self._path))
        sync = importlib.import_module("fsspec.asyn").sync

        async def asked() -> None:
            async with files.service_client.get_blob_client(container, name) as blob:
                await question(blob)

        self._place.call(self._path, lambda: sync(files.loop, asked))
