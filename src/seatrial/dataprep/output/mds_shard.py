# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""MDS, the format of MosaicML's streaming library: shards of samples, and an index of shards.

As in `streaming/base/format` of mosaicml-streaming 0.12.0 (mds/writer.py, mds/encodings.py,
base/writer.py), whose writer produces the same bytes. A shard is, in little-endian numbers::

    4            number of samples N
    4 (N + 1)    offset of each sample in the file, and of the end of the last
    ...          the settings of the writer, as JSON with sorted keys
    ...          the samples

A sample with one column `ndarray:int32` is the length of the rest (4 bytes), the number of
dimensions times four plus the width of a size (1 byte), the size itself, and the tokens. All
samples have the same length, so all shards except the last have the same number of samples, and
the bytes of a shard depend only on its number and its tokens.
"""

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIZE_LIMIT = 1 << 26
"""Most bytes of a shard, as in the library."""
COLUMN, ENCODING = "tokens", "ndarray:int32"
INDEX_FILE = "index.json"
Tokens = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class MdsShape:
    """The length and number of samples of a split in MDS."""

    length: int
    """Tokens per sample."""
    samples: int
    """Samples in all shards."""

    @property
    def per_shard(self) -> int:
        """Samples per shard, except the last."""
        taken = 4 + 4 + len(_settings())
        return max(1, (SIZE_LIMIT - taken) // (self.sample_bytes + 4))

    @property
    def shards(self) -> int:
        """Number of shards of the split."""
        return -(-self.samples // self.per_shard)

    @property
    def sample_bytes(self) -> int:
        return len(_head(self.length)) + 4 * self.length

    def samples_of(self, shard: int) -> int:
        """Return the number of samples of a shard."""
        return min(self.per_shard, self.samples - shard * self.per_shard)

    def shard_bytes(self, shard: int) -> int:
        samples = self.samples_of(shard)
        return 4 + 4 * (samples + 1) + len(_settings()) + samples * self.sample_bytes


def shard_name(shard: int) -> str:
    """Return the file name of a shard."""
    return f"shard.{shard:05}.mds"


def encoded_shard(tokens: Tokens, length: int) -> bytes:
    """Encode a shard from the concatenated tokens of its samples."""
    samples = tokens.size // length
    head = _head(length)
    size = len(head) + 4 * length
    begins = 4 + 4 * (samples + 1) + len(_settings())
    places = (np.arange(samples + 1, dtype=np.int64) * size + begins).astype("<u4")
    rows = np.empty((samples, size), np.uint8)
    rows[:, : len(head)] = np.frombuffer(head, np.uint8)
    rows[:, len(head) :] = tokens.astype("<i4", copy=False).reshape(samples, length).view(np.uint8)
    count = np.uint32(samples).astype("<u4").tobytes()
    return b"".join((count, places.tobytes(), _settings(), rows.tobytes()))


def encoded_index(shape: MdsShape) -> bytes:
    """Encode the index of a split."""
    settings = json.loads(_settings())
    shards = [
        settings
        | {
            "samples": shape.samples_of(shard),
            "raw_data": {
                "basename": shard_name(shard),
                "bytes": shape.shard_bytes(shard),
                "hashes": {},
            },
            "zip_data": None,
        }
        for shard in range(shape.shards)
    ]
    return json.dumps({"version": 2, "shards": shards}, sort_keys=True).encode()


def _settings() -> bytes:
    """Return the settings of the library's writer, which each shard repeats."""
    settings = {
        "version": 2,
        "format": "mds",
        "compression": None,
        "hashes": [],
        "size_limit": SIZE_LIMIT,
        "column_names": [COLUMN],
        "column_encodings": [ENCODING],
        "column_sizes": [None],
    }
    return json.dumps(settings, sort_keys=True).encode()


def _head(length: int) -> bytes:
    """Return the bytes before the tokens of a sample: sizes, in the smallest integer that fits."""
    width = next(bits for bits in range(4) if length < 1 << (8 << bits))
    shape = bytes([(1 << 2) | width]) + length.to_bytes(1 << width, "little")
    return (len(shape) + 4 * length).to_bytes(4, "little") + shape
