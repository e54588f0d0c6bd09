# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tokens as they are stored: narrow, and with the end-of-document token after each document."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 17
"""Tokens that are looked at together: they stay in the processor's cache."""


class OutOfVocabularyError(ValueError):
    """A tokenizer gave an id that its vocabulary does not have."""


def narrowed(tokens: NDArray[Any], kind: np.dtype[Any], vocab_size: int) -> NDArray[Any]:
    """The tokens in another type; narrowing one that does not fit would go unnoticed."""
    stored = np.empty(len(tokens), kind)
    for start in range(0, len(tokens), _BLOCK):
        block = tokens[start : start + _BLOCK]
        largest = int(block.max())
        if largest >= vocab_size:
            raise OutOfVocabularyError(f"the id {largest} in a vocabulary of {vocab_size:,}")
        stored[start : start + _BLOCK] = block
    return stored


def with_ends(tokens: NDArray[Any], lengths: NDArray[np.int64], end: int) -> NDArray[Any]:
    """The tokens with an end after each document that is not empty."""
    ends = (np.cumsum(lengths + (lengths > 0)) - 1)[lengths > 0]
    ended = np.empty(len(tokens) + len(ends), tokens.dtype)
    is_text = np.ones(len(ended), np.bool_)
    is_text[ends] = False
    ended[ends] = end
    ended[is_text] = tokens
    return ended
