# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The encoder of the kernel: one backend and one policy, with the reference as a fallback."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from socket import gethostname
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seatrial.dataprep.tasks.task_list import Tokenizer
from seatrial.dataprep.tokenizers.backends import (
    BACKENDS,
    LADDERS,
    Backend,
    Encoded,
    Model,
    reference_backend,
    version_of,
)
from seatrial.dataprep.tokenizers.identity import model_of
from seatrial.errors import MissingExtraError
from seatrial.spec.data import EndTokenInText

_BLOCK = 1 << 17
"""Tokens per block; a block fits the processor's cache."""


class OutOfVocabularyError(ValueError):
    """A tokenizer returned an ID outside of its vocabulary."""


def narrowed(tokens: NDArray[Any], kind: np.dtype[Any], vocab_size: int) -> NDArray[Any]:
    """Convert tokens to a different type, and check that each is in the vocabulary and so fits."""
    stored = np.empty(len(tokens), kind)
    for start in range(0, len(tokens), _BLOCK):
        block = tokens[start : start + _BLOCK]
        largest = int(block.max())
        if largest >= vocab_size:
            raise OutOfVocabularyError(
                f"the ID {largest}, which is outside the vocabulary ({vocab_size:,} entries)"
            )
        stored[start : start + _BLOCK] = block
    return stored


def with_ends(tokens: NDArray[Any], lengths: NDArray[np.int64], end: int) -> NDArray[Any]:
    """Insert the end token after each document that is not empty."""
    ends = (np.cumsum(lengths + (lengths > 0)) - 1)[lengths > 0]
    ended = np.empty(len(tokens) + len(ends), tokens.dtype)
    is_text = np.ones(len(ended), np.bool_)
    is_text[ends] = False
    ended[ends] = end
    ended[is_text] = tokens
    return ended


type Documents = tuple[NDArray[Any], NDArray[np.int64]]
"""The concatenated tokens of documents, and the number of tokens per document."""


class Encoder:
    """Encodes texts, without end-of-document tokens.

    An encoder handles the end token in a text by one policy; `for_policy` returns the encoder for
    another one.
    """

    def __init__(self, tokenizer: Tokenizer, model: Model, backend: str) -> None:
        """Load a tokenizer with a backend."""
        self.tokenizer = tokenizer
        self.name = backend
        """Name of the backend."""
        self.backend = f"{backend} {version_of(backend)}"
        """Name and version of the backend, for records."""
        self.rescued = 0
        """Texts on which the backend failed and that the reference tokenized instead."""
        self._model = model
        self._library = self._loaded()
        self._other: Encoder | None = None

    def _loaded(self) -> Backend:
        return (
            reference_backend(self._model)
            if self.is_reference
            else BACKENDS[self.name](self._model)
        )

    @property
    def end_text(self) -> str:
        """The end-of-document token as text."""
        return self._model.end_text

    @property
    def is_reference(self) -> bool:
        """True if this is the reference itself."""
        return self.name == LADDERS[self.tokenizer.kind][-1]

    @cached_property
    def reference(self) -> "Encoder":
        """The encoder whose tokens are correct by definition."""
        if self.is_reference:
            return self
        return Encoder(self.tokenizer, self._model, LADDERS[self.tokenizer.kind][-1])

    def load_reference(self) -> None:
        """Load the reference now instead of on first use."""
        reference_backend(self._model)

    def for_policy(self, policy: EndTokenInText) -> "Encoder":
        """Return the encoder that handles the end token in a text by a policy."""
        as_text = policy is EndTokenInText.TEXT
        if as_text == self._model.end_is_text:
            return self
        if self._other is None:
            model = replace(self._model, end_is_text=as_text)
            self._other = Encoder(self.tokenizer, model, self.name)
            self._other._other = self
        return self._other

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the concatenated tokens of all texts, and the number of tokens per text."""
        try:
            return self._library.encode(texts)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException:
            # A panic of a Rust library is not an Exception. The reference is slow but correct.
            if self.is_reference:
                raise
            self.rescued += len(texts)
            return self.reference.encode(texts)

    def renew(self) -> None:
        """Load the tokenizer again, to free the library's cache of texts.

        The cache of gigatoken 0.10 is unbounded (marcelroed/gigatoken#36); those of the references
        are bounded.
        """
        if not self.is_reference:
            del self._library
            self._library = self._loaded()

    @cached_property
    def _end_is_token(self) -> bool:
        """True if the text of the end-of-document token encodes to exactly that token."""
        return bool(self.encode([self.end_text])[0].tolist() == [self.tokenizer.end_of_document])

    def encode_documents(self, texts: Sequence[str], kind: np.dtype[Any]) -> Documents:
        """Return the stored tokens of documents, and the tokens per document including the end.

        Raises:
            OutOfVocabularyError: The backend returned an ID outside of the vocabulary.
        """
        size, end = self.tokenizer.vocab_size, self.tokenizer.end_of_document
        if self._end_is_token:
            # Encode the ends as separate texts between the others: this costs no time, while
            # inserting them afterwards takes twice as long as narrowing the tokens (measured).
            both = [self.end_text] * (2 * len(texts))
            both[::2] = texts
            if "" in texts:
                both[1::2] = [self.end_text if text else "" for text in texts]
            tokens, lengths = self.encode(both)
            own, ends = lengths[::2], lengths[1::2]
            if not (ends > own).any():
                return narrowed(tokens, kind, size), own + ends
        # Also if the tokenizer normalizes a text to an empty one.
        tokens, lengths = self.encode(texts)
        return narrowed(with_ends(tokens, lengths, end), kind, size), lengths + (lengths > 0)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode tokens with the reference; special tokens appear as text."""
        return self.reference._library.decode(ids)


def open_encoder(
    tokenizer: Tokenizer,
    file: Path,
    backend: str,
    policy: EndTokenInText = EndTokenInText.TOKEN,
) -> Encoder:
    """Load a tokenizer file with one of the backends in `BACKENDS`.

    Raises:
        MissingExtraError: The backend's package is not installed on this machine.
    """
    try:
        version_of(backend)
    except ImportError as error:
        raise MissingExtraError(
            f"Tokenizing needs {backend}, which is not installed on {gethostname()}. "
            "In a Seatrial checkout there, run: pip install '.[data]'",
            extra="data",
        ) from error
    return Encoder(tokenizer, model_of(tokenizer, file.read_bytes(), policy), backend)
