# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every thousandth document is tokenized again by the reference while a task runs."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from seatrial.dataprep.documents.batches import Place
from seatrial.dataprep.inputs.codes import BadInputError, InputCode
from seatrial.dataprep.tokenizers.encoder import Encoder

ONE_IN = 1000
"""Of so many documents one is audited."""
LONGEST = 1 << 16
"""Characters of a document that is audited. The reference takes 50 ms for that and 100 times the
memory, so that a few long documents would cost more than all the rest."""


def chosen(task: int, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which documents of a task are audited, by their places in it: always the same ones.

    The mixing is that of SplitMix64, so that no pattern of the input can keep away from it.
    """
    mixed = positions.astype(np.uint64) + np.uint64(task << 32) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    picked: NDArray[np.bool_] = mixed % np.uint64(ONE_IN) == 0
    return picked


def audit(
    encoder: Encoder,
    texts: Sequence[str],
    tokens: NDArray[np.generic],
    lengths: NDArray[np.int64],
    numbers: Sequence[int],
    place: Callable[[int], Place],
) -> int:
    """Tokenize some texts again by the reference, and say how many.

    Args:
        encoder: What made the tokens.
        texts: The texts.
        tokens: The tokens of all of them, with their ends.
        lengths: How many tokens each has, its end included.
        numbers: Which of the texts.
        place: Where the text of a number comes from.

    Raises:
        BadInputError: The reference gives other tokens.
    """
    picked = [] if encoder.is_reference else [i for i in numbers if len(texts[i]) <= LONGEST]
    if not picked:
        return 0
    expected, counts = encoder.reference.encode([texts[i] for i in picked])
    ends, expected_ends = np.cumsum(lengths), np.cumsum(counts)
    for i, end, count in zip(picked, expected_ends, counts, strict=True):
        found = tokens[ends[i] - lengths[i] : ends[i]][:-1]
        if not np.array_equal(found, expected[end - count : end]):
            at = place(i)
            raise BadInputError(
                InputCode.AUDIT,
                at.address,
                f"{encoder.backend} gives other tokens for this document than"
                f" {encoder.reference.backend}, so no part that it made can be trusted.",
                f"Uninstall {encoder.name} and prepare the data again; please report the document.",
                encoder.backend,
                line=at.line,
            )
    return len(picked)
