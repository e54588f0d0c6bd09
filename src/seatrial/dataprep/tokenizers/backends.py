# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The libraries that tokenize, each behind the same two methods.

All of them are optional packages that are imported by name when they are asked for: a machine that
has no wheel of one of them can still prepare data with another.
"""

import importlib
import importlib.metadata
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seatrial.dataprep.tasks.task_list import TokenizerKind
from seatrial.dataprep.tokenizers.tiktoken_file import encoding_of

type Encoded = tuple[NDArray[np.uint32], NDArray[np.int64]]
"""The tokens of all texts one after the other, and how many each text has."""


@dataclass(frozen=True, slots=True)
class Model:
    """What a backend is made from."""

    kind: TokenizerKind
    """Whose file it is."""
    name: str
    """Name of the file without folders; names the encoding of a file of tiktoken's."""
    data: bytes
    end_text: str
    """The end-of-document token, written out."""
    end_is_text: bool
    """True when the end-of-document token in a text is to become the tokens of its letters."""


class Backend(Protocol):
    """A library with a tokenizer loaded."""

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The tokens of texts, without any that the tokenizer would add at either end."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, special ones written out."""


def flat(lists: Sequence[Sequence[int]]) -> Encoded:
    """Lists of ids as arrays."""
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    ids = np.fromiter(chain.from_iterable(lists), np.uint32, int(lengths.sum()))
    return ids, lengths


def _json_of(model: Model) -> bytes:
    """The `tokenizer.json`, in which the end token is no longer a token when it is to be text.

    Taking it from the added tokens leaves everything else as it is, other special tokens
    included, and every library that reads the file then treats it in the same way.
    """
    if not model.end_is_text:
        return model.data
    content = json.loads(model.data)
    added = content.get("added_tokens") or []
    content["added_tokens"] = [each for each in added if each["content"] != model.end_text]
    # It could name the token that has just gone; nothing is added at the ends anyway.
    content["post_processor"] = None
    return json.dumps(content, ensure_ascii=False).encode()


class HuggingFace:
    """Hugging Face tokenizers: the reference for a `tokenizer.json`."""

    def __init__(self, model: Model) -> None:
        """Load the tokenizer."""
        library = importlib.import_module("tokenizers")
        self._tokenizer = library.Tokenizer.from_str(_json_of(model).decode())
        # Settings for inference that some published files carry; here they would drop text.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The tokens of texts."""
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return flat([each.ids for each in encoded])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))


class Gigatoken:
    """gigatoken: the fastest, and young."""

    def __init__(self, model: Model) -> None:
        """Load the tokenizer."""
        library = importlib.import_module("gigatoken")
        match model.kind:
            case TokenizerKind.HUGGING_FACE:
                tokenizer = library.Tokenizer.from_json(_json_of(model))
            case TokenizerKind.SENTENCEPIECE:
                tokenizer = library.Tokenizer.from_sentencepiece(model.data)
            case TokenizerKind.TIKTOKEN:
                raise ValueError("it is not used for files of tiktoken's")
        self._backend: Any = tokenizer.backend

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The tokens of texts, as views of the arrays that the library made."""
        # Without parallel=False every worker of a Ray cluster would start a thread for each core.
        layout = self._backend.encode_batch(texts, parallel=False).layout
        offsets = np.asarray(layout.offsets.data)
        content = np.asarray(layout.content.data)
        return content[offsets[0] : offsets[-1]], np.diff(offsets)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        return bytes(self._backend.decode(list(ids))).decode(errors="replace")


class Fastokens:
    """fastokens: half as fast, with the interface of Hugging Face's."""

    def __init__(self, model: Model) -> None:
        """Load the tokenizer."""
        library = importlib.import_module("fastokens")
        self._tokenizer = library.Tokenizer.from_json_str(_json_of(model).decode())

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The tokens of texts."""
        ids, offsets = self._tokenizer.encode_batch_flat(list(texts))
        ends = np.frombuffer(offsets, np.uint64).astype(np.int64)
        return np.frombuffer(ids, np.uint32), np.diff(ends)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self._tokenizer.decode(list(ids)))


class Tiktoken:
    """tiktoken: the reference for its own files of ranks."""

    def __init__(self, model: Model) -> None:
        """Load the encoding."""
        self._encoding = encoding_of(model.name, model.data)
        gone = {model.end_text} if model.end_is_text else set()
        self._special = self._encoding.special_tokens_set - gone

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The tokens of texts."""
        lists = [
            self._encoding.encode(text, allowed_special=self._special, disallowed_special=())
            for text in texts
        ]
        return flat(lists)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self._encoding.decode(list(ids)))


class SentencePiece:
    """SentencePiece: the reference for its `.model`. It never makes a control token from text."""

    def __init__(self, model: Model) -> None:
        """Load the model."""
        library = importlib.import_module("sentencepiece")
        self._processor = library.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(model.data)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The tokens of texts."""
        return flat([self._processor.EncodeAsIds(text) for text in texts])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self._processor.DecodeIds([int(each) for each in ids]))


BACKENDS: dict[str, Callable[[Model], Backend]] = {
    "gigatoken": Gigatoken,
    "fastokens": Fastokens,
    "tokenizers": HuggingFace,
    "tiktoken": Tiktoken,
    "sentencepiece": SentencePiece,
}
"""All backends, by the name of the package."""

LADDERS: dict[TokenizerKind, tuple[str, ...]] = {
    TokenizerKind.HUGGING_FACE: ("gigatoken", "fastokens", "tokenizers"),
    TokenizerKind.TIKTOKEN: ("tiktoken",),
    TokenizerKind.SENTENCEPIECE: ("gigatoken", "sentencepiece"),
}
"""What may tokenize with a kind of file, the fastest first and the reference last."""


@lru_cache(maxsize=2)
def reference_backend(model: Model) -> Backend:
    """The reference for a tokenizer, loaded once in a process.

    Loading takes as long as preparing some 10 MB of text does, and choosing a backend, the audit
    and the verification all want it. What it keeps of texts is bounded.
    """
    return BACKENDS[LADDERS[model.kind][-1]](model)


def version_of(name: str) -> str:
    """The installed version of a backend's package."""
    return importlib.metadata.version(name)
