# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The encoder that the kernel uses: one backend, one policy, and the reference beside them."""

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


type Documents = tuple[NDArray[Any], NDArray[np.int64]]
"""The tokens of documents one after the other, and how many each has."""


class Encoder:
    """Texts to tokens, without end-of-document tokens.

    It is opened for one policy of what becomes of the end token in a text; `for_policy` gives the
    one for another.
    """

    def __init__(self, tokenizer: Tokenizer, model: Model, backend: str) -> None:
        """Load a tokenizer into a backend."""
        self.tokenizer = tokenizer
        """The tokenizer."""
        self.name = backend
        """Name of the backend."""
        self.backend = f"{backend} {version_of(backend)}"
        """Name and version of the backend, for records."""
        self.rescued = 0
        """Texts that the backend gave up on and the reference tokenized instead."""
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
        """The end-of-document token, written out."""
        return self._model.end_text

    @property
    def is_reference(self) -> bool:
        """Whether this is the reference itself."""
        return self.name == LADDERS[self.tokenizer.kind][-1]

    @cached_property
    def reference(self) -> "Encoder":
        """The encoder whose tokens are right by definition."""
        if self.is_reference:
            return self
        return Encoder(self.tokenizer, self._model, LADDERS[self.tokenizer.kind][-1])

    def load_reference(self) -> None:
        """Load the reference now and not when it is first wanted."""
        reference_backend(self._model)

    def for_policy(self, policy: EndTokenInText) -> "Encoder":
        """The encoder that treats the end token in a text by a policy."""
        as_text = policy is EndTokenInText.TEXT
        if as_text == self._model.end_is_text:
            return self
        if self._other is None:
            model = replace(self._model, end_is_text=as_text)
            self._other = Encoder(self.tokenizer, model, self.name)
            self._other._other = self
        return self._other

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The tokens of all texts one after the other, and how many each text has."""
        try:
            return self._library.encode(texts)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException:
            # A panic of a library in Rust is no Exception. The reference is slow but right.
            if self.is_reference:
                raise
            self.rescued += len(texts)
            return self.reference.encode(texts)

    def renew(self) -> None:
        """Load the tokenizer again, to give back what the library keeps of texts it has seen.

        The cache of gigatoken 0.10 has no bound (marcelroed/gigatoken#36); that of
        the references has one.
        """
        if not self.is_reference:
            del self._library
            self._library = self._loaded()

    @cached_property
    def _end_is_token(self) -> bool:
        """Whether the end-of-document token, written out, becomes that token and no other."""
        return bool(self.encode([self.end_text])[0].tolist() == [self.tokenizer.end_of_document])

    def encode_documents(self, texts: Sequence[str], kind: np.dtype[Any]) -> Documents:
        """The tokens of documents as they are stored, and how many each has, its end included.

        Raises:
            OutOfVocabularyError: The backend gave an id that the vocabulary does not have.
        """
        size, end = self.tokenizer.vocab_size, self.tokenizer.end_of_document
        if self._end_is_token:
            # Ends as texts of their own between the others: to put them in afterwards takes twice
            # as long as to narrow the tokens, and this takes nothing (measured).
            both = [self.end_text] * (2 * len(texts))
            both[::2] = texts
            if "" in texts:
                both[1::2] = [self.end_text if text else "" for text in texts]
            tokens, lengths = self.encode(both)
            own, ends = lengths[::2], lengths[1::2]
            if not (ends > own).any():
                return narrowed(tokens, kind, size), own + ends
        # Also for a text that becomes nothing because the tokenizer normalizes it.
        tokens, lengths = self.encode(texts)
        return narrowed(with_ends(tokens, lengths, end), kind, size), lengths + (lengths > 0)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, by the reference; special tokens are written out."""
        return self.reference._library.decode(ids)


def open_encoder(
    tokenizer: Tokenizer,
    file: Path,
    backend: str,
    policy: EndTokenInText = EndTokenInText.TOKEN,
) -> Encoder:
    """Load a tokenizer's file into a backend, which is one of the names in `BACKENDS`.

    Raises:
        MissingExtraError: This machine does not have the backend's package.
    """
    try:
        version_of(backend)
    except ImportError as error:
        raise MissingExtraError(
            f"Tokenizing needs {backend}, which {gethostname()} does not have. "
            "Install it there with: pip install '.[data]' in a checkout of Seatrial.",
            extra="data",
        ) from error
    return Encoder(tokenizer, model_of(tokenizer, file.read_bytes(), policy), backend)
