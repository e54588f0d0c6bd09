# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Identify a tokenizer: its kind, its vocabulary size, and the end-of-document token."""

import importlib
import json
from functools import lru_cache
from hashlib import sha256
from typing import Any

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.tasks.task_list import Tokenizer, TokenizerKind
from seatrial.dataprep.tokenizers.backends import Model
from seatrial.dataprep.tokenizers.locations import FoundTokenizer, locate
from seatrial.dataprep.tokenizers.tiktoken_file import (
    encoding_name,
    encoding_of,
    known_encodings,
    looks_like_ranks,
)
from seatrial.spec.data import EndTokenInText

_USUAL_ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[EOS]")
"""Common end-of-document tokens; used if the settings name none and exactly one exists."""


def describe(address: str) -> tuple[Tokenizer, bytes]:
    """Return the identity of a tokenizer, and its file.

    Args:
        address: `hf://NAME@REVISION`, the path of a file or of a directory with one, or the name of
            one of tiktoken's encodings.

    Raises:
        BadInputError: There is no tokenizer, or its end-of-document token is unknown.
    """
    found = locate(address)
    kind = _kind(found.data)
    try:
        match kind:
            case TokenizerKind.HUGGING_FACE:
                size, end = _hugging_face(found)
            case TokenizerKind.TIKTOKEN:
                size, end = _tiktoken(found)
            case TokenizerKind.SENTENCEPIECE:
                size, end = _sentencepiece(found)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise BadInputError(
            InputCode.TOKENIZER,
            found.address,
            "this is not a tokenizer.json, a tiktoken rank file or a SentencePiece model:"
            f" {str(error)[:200]}.",
            "Check data.tokenizer; if the file is the right one, download it again.",
        ) from error
    digest = sha256(found.data).hexdigest()
    return Tokenizer(kind, found.address, digest, size, end), found.data


def _kind(data: bytes) -> TokenizerKind:
    if data.lstrip().startswith(b"{"):
        return TokenizerKind.HUGGING_FACE
    return TokenizerKind.TIKTOKEN if looks_like_ranks(data) else TokenizerKind.SENTENCEPIECE


def _no_end(address: str, fix: str) -> BadInputError:
    rule = "the end-of-document token is not specified."
    return BadInputError(InputCode.END_OF_DOCUMENT, address, rule, fix)


@lru_cache(maxsize=1)
def _vocabulary(data: bytes) -> dict[str, int]:
    """Return all tokens of a `tokenizer.json` with their IDs; cached (0.07 s for GPT-2)."""
    content: dict[str, Any] = json.loads(data)
    model = content["model"]["vocab"]
    # Unigram models store pairs of a piece and its score.
    pairs = enumerate(piece for piece, _ in model) if isinstance(model, list) else ()
    vocabulary: dict[str, int] = {piece: i for i, piece in pairs} or dict(model)
    vocabulary |= {each["content"]: each["id"] for each in content.get("added_tokens") or []}
    return vocabulary


def _hugging_face(found: FoundTokenizer) -> tuple[int, int]:
    """Return the vocabulary size and the end token, which the settings next to the file name."""
    vocabulary = _vocabulary(found.data)
    stated = found.settings.get("eos_token")
    name = stated.get("content") if isinstance(stated, dict) else stated
    if name is None:
        usual = [each for each in _USUAL_ENDS if each in vocabulary]
        name = usual[0] if len(usual) == 1 else None
    if name not in vocabulary:
        raise _no_end(
            found.address,
            'Put a tokenizer_config.json with "eos_token" next to tokenizer.json.',
        )
    return max(vocabulary.values()) + 1, vocabulary[name]


def _tiktoken(found: FoundTokenizer) -> tuple[int, int]:
    name = encoding_name(found.address)
    if name not in known_encodings():
        raise BadInputError(
            InputCode.TOKENIZER,
            found.address,
            f"a rank file does not specify how text is split, and {name} is not an encoding that"
            " tiktoken supports.",
            f"Rename it to the name of its encoding: {', '.join(known_encodings())} (.tiktoken).",
        )
    encoding = encoding_of(name, found.data)
    return int(encoding.n_vocab), int(encoding.eot_token)


def _sentencepiece(found: FoundTokenizer) -> tuple[int, int]:
    processor = importlib.import_module("sentencepiece").SentencePieceProcessor()
    processor.LoadFromSerializedProto(found.data)
    if processor.eos_id() < 0:
        raise _no_end(found.address, "Train the model with an eos_id.")
    return int(processor.vocab_size()), int(processor.eos_id())


def end_text(tokenizer: Tokenizer, data: bytes) -> str:
    """Return the end-of-document token as text, from a `tokenizer.json`."""
    tokens = _vocabulary(data).items()
    return next(text for text, i in tokens if i == tokenizer.end_of_document)


def model_of(
    tokenizer: Tokenizer, data: bytes, policy: EndTokenInText = EndTokenInText.TOKEN
) -> Model:
    """Return the input of a backend."""
    name = encoding_name(tokenizer.address)
    match tokenizer.kind:
        case TokenizerKind.HUGGING_FACE:
            end = end_text(tokenizer, data)
        case TokenizerKind.TIKTOKEN:
            end = encoding_of(name, data).decode([tokenizer.end_of_document])
        case TokenizerKind.SENTENCEPIECE:
            processor = importlib.import_module("sentencepiece").SentencePieceProcessor()
            processor.LoadFromSerializedProto(data)
            end = processor.IdToPiece(tokenizer.end_of_document)
    return Model(tokenizer.kind, name, data, end, end_is_text=policy is EndTokenInText.TEXT)
