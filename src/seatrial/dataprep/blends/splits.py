# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How the engine splits a file into training, validation and test data, and the resulting counts.

As in `megatron.core.datasets` 0.19.2: it splits by sequences, not by tokens, at rounded positions.
A sample is `sequence_length` tokens plus one, which is also the first token of the next sample.
"""

from contextlib import closing
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np

from seatrial.dataprep.output.index_file import BLOCK, HEADER_BYTES, IndexHeader
from seatrial.dataprep.output.stored_index import arrays
from seatrial.storage.store import Store

Shares = tuple[float, float, float]
"""Shares of the data for training, validation and test."""
Parts = tuple[int, int, int]
"""A count for each of training, validation and test."""


class Split(IntEnum):
    """The splits, in the engine's order."""

    TRAINING = 0
    VALIDATION = 1
    TEST = 2


def cuts(shares: Shares, sequences: int) -> tuple[tuple[int, int] | None, ...]:
    """Return the first sequence and the end (exclusive) of each split; None if its share is 0."""
    # The same operations in the same order as the engine, for the same rounding.
    total = np.sum(np.array(shares, np.float64))
    normal = (np.array(shares, np.float64) / total).tolist()
    edges = [0.0]
    for share in normal:
        edges.append(edges[-1] + share)
    return tuple(
        None if end <= begin else (round(begin * float(sequences)), round(end * float(sequences)))
        for begin, end in pairwise(edges)
    )


@dataclass(frozen=True, slots=True)
class SplitFile:
    """A file of a blend, with the counts of each split."""

    path: str
    """Path of the pair during training, without the suffix."""
    source: str
    sequences: Parts
    """Sequences per split."""
    tokens: Parts
    """Tokens per split."""
    is_known: bool = True
    """False for a prepared pair that cannot be read from here; its counts are then 0."""

    @property
    def all_tokens(self) -> int:
        return sum(self.tokens)

    def samples(self, split: Split, sequence_length: int) -> int:
        """Return the samples of a split in one epoch."""
        return max(0, self.tokens[split] - 1) // sequence_length


def split_counts(
    store: Store, name: str, header: IndexHeader, tokens: int, shares: Shares
) -> tuple[Parts, Parts]:
    """Count the sequences and tokens of a file per split, without reading the largest split.

    Args:
        store: The store that holds the pair.
        name: Path of the pair below the root of the store, without the suffix.
        header: Header of its index.
        tokens: Tokens of the whole file.
        shares: Shares of the splits.
    """
    found = cuts(shares, header.sequences)
    counts = [0, 0, 0]
    largest = max((s for s in Split if found[s]), key=lambda s: shares[s])
    for split in Split:
        cut = found[split]
        if cut is not None and split is not largest:
            counts[split] = tokens_between(store, name, *cut)
    counts[largest] = tokens - sum(counts)
    sequences = [0 if cut is None else cut[1] - cut[0] for cut in found]
    return (sequences[0], sequences[1], sequences[2]), (counts[0], counts[1], counts[2])


def tokens_between(store: Store, name: str, begin: int, end: int) -> int:
    """Count the tokens of sequences `begin` to `end` (exclusive), from the index."""
    with closing(store.open_reader(f"{name}.idx", HEADER_BYTES + 4 * begin)) as stream:
        blocks = arrays(stream, end - begin, "<i4", BLOCK)
        return sum(int(block.sum(dtype=np.int64)) for block in blocks)
