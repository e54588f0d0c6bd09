# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The probe that reads tokenizers, prepared pairs and corpora at the addresses in the spec.

It reads whole indexes, but the tokens of only a few documents; `seatrial data verify` reads all
tokens.
"""

import struct
from collections import Counter
from contextlib import closing, suppress
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from seatrial.checks.probe_facts import (
    CorpusFacts,
    PairFacts,
    Pointer,
    SplitFacts,
    TokenizerFacts,
    Unknown,
)
from seatrial.checks.probes.corpus import rough_tokens, sample_of
from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.blends.splits import Split, split_counts
from seatrial.dataprep.inputs.access import list_corpus
from seatrial.dataprep.inputs.selection import InputError, format_of, matches
from seatrial.dataprep.output.completion import finished_record
from seatrial.dataprep.output.index_file import BLOCK, HEADER_BYTES, MAGIC
from seatrial.dataprep.output.mds_shard import INDEX_FILE
from seatrial.dataprep.output.stored_index import ShortReadError, arrays, read_exactly
from seatrial.dataprep.tasks.task_list import Tokenizer
from seatrial.dataprep.tokenizers.identity import describe
from seatrial.dataprep.tokenizers.unstated_end import names_class, unstated_end
from seatrial.errors import SeatrialError
from seatrial.storage.access import store_at
from seatrial.storage.state_files import parse_json
from seatrial.storage.store import Store

MDS_WIDTHS = "BHIQ"
"""Integer types of a dimension, by the last two bits before it (MDS in streaming 0.12.0)."""


def split_at(directory: str) -> SplitFacts | Unknown:
    """Return the MDS split in a directory."""
    try:
        store = store_at(directory)
        sizes = {file.path: file.size for file in store.list(deep=False)}
        if INDEX_FILE not in sizes:
            return Unknown.ABSENT
        shards = parse_json(store.read(INDEX_FILE))["shards"]
        return _facts(store, shards, sizes)
    except FileNotFoundError:
        return Unknown.ABSENT
    except (ValueError, KeyError, TypeError, AttributeError):
        return Unknown.UNREADABLE
    except (SeatrialError, OSError):
        return Unknown.UNSEEN


def _facts(store: Store, shards: list[dict[str, Any]], sizes: dict[str, int]) -> SplitFacts:
    absent = other_size = ""
    length = None
    for shard in shards:
        forms = [form for form in (shard["raw_data"], shard.get("zip_data")) if form]
        there = next((form for form in forms if form["basename"] in sizes), None)
        if there is None:
            absent = absent or forms[0]["basename"]
        elif sizes[there["basename"]] != there["bytes"]:
            other_size = other_size or there["basename"]
        elif length is None and there is shard["raw_data"]:
            length = _length(store, shard)
    return SplitFacts(sum(shard["samples"] for shard in shards), length, absent, other_size)


def _length(store: Store, shard: dict[str, Any]) -> int | None:
    """Return the length of a shard's first sample in tokens; `None` if it is not one array."""
    if shard["column_names"] != ["tokens"]:
        return None
    kind, *of = shard["column_encodings"][0].split(":")
    if kind != "ndarray" or len(of) != 1:
        # If the type is missing, or a length is set, the encoding is different.
        return int(of[1]) if len(of) > 1 and of[1].isdigit() else None
    try:
        with closing(store.open_reader(shard["raw_data"]["basename"])) as stream:
            (begin,) = struct.unpack_from("<I", read_exactly(stream, 8), 4)
        with closing(store.open_reader(shard["raw_data"]["basename"], begin)) as stream:
            # The sizes of variable columns come first: four bytes for the single column.
            width = MDS_WIDTHS[read_exactly(stream, 5)[4] & 3]
            data = read_exactly(stream, struct.calcsize(width))
        return int(struct.unpack(f"<{width}", data)[0])
    except ShortReadError:
        return None


HEADER = struct.Struct("<9sQBQQ")
WIDTHS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}
"""Bytes per token, by type code (megatron.core.datasets.indexed_dataset 0.19.2)."""
SAMPLED = 200
"""Number of documents whose tokens are read, spread over the pair."""
LONGEST = 1 << 16
"""The maximum number of tokens to read from a document."""


def _identity(address: str) -> Tokenizer | SeatrialError | OSError:
    """Return a tokenizer, or the error: an unreachable Hub is queried only once."""
    try:
        return describe(address)[0]
    except (SeatrialError, OSError) as error:
        return error


class DataReader:
    """Reads the inputs of a run that are accessible from this host."""

    def __init__(self, tokenizer: str, mount: str = "") -> None:
        """Read the inputs of a run with this tokenizer.

        Args:
            tokenizer: Address of the tokenizer, which determines the end-of-document token.
            mount: Mount path of the volume in pods. Paths below it are unseen unless this host
                mounts the volume.
        """
        self._own, self._mount = tokenizer, mount.rstrip("/")
        self._identity = cache(_identity)
        self.tokenizer = cache(self._tokenizer)
        self.pair = cache(self._pair)
        self.split = cache(self._split)
        self.corpus = cache(self._corpus)

    def _hidden(self, path: str) -> bool:
        """True if a path is on a volume that this host does not mount."""
        below = bool(self._mount) and f"{path}/".startswith(f"{self._mount}/")
        return below and not Path(self._mount).is_dir()

    def _tokenizer(self, address: str) -> TokenizerFacts | Unknown:
        if self._hidden(address):
            return Unknown.UNSEEN
        found = self._identity(address)
        if isinstance(found, BadInputError):
            if found.findings[0].code == InputCode.END_OF_DOCUMENT:
                return TokenizerFacts(0, ends_documents=False)
            # The Hub may not respond, or may not be reachable from this host.
            if address.startswith("hf://"):
                return Unknown.UNSEEN
            return Unknown.UNREADABLE if Path(address).exists() else Unknown.ABSENT
        if isinstance(found, Exception):
            return Unknown.UNSEEN
        try:
            unstated, named = unstated_end(address), names_class(address)
        except (SeatrialError, OSError):
            return Unknown.UNSEEN
        return TokenizerFacts(found.vocab_size, True, found.sha256, unstated, named)

    def _pair(self, prefix: str) -> PairFacts | Unknown:
        if self._hidden(prefix):
            return Unknown.UNSEEN
        parent, _, name = prefix.rpartition("/")
        try:
            store = store_at(parent or ".")
            sizes = {file.path: file.size for file in store.list(deep=False)}
        except FileNotFoundError:
            return Unknown.ABSENT
        except (SeatrialError, OSError):
            return Unknown.UNSEEN
        if f"{name}.idx" not in sizes:
            return Unknown.NO_IDX if f"{name}.bin" in sizes else Unknown.ABSENT
        if f"{name}.bin" not in sizes:
            return Unknown.NO_BIN
        try:
            return self._facts(store, name, sizes[f"{name}.bin"], sizes[f"{name}.idx"])
        except (SeatrialError, OSError, ShortReadError):
            return Unknown.UNSEEN

    def _facts(self, store: Store, name: str, tokens_size: int, index_size: int) -> PairFacts:
        if index_size < HEADER_BYTES:
            return PairFacts(0, 0, 0, 2, tokens_size, index_size)
        with closing(store.open_reader(f"{name}.idx")) as stream:
            head = read_exactly(stream, HEADER_BYTES)
        magic, version, code, sequences, ends = HEADER.unpack(head)
        if magic != MAGIC or code not in WIDTHS:
            shown = head[:9].decode("latin-1").strip("\0")
            return PairFacts(0, 0, 0, 2, tokens_size, index_size, shown)
        width, documents = WIDTHS[code], max(0, ends - 1)
        if version != 1:
            return PairFacts(
                sequences, documents, 0, width, tokens_size, index_size, index_version=version
            )
        if index_size != HEADER_BYTES + 12 * sequences + 8 * ends:
            # The lengths may be missing, so the tokens are not checked.
            return PairFacts(
                sequences, documents, tokens_size // width, width, tokens_size, index_size
            )
        tokens, wrong = _walk(store, name, sequences, width)
        largest, ended = self._sampled(store, name, sequences, width)
        made_with, digest = _made_with(store)
        return PairFacts(
            sequences, documents, tokens, width, tokens_size, index_size, "", wrong, made_with,
            digest, largest if tokens * width == tokens_size else None, ended,
        )  # fmt: skip

    def _sampled(
        self, store: Store, name: str, sequences: int, width: int
    ) -> tuple[int | None, bool | None]:
        """Return the largest ID in a few documents, and whether all end with the end token."""
        own = self._identity(self._own) if self._own else None
        end = own.end_of_document if isinstance(own, Tokenizer) else None
        kind = {2: "<u2", 4: "<i4"}.get(width)
        if kind is None or not sequences:
            return None, None
        largest, last = 0, list[int]()
        for number in range(0, sequences, max(1, sequences // SAMPLED)):
            with closing(store.open_reader(f"{name}.idx", HEADER_BYTES + 4 * number)) as stream:
                length = int(np.frombuffer(read_exactly(stream, 4), "<i4")[0])
            at = HEADER_BYTES + 4 * sequences + 8 * number
            with closing(store.open_reader(f"{name}.idx", at)) as stream:
                begin = int(np.frombuffer(read_exactly(stream, 8), "<i8")[0])
            if length <= 0 or begin < 0:
                continue
            with suppress(ShortReadError):
                first = max(0, length - LONGEST)
                where = begin + first * width
                with closing(store.open_reader(f"{name}.bin", where)) as stream:
                    ids = np.frombuffer(read_exactly(stream, (length - first) * width), kind)
                largest, last = max(largest, int(ids.max())), [*last, int(ids[-1])]
        if not last:
            return None, None
        return largest, None if end is None else all(token == end for token in last)

    def _split(self, directory: str) -> SplitFacts | Unknown:
        return Unknown.UNSEEN if self._hidden(directory) else split_at(directory)

    def _corpus(self, address: str, pattern: str | None) -> CorpusFacts | Unknown:
        if self._hidden(address):
            return Unknown.UNSEEN
        try:
            listing = list_corpus(address)
        except InputError:
            local = "://" not in address
            return Unknown.ABSENT if local and not Path(address).exists() else Unknown.UNSEEN
        except (SeatrialError, OSError):
            return Unknown.UNSEEN
        taken = [file for file in listing.files if listing.alone or _taken(file.path, pattern)]
        seen = sample_of(taken)
        names = tuple(file.path for file in listing.files)
        return CorpusFacts(
            names,
            len(taken),
            seen.fields,
            seen.other_fields,
            seen.unreadable,
            rough_tokens((file.path, file.size) for file in taken),
        )

    def training_tokens(self, location: str, shares: tuple[float, float, float]) -> dict[str, int]:
        """Return the training tokens of each source at a data location; empty if there are none."""
        if self._hidden(location):
            return {}
        found: Counter[str] = Counter()
        try:
            store = store_at(location)
            record = finished_record(store)
            for file in record.files if record is not None else ():
                counts = split_counts(store, file.name, file.header, file.tokens, shares)
                found[file.source] += counts[1][Split.TRAINING]
        except (SeatrialError, OSError, ShortReadError):
            return {}
        return dict(found)

    def pairs_near(self, prefix: str) -> list[str]:
        """Return pairs in this directory and in neighbouring ones, the most similar first."""
        if "://" in prefix or self._hidden(prefix):
            return []
        home = Path(prefix).parent
        places = [place for place in (home, home.parent) if place.is_dir()]
        found = {
            str(file.with_suffix(""))
            for place in places
            for file in (*place.glob("*.idx"), *place.glob("*/*.idx"))
            if file.with_suffix(".bin").is_file()
        }
        found.discard(prefix)
        alike = {other: SequenceMatcher(None, other, prefix).ratio() for other in found}
        return sorted(found, key=lambda other: alike[other], reverse=True)


def _walk(store: Store, name: str, sequences: int, width: int) -> tuple[int, Pointer | None]:
    """Return the number of tokens in an index, and its first wrong offset."""
    tokens, at, wrong = 0, 0, None
    lengths = store.open_reader(f"{name}.idx", HEADER_BYTES)
    pointers = store.open_reader(f"{name}.idx", HEADER_BYTES + 4 * sequences)
    with closing(lengths), closing(pointers):
        pieces = zip(
            arrays(lengths, sequences, "<i4", BLOCK),
            arrays(pointers, sequences, "<i8", BLOCK),
            strict=True,
        )
        for sizes, starts in pieces:
            ends = np.cumsum(sizes, dtype=np.int64)
            wanted = (tokens + ends - sizes) * width
            if wrong is None and (differ := np.nonzero(starts != wanted)[0]).size:
                first = int(differ[0])
                wrong = Pointer(at + first, int(starts[first]))
            tokens, at = tokens + int(ends[-1]), at + len(sizes)
    return tokens, wrong


def _made_with(store: Store) -> tuple[str, str]:
    """Return the tokenizer that a pair was prepared with, and its digest."""
    with suppress(SeatrialError, OSError):
        record = finished_record(store)
        if record is not None:
            return record.settings.tokenizer.address, record.settings.tokenizer.sha256
    return "", ""


def _taken(path: str, pattern: str | None) -> bool:
    """True if a source with this pattern uses a file."""
    return format_of(path) is not None if pattern is None else matches(pattern, path)
