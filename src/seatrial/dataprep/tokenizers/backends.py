# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer libraries, each behind the same two methods.

All of them are optional packages that are imported on demand: a machine without a wheel of one can
prepare data with another.
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
"""The concatenated tokens of all texts, and the number of tokens per text."""


@dataclass(frozen=True, slots=True)
class Model:
    """The input of a backend."""

    kind: TokenizerKind
    """The library that defines the file."""
    name: str
    """File name without directories; for a tiktoken file, this is the encoding."""
    data: bytes
    end_text: str
    """The end-of-document token as text."""
    end_is_text: bool
    """True to encode the end-of-document token in a text as ordinary characters."""


class Backend(Protocol):
    """A library with a loaded tokenizer."""

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Encode texts, without tokens that the tokenizer would add at either end."""

    def decode(self, ids: Sequence[int]) -> str:
        """Decode tokens; special tokens appear as text."""


def flat(lists: Sequence[Sequence[int]]) -> Encoded:
    """Convert lists of IDs to arrays."""
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    ids = np.fromiter(chain.from_iterable(lists), np.uint32, int(lengths.sum()))
    return ids, lengths


def _json_of(model: Model) -> bytes:
    """Return the `tokenizer.json`, without the end token if that is to be text.

    Removing it from the added tokens changes nothing else, including other special tokens, and
    all libraries that read the file handle it in the same way.
    """
    if not model.end_is_text:
        return model.data
    content = json.loads(model.data)
    added = content.get("added_tokens") or []
    content["added_tokens"] = [each for each in added if each["content"] != model.end_text]
    # It could refer to the removed token; Seatrial adds no tokens at the ends anyway.
    content["post_processor"] = None
    return json.dumps(content, ensure_ascii=False).encode()


class HuggingFace:
    """Hugging Face tokenizers, the reference for a `tokenizer.json`."""

    def __init__(self, model: Model) -> None:
        """Load the tokenizer."""
        library = importlib.import_module("tokenizers")
        self._tokenizer = library.Tokenizer.from_str(_json_of(model).decode())
        # Some published files contain settings for inference that would drop text here.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Encode texts."""
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return flat([each.ids for each in encoded])

    def decode(self, ids: Sequence[int]) -> str:
        """Decode tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))


class Gigatoken:
    """gigatoken: the fastest, but still young."""

    def __init__(self, model: Model) -> None:
        """Load the tokenizer."""
        library = importlib.import_module("gigatoken")
        # It imports this itself on the first call, and takes any error there, also Ctrl-C, for a
        # missing package: the call then returns a list, and the interrupt is lost.
        importlib.import_module("awkward")
        match model.kind:
            case TokenizerKind.HUGGING_FACE:
                tokenizer = library.Tokenizer.from_json(_json_of(model))
            case TokenizerKind.SENTENCEPIECE:
                tokenizer = library.Tokenizer.from_sentencepiece(model.data)
            case TokenizerKind.TIKTOKEN:
                raise ValueError("gigatoken does not support tiktoken files")
        self._backend: Any = tokenizer.backend

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Encode texts; the result is a view of the library's arrays."""
        # Without parallel=False every Ray worker would start one thread per core.
        layout = self._backend.encode_batch(texts, parallel=False).layout
        offsets = np.asarray(layout.offsets.data)
        content = np.asarray(layout.content.data)
        return content[offsets[0] : offsets[-1]], np.diff(offsets)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode tokens."""
        return bytes(self._backend.decode(list(ids))).decode(errors="replace")


class Fastokens:
    """fastokens: half as fast, with the interface of Hugging Face tokenizers."""

    def __init__(self, model: Model) -> None:
        """Load the tokenizer."""
        library = importlib.import_module("fastokens")
        self._tokenizer = library.Tokenizer.from_json_str(_json_of(model).decode())

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Encode texts."""
        ids, offsets = self._tokenizer.encode_batch_flat(list(texts))
        ends = np.frombuffer(offsets, np.uint64).astype(np.int64)
        return np.frombuffer(ids, np.uint32), np.diff(ends)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode tokens."""
        return str(self._tokenizer.decode(list(ids)))


class Tiktoken:
    """tiktoken, the reference for its rank files."""

    def __init__(self, model: Model) -> None:
        """Load the encoding."""
        self._encoding = encoding_of(model.name, model.data)
        gone = {model.end_text} if model.end_is_text else set()
        self._special = self._encoding.special_tokens_set - gone

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Encode texts."""
        lists = [
            self._encoding.encode(text, allowed_special=self._special, disallowed_special=())
            for text in texts
        ]
        return flat(lists)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode tokens."""
        return str(self._encoding.decode(list(ids)))


class SentencePiece:
    """SentencePiece, the reference for its `.model`. It never encodes text as a control token."""

    def __init__(self, model: Model) -> None:
        """Load the model."""
        library = importlib.import_module("sentencepiece")
        self._processor = library.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(model.data)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Encode texts."""
        return flat([self._processor.EncodeAsIds(text) for text in texts])

    def decode(self, ids: Sequence[int]) -> str:
        """Decode tokens."""
        return str(self._processor.DecodeIds([int(each) for each in ids]))


BACKENDS: dict[str, Callable[[Model], Backend]] = {
    "gigatoken": Gigatoken,
    "fastokens": Fastokens,
    "tokenizers": HuggingFace,
    "tiktoken": Tiktoken,
    "sentencepiece": SentencePiece,
}
"""All backends by package name."""

LADDERS: dict[TokenizerKind, tuple[str, ...]] = {
    TokenizerKind.HUGGING_FACE: ("gigatoken", "fastokens", "tokenizers"),
    TokenizerKind.TIKTOKEN: ("tiktoken",),
    TokenizerKind.SENTENCEPIECE: ("gigatoken", "sentencepiece"),
}
"""The backends for each kind of file, from the fastest to the reference."""


@lru_cache(maxsize=2)
def reference_backend(model: Model) -> Backend:
    """Return the reference for a tokenizer, loaded once per process.

    Loading takes as long as preparing about 10 MB of text. The choice of a backend, the audit and
    the verification all need it. Its cache is bounded.
    """
    return BACKENDS[LADDERS[model.kind][-1]](model)


def version_of(name: str) -> str:
    """Return the installed version of a backend's package."""
    return importlib.metadata.version(name)
