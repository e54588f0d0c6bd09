# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How the engine cuts a file into training, validation and test data, and what each then holds.

Read from `megatron.core.datasets` 0.19.2: a file is cut by sequences, not by tokens, at rounded
places; a sample is `sequence_length` tokens and one more that the next sample begins with.
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
"""Something of training, validation and test."""


class Split(IntEnum):
    """What data are for, in the engine's order."""

    TRAINING = 0
    VALIDATION = 1
    TEST = 2


def cuts(shares: Shares, sequences: int) -> tuple[tuple[int, int] | None, ...]:
    """For each split its first sequence and the one after its last; None where its share is 0."""
    # The engine's own operations in its order, for the same rounding.
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
    """A file of a blend, with what each split has of it."""

    path: str
    """The pair as training sees it, without the ending."""
    source: str
    sequences: Parts
    """Sequences of each split."""
    tokens: Parts
    """Tokens of each split."""
    is_known: bool = True
    """False for a prepared pair that cannot be read from here; its numbers are then 0."""

    @property
    def all_tokens(self) -> int:
        return sum(self.tokens)

    def samples(self, split: Split, sequence_length: int) -> int:
        """Samples of a split in one epoch."""
        return max(0, self.tokens[split] - 1) // sequence_length


def split_counts(
    store: Store, name: str, header: IndexHeader, tokens: int, shares: Shares
) -> tuple[Parts, Parts]:
    """Sequences and tokens that each split has of a file; the largest split is not read for it.

    Args:
        store: Where the pair lies.
        name: Its path below the root of the store, without the ending.
        header: What its index begins with.
        tokens: Tokens of all of it.
        shares: The shares of the splits.
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
    """Tokens of the sequences of a file from one up to another, read from its index."""
    with closing(store.open_reader(f"{name}.idx", HEADER_BYTES + 4 * begin)) as stream:
        blocks = arrays(stream, end - begin, "<i4", BLOCK)
        return sum(int(block.sum(dtype=np.int64)) for block in blocks)
