# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the files of a part: tokens and lengths per domain, and the list of bad lines."""

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.documents.batches import BadLine
from seatrial.dataprep.tasks.records import PartFile
from seatrial.hashing import canonical_json
from seatrial.storage.digests import Hasher, digest_text, new_hasher
from seatrial.storage.store import Store
from seatrial.storage.writer import StoreWriter

MOST_DOMAINS = 1000
"""Most domains of a source; a field with more values is not a domain."""
_STREAMS = 16
"""Domains that stream directly to the store. Each needs memory for the next block of an upload, so
the others go to one temporary file until the part is complete."""
_LENGTHS_HELD = 4 << 20
"""Most bytes of a domain's lengths to hold in memory."""


class PartWriter:
    """Writes the files of one attempt; call `close` or `abort` at the end."""

    def __init__(self, store: Store, prefix: str, source: str) -> None:
        """Write files whose paths start with the prefix."""
        self._store = store
        self._prefix = prefix
        self._source = source
        self._domains: dict[str, _Domain] = {}
        self._overflow: BinaryIO | None = None
        self._quarantine: BinaryIO | None = None
        self._quarantine_hasher = new_hasher()
        self._written: list[str] = []

    def number_of(self, domain: str) -> int:
        """Return the number of a domain, in order of first appearance."""
        known = self._domains.get(domain)
        if known is None:
            known = self._domains[domain] = self._opened(domain)
        return known.number

    def _opened(self, domain: str) -> "_Domain":
        number = len(self._domains)
        if number >= MOST_DOMAINS:
            raise BadInputError(
                InputCode.DOMAINS,
                f"sources.{self._source}",
                f"the domain field has more than {MOST_DOMAINS:,} values; one of them is"
                f" {domain[:40]!a}.",
                "Set domain_field to a field with fewer values, such as meta.redpajama_set_name,"
                " or remove it.",
            )
        path = f"{self._prefix}.{number:04d}"
        if number < _STREAMS:
            return _Domain(number, domain, path, self._store.open_writer(f"{path}.tokens"))
        if self._overflow is None:
            self._overflow = tempfile.TemporaryFile(prefix="seatrial-")  # noqa: SIM115
        return _Domain(number, domain, path, _Waiting(self._overflow))

    def add(self, domain: str, tokens: NDArray[np.generic], lengths: NDArray[np.int32]) -> None:
        """Add documents of a domain; call `number_of` for it first."""
        self._domains[domain].add(tokens, lengths)

    def add_bad(self, lines: Iterable[BadLine]) -> None:
        """Add bad lines to the quarantine."""
        for line in lines:
            if self._quarantine is None:
                self._quarantine = self._store.open_writer(f"{self._prefix}.bad.jsonl")
            shown = {**asdict(line.place), "reason": line.reason, "shown": line.shown}
            data = canonical_json(shown).encode() + b"\n"
            self._quarantine_hasher.update(data)
            self._quarantine.write(data)

    def close(self) -> tuple[tuple[PartFile, ...], str | None, str | None]:
        """Make the files visible: those of the domains, and the list of bad lines if there are any.

        Returns:
            The files of the domains, and the path and digest of the list of bad lines.
        """
        files = []
        for domain in self._domains.values():
            if domain.documents:
                self._written += [domain.tokens_file, domain.lengths_file]
                files.append(domain.close(self._store))
            else:
                domain.abort()
        if self._quarantine is None:
            return tuple(files), None, None
        path = f"{self._prefix}.bad.jsonl"
        self._written.append(path)
        self._quarantine.close()
        return tuple(files), path, digest_text(self._quarantine_hasher)

    def abort(self) -> None:
        """Delete all files, including those that are already visible."""
        for domain in self._domains.values():
            domain.abort()
        if isinstance(self._quarantine, StoreWriter):
            self._quarantine.abort()
        self._store.delete(self._written)

    def release(self) -> None:
        """Free local resources, in every case."""
        for domain in self._domains.values():
            domain.lengths.close()
        if self._overflow is not None:
            self._overflow.close()


class _Waiting:
    """The tokens of one domain, as pieces of a temporary file that many domains share."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._pieces: list[tuple[int, int]] = []

    def write(self, data: memoryview) -> None:
        self._pieces.append((self._file.seek(0, 2), len(data)))
        self._file.write(data)

    def copy(self, target: BinaryIO) -> None:
        for start, size in self._pieces:
            self._file.seek(start)
            target.write(self._file.read(size))


class _Domain:
    """The output of one domain."""

    def __init__(self, number: int, name: str, path: str, stream: "BinaryIO | _Waiting") -> None:
        self.number = number
        self.name = name
        self.tokens_file = f"{path}.tokens"
        self.lengths_file = f"{path}.lengths"
        self.documents = self._empty = self._tokens = 0
        self.lengths: BinaryIO = tempfile.SpooledTemporaryFile(_LENGTHS_HELD)  # type: ignore[assignment] # noqa: SIM115
        self._stream: BinaryIO | _Waiting = stream
        self._tokens_hasher: Hasher = new_hasher()
        self._lengths_hasher: Hasher = new_hasher()

    def add(self, tokens: NDArray[np.generic], lengths: NDArray[np.int32]) -> None:
        data = memoryview(tokens).cast("B") if len(tokens) else memoryview(b"")
        self._tokens_hasher.update(data)
        self._stream.write(data)
        counts = lengths.astype("<i4").tobytes()
        self._lengths_hasher.update(counts)
        self.lengths.write(counts)
        self.documents += len(lengths)
        self._empty += int(np.count_nonzero(lengths == 0))
        self._tokens += len(tokens)

    def close(self, store: Store) -> PartFile:
        if isinstance(self._stream, _Waiting):
            with store.open_writer(self.tokens_file) as target:
                self._stream.copy(target)
        else:
            self._stream.close()
        self.lengths.seek(0)
        with store.open_writer(self.lengths_file) as target:
            shutil.copyfileobj(self.lengths, target, 1 << 20)
        return PartFile(
            domain=self.name,
            tokens_file=self.tokens_file,
            lengths_file=self.lengths_file,
            documents=self.documents,
            empty=self._empty,
            tokens=self._tokens,
            tokens_digest=digest_text(self._tokens_hasher),
            lengths_digest=digest_text(self._lengths_hasher),
        )

    def abort(self) -> None:
        if isinstance(self._stream, StoreWriter):
            self._stream.abort()
