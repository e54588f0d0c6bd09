# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs in a data set on the Hugging Face Hub, pinned to a commit.

The token comes from HF_TOKEN or from the file that `hf auth login` writes, and goes nowhere else.
A file is read as one stream, because the Hub limits requests: SlimPajama in ranges of 8 MiB takes
100,000 requests, and a free account has 5,000 in five minutes.
"""

import importlib
import io
import os
import re
import time
from collections.abc import Buffer, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import quote, unquote

from seatrial.dataprep.inputs.local import changed
from seatrial.dataprep.inputs.selection import InputError, Listed, Listing
from seatrial.dataprep.tasks.task_list import InputFile
from seatrial.errors import MissingExtraError
from seatrial.storage.retries import (
    PATIENCE,
    CutShortError,
    RetryPolicy,
    described,
    gave_up,
    passes,
    status_of,
)
from seatrial.storage.store import named

_PIECE = 1 << 20
"""Bytes that must arrive before the retry counter resets."""
_TIMEOUT = 60.0
_ADDRESS = re.compile(
    r"hf://datasets/(?P<repo>[^/@]+(/[^/@]+)?)"
    r"(@(?P<revision>refs/(convert|pr)/[^/]+|[^/]+))?(/(?P<path>.*))?",
    re.DOTALL,
)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubPlace:
    """A data set at a revision, and a path in it."""

    repo: str
    revision: str
    """A branch, a tag or a commit."""
    path: str
    """Path within the data set; empty for all of it."""

    @classmethod
    def parse(cls, address: str) -> "HubPlace":
        """Parse an address."""
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise InputError(
                f"{named(address)}: not a data set on the Hub. "
                "Write hf://datasets/OWNER/NAME@REVISION, optionally followed by a path."
            )
        revision = unquote(match["revision"] or "main")
        return cls(match["repo"], revision, (match["path"] or "").strip("/"))

    def __str__(self) -> str:
        """Return the address; slashes in the revision are quoted, so that it can be parsed."""
        whole = f"hf://datasets/{self.repo}@{quote(self.revision, safe='')}"
        return f"{whole}/{self.path}" if self.path else whole


def _hub() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise MissingExtraError(
            f"Reading from the Hugging Face Hub needs the data extra ({error.name} is not "
            "installed). In a Seatrial checkout, run: pip install '.[data]'",
            extra="data",
        ) from error


def _endpoint() -> str | None:
    """Return a custom address of the Hub; the library reads the variable only on import."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or None


def list_hub(address: str, patience: RetryPolicy = PATIENCE) -> Listing:
    """List every file of a data set below a path, with the revision resolved to a commit."""
    place = HubPlace.parse(address)
    api = _hub().HfApi(endpoint=_endpoint())

    def commit() -> str:
        return str(api.dataset_info(place.repo, revision=place.revision, timeout=_TIMEOUT).sha)

    pinned = HubPlace(place.repo, _call(place, patience, commit), place.path)
    return _call(place, patience, lambda: _tree(api, pinned))


def _tree(api: Any, place: HubPlace) -> Listing:
    """List the files at or below a path at a commit."""
    options = {"repo_type": "dataset", "revision": place.revision}
    found = []
    try:
        # Files of a directory. An entry without a blob ID is a directory.
        for entry in api.list_repo_tree(place.repo, place.path or None, recursive=True, **options):
            if hasattr(entry, "blob_id"):
                found.append(_listed(place, entry))
        if found:
            return Listing(found)
    except _hub().errors.EntryNotFoundError:
        pass
    for entry in api.get_paths_info(place.repo, [place.path], **options) if place.path else ():
        if hasattr(entry, "blob_id"):
            return Listing([_listed(place, entry)], alone=True)
    raise InputError(
        f"{place}: the data set has no such path. Check the path after the revision on the data "
        "set's page, under 'Files and versions'."
    )


def _listed(place: HubPlace, entry: Any) -> Listed:
    """Describe a file of the Hub; its version is the content digest, like the Hub's ETag."""
    below = entry.path[len(place.path) :].lstrip("/") if place.path else entry.path
    address = str(HubPlace(place.repo, place.revision, entry.path))
    version = entry.lfs.sha256 if entry.lfs else entry.blob_id
    return Listed(below or entry.path.rpartition("/")[2], address, entry.size, version)


def _call[T](place: HubPlace, patience: RetryPolicy, action: Callable[[], T]) -> T:
    """Call the Hub with retries, and explain its errors."""
    try:
        return patience.call(str(place), action)
    except Exception as error:
        explained = _explained(place, error)
        if explained is None:
            raise
        raise explained from error


def _explained(place: HubPlace, error: Exception) -> InputError | None:
    """Explain an error of the Hub; None if it is already explained."""
    kind = type(error).__name__
    where = f"hf://datasets/{place.repo}"
    if kind == "GatedRepoError":
        return InputError(
            f"{where}: access is gated. Accept the conditions on the data set's page, and set "
            "HF_TOKEN or run `hf auth login`."
        )
    if kind == "RevisionNotFoundError":
        return InputError(
            f"{where}: has no revision {place.revision!r}. After the @, write a branch, tag or "
            "commit that its page shows, such as @main."
        )
    status = status_of(error)
    if kind == "RepositoryNotFoundError" or status in (401, 403, 404):
        return InputError(
            f"{where}: does not exist, or this account cannot access it (status {status}). Check "
            "the name; for a private data set, set HF_TOKEN or run `hf auth login`."
        )
    if status is not None or kind in ("HFValidationError", "OfflineModeIsEnabled"):
        return InputError(f"{where}: the Hub returned {described(error)}. Check the address.")
    return None


class _HubFile(io.RawIOBase):
    """A file of the Hub as a stream that resumes at the same byte after a broken connection."""

    def __init__(self, file: InputFile, patience: RetryPolicy) -> None:
        self._file = file
        self._place = HubPlace.parse(file.address)
        self._patience = patience
        self._url = _hub().hf_hub_url(
            self._place.repo,
            self._place.path,
            repo_type="dataset",
            revision=self._place.revision,
            endpoint=_endpoint(),
        )
        self._position = 0
        self._failures = 0
        self._came = 0
        self._began = time.monotonic()
        self._answer: AbstractContextManager[Any] | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        if base + offset != self._position:
            self._hang_up()
            self._position = base + offset
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer).cast("B")
        while not self._rest:
            if self._position >= self._file.size or not view:
                return 0
            try:
                self._rest = memoryview(self._piece())
            except Exception as error:
                self._failed(error)
        count = min(len(view), len(self._rest))
        view[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        self._position += count
        self._came += count
        if self._came >= _PIECE:
            self._failures = 0
        return count

    def _piece(self) -> bytes:
        """Return the next bytes of the response; send a request first if there is none."""
        if self._answer is None:
            self._ask()
        piece = next(self._pieces, None)
        if piece is None:
            missing = self._file.size - self._position
            raise CutShortError(f"the response ended {missing:,} bytes before the end of the file")
        return piece

    def _ask(self) -> None:
        utilities = _hub().utils
        headers = {**utilities.build_hf_headers(), "Range": f"bytes={self._position}-"}
        # Request the stored bytes, not a version that a proxy has compressed.
        headers["Accept-Encoding"] = "identity"
        session = utilities.get_session()
        answer = session.stream(
            "GET", self._url, headers=headers, timeout=_TIMEOUT, follow_redirects=True
        )
        response = answer.__enter__()
        self._answer = answer
        utilities.hf_raise_for_status(response)
        self._check(response)
        self._pieces = response.iter_bytes(_PIECE)

    def _check(self, response: Any) -> None:
        """Reject a response for a different version of the file, or from a different position."""
        version = _etag(response)
        if response.status_code == 206:
            start, size = _range(response.headers.get("content-range", ""))
        else:
            start, size = 0, int(response.headers.get("content-length", self._file.size))
        if size != self._file.size or (version and version != self._file.version):
            before = f"{self._file.size:,} bytes, version {self._file.version}"
            raise changed(self._file.address, before, f"{size:,} bytes, version {version}")
        if start != self._position:
            raise InputError(
                f"{self._file.address}: the Hub answered from byte {start:,} instead of byte "
                f"{self._position:,}. A proxy between here and the Hub may not support range "
                "requests; check HF_ENDPOINT and the proxy."
            )

    def _failed(self, error: Exception) -> None:
        """Wait before the next attempt; raise if retries are used up or useless."""
        self._hang_up()
        if not passes(error):
            raise _explained(self._place, error) or error
        self._failures += 1
        self._came = 0
        if self._failures >= self._patience.tries:
            seconds = time.monotonic() - self._began
            raise gave_up(str(self._place), self._failures, seconds, error) from error
        self._patience.wait(self._failures, error)

    def _hang_up(self) -> None:
        answer, self._answer = self._answer, None
        self._pieces = iter(())
        self._rest = memoryview(b"")
        if answer is not None:
            answer.__exit__(None, None, None)

    def close(self) -> None:
        if not self.closed:
            try:
                self._hang_up()
            finally:
                super().close()


def _etag(response: Any) -> str:
    """Return the Hub's ETag; the server for large files, to which it redirects, has another."""
    hops = [*response.history, response]
    linked = next(filter(None, (hop.headers.get("x-linked-etag") for hop in hops)), "")
    if not linked and all(hop.url.host == response.url.host for hop in hops):
        linked = response.headers.get("etag", "")
    return str(linked).removeprefix("W/").strip('"')


def _range(header: str) -> tuple[int, int]:
    """Return the first byte and the total size, from `bytes 0-99/1000`."""
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", header)
    return (int(match[1]), int(match[2])) if match else (-1, -1)


def open_hub(file: InputFile, patience: RetryPolicy = PATIENCE) -> BinaryIO:
    """Open a file of the Hub."""
    return io.BufferedReader(_HubFile(file, patience), _PIECE)
