# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are hashed while they are written."""

import hashlib
import threading
from collections.abc import Buffer
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from seatrial.checkpoints.record import ShardFile

SMALL = 64 << 10
"""Largest write, in bytes, for which a separate hashing thread is not worthwhile."""


class Digests:
    """Digests of written files by path. Each is kept until `take` removes it."""

    def __init__(self) -> None:
        self._files: dict[str, ShardFile] = {}
        self._lock = threading.Lock()

    def put(self, path: str, file: ShardFile) -> None:
        with self._lock:
            self._files[path] = file

    def take(self, path: str) -> ShardFile | None:
        """Return and remove the digest of a file."""
        with self._lock:
            return self._files.pop(path, None)


class DigestingFile:
    """A new file that is hashed while it is written.

    A second thread hashes large writes in parallel. Hashing and writing both release the GIL, so a
    save takes the longer of the two times, not their sum.
    """

    def __init__(self, path: str, digests: Digests) -> None:
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
            # The caller may reuse the buffer after this returns.
            hashed.result()

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._size

    def flush(self) -> None:
        self._file.flush()

    def fileno(self) -> int:
        """Flush and return the file descriptor, because the engine calls fsync on it."""
        self._file.flush()
        return self._file.fileno()

    def close(self) -> None:
        """Close the file and store its digest."""
        self._thread.shutdown()
        if not self._file.closed:
            self._file.close()
            name = Path(self._path).name
            self._digests.put(self._path, ShardFile(name, self._size, self._hasher.hexdigest()))

    def __enter__(self) -> "DigestingFile":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Close the file. After an error, store no digest."""
        if kind is None:
            self.close()
        else:
            self._thread.shutdown()
            self._file.close()
