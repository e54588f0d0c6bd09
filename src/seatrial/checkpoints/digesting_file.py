# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Files whose bytes are hashed while they are written."""

import hashlib
import threading
from collections.abc import Buffer
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from seatrial.checkpoints.record import ShardFile

SMALL = 64 << 10
"""Bytes up to which handing over to a thread costs more than it saves."""


class Digests:
    """Files that were written and whose digest nobody has asked for yet, by path."""

    def __init__(self) -> None:
        """Begin without any."""
        self._files: dict[str, ShardFile] = {}
        self._lock = threading.Lock()

    def put(self, path: str, file: ShardFile) -> None:
        """A file is written."""
        with self._lock:
            self._files[path] = file

    def take(self, path: str) -> ShardFile | None:
        """The digest of a file, once."""
        with self._lock:
            return self._files.pop(path, None)


class DigestingFile:
    """A new file whose bytes are hashed on their way.

    What is long is hashed in a thread while the same bytes are written: both let other threads
    run meanwhile, so a save takes the longer of the two times and not their sum.
    """

    def __init__(self, path: str, digests: Digests) -> None:
        """Open the file for writing."""
        self._path = path
        self._digests = digests
        self._file: IO[bytes] = Path(path).open("wb")  # noqa: SIM115  (closed by close)
        self._hasher = hashlib.sha256()
        self._thread = ThreadPoolExecutor(1, "digest")
        self._size = 0

    def write(self, data: Buffer) -> int:
        view = memoryview(data).cast("B")
        self._size += len(view)
        if len(view) <= SMALL:
            self._hasher.update(view)
            return self._file.write(view)
        hashed = self._thread.submit(self._hasher.update, view)
        try:
            return self._file.write(view)
        finally:
            # The bytes are the caller's again when this returns.
            hashed.result()

    def tell(self) -> int:
        """Bytes so far."""
        return self._size

    def flush(self) -> None:
        """Hand over what is buffered."""
        self._file.flush()

    def fileno(self) -> int:
        """The number of the open file, with everything in it: the engine syncs it."""
        self._file.flush()
        return self._file.fileno()

    def close(self) -> None:
        """End the file; from here on its digest is known."""
        self._thread.shutdown()
        if not self._file.closed:
            self._file.close()
            name = Path(self._path).name
            self._digests.put(self._path, ShardFile(name, self._size, self._hasher.hexdigest()))

    def __enter__(self) -> "DigestingFile":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Close the file; one that was left by an error has no digest."""
        if kind is None:
            self.close()
        else:
            self._thread.shutdown()
            self._file.close()
