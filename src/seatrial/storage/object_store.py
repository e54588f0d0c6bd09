# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A store in S3, Azure Blob or Google Storage, through fsspec."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO
from uuid import uuid4

from seatrial.storage.object_reader import open_range_reader
from seatrial.storage.providers import S3, object_files
from seatrial.storage.retries import PATIENCE, RetryPolicy, status_of
from seatrial.storage.store import StoredFile, path_parts
from seatrial.storage.uploads import upload
from seatrial.storage.writer import StoreWriter
from seatrial.storage.writer_claims import is_dead

_DELETERS = 16
_ATTEMPT = re.compile(r"[0-9a-f]{8}-\d+-\d+-\d+")


class ObjectStore:
    """Objects below one prefix in a bucket or container."""

    def __init__(self, address: str, patience: RetryPolicy = PATIENCE) -> None:
        """Store objects below an address such as `s3://BUCKET/PATH`."""
        self.address = address.rstrip("/")
        self._place = object_files(address, patience)

    def read(self, path: str) -> bytes:
        """Read a small file. Raises FileNotFoundError if it does not exist."""
        full = self._full(path)
        data: bytes = self._place.call(path, lambda: self._place.files.cat_file(full))
        return data

    def open_reader(self, path: str, start: int = 0) -> BinaryIO:
        """Open a stream at an offset. Resumes broken connections at the same byte."""
        self._full(path)
        size = int(self._place.info(path)["size"])
        return open_range_reader(self._place, path, size, start)

    def open_writer(self, path: str) -> BinaryIO:
        """Open a stream to a new file, which appears when the stream is closed without an error."""
        self._full(path)
        return StoreWriter(upload(self._place, path))

    def create(self, path: str, data: bytes) -> bool:
        """Create a small file atomically. Return False, without a change, if it already exists.

        The upload is conditional, so the store accepts only one of two creators. If a response is
        lost, the upload is sent again and then finds its own file. Therefore the content type has
        a parameter that identifies the creator.
        """
        full = self._full(path)
        mark = f"application/octet-stream; creator={uuid4().hex}"
        options = self._place.kind.content_type(mark)

        def once() -> None:
            try:
                self._place.files.pipe_file(full, data, mode="create", **options)
            except OSError as error:
                # s3fs recognizes a failed condition only for some servers.
                if status_of(error) == 412:
                    raise FileExistsError(path) from error
                # S3 returns this for simultaneous conditional uploads; a retry resolves it.
                if status_of(error) == 409 and self._place.kind is S3:
                    raise ConnectionError("conflicting uploads") from None
                raise

        try:
            self._place.call(path, once)
        except FileExistsError:
            return _content_type(self._place.info(path)) == mark
        return True

    def list(self, below: str = "", *, deep: bool = True) -> Iterator[StoredFile]:
        """List all files below a path, sorted by path. Unfinished uploads are not visible."""
        start = self._full(below) if below else self._place.root
        found = self._place.call(below, lambda: _found(self._place.files, start))
        cut = len(self._place.root) + 1
        files = [StoredFile(name[cut:], int(info["size"])) for name, info in found.items()]
        if not deep:
            depth = len(start) - len(self._place.root)
            files = [file for file in files if "/" not in file.path[depth:]]
        return iter(sorted(files, key=lambda file: file.path))

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files. Missing files are not an error."""
        checked = [(path, self._full(path)) for path in paths]

        def remove(one: tuple[str, str]) -> None:
            path, full = one
            with contextlib.suppress(FileNotFoundError):
                self._place.call(path, lambda: self._place.files.rm_file(full))

        with ThreadPoolExecutor(_DELETERS) as deleters:
            for _ in deleters.map(remove, checked):
                pass

    def sync(self) -> None:
        """Do nothing: completed uploads are durable."""

    def sweep(self, below: str = "", everything: bool = False) -> None:
        """Abort S3 uploads that killed writers left below a path.

        Other stores delete unfinished uploads after a week and do not list them.
        """
        start = self._full(below) if below else self._place.root
        if self._place.kind is not S3:
            return
        bucket, _, prefix = f"{start}/".partition("/")
        for key, name in self._uploads(bucket, prefix):
            attempt = _ATTEMPT.search(key)
            if everything or (attempt and is_dead(attempt[0])):
                self._s3("abort_multipart_upload", Bucket=bucket, Key=key, UploadId=name)

    def _uploads(self, bucket: str, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the key and ID of each unfinished upload to S3."""
        more: dict[str, str] = {}
        while True:
            page = self._s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix, **more)
            for begun in page.get("Uploads") or ():
                yield begun["Key"], begun["UploadId"]
            if not page.get("IsTruncated"):
                return
            more = {
                "KeyMarker": page["NextKeyMarker"],
                "UploadIdMarker": page["NextUploadIdMarker"],
            }

    def _s3(self, method: str, **arguments: str) -> dict[str, Any]:
        def once() -> dict[str, Any]:
            answer: dict[str, Any] = self._place.files.call_s3(method, **arguments)
            return answer

        try:
            return self._place.call("", once)
        except FileNotFoundError:
            # Another process has completed or aborted the upload in the meantime.
            return {}

    def _full(self, path: str) -> str:
        return self._place.full("/".join(path_parts(path, self.address)))


def _found(files: Any, start: str) -> dict[str, dict[str, Any]]:
    """List the objects below a prefix, without directory markers."""
    found = files.find(start, detail=True)
    return {
        name: info
        for name, info in found.items()
        if info["type"] == "file" and name.startswith(f"{start}/") and not name.endswith("/")
    }


def _content_type(info: dict[str, Any]) -> str:
    """Return a file's content type, from the key that its store uses."""
    settings = info.get("content_settings") or {}
    return str(
        info.get("ContentType") or info.get("contentType") or settings.get("content_type") or ""
    )
