# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tokenizers: what they are, that fast ones are exact, and that wrong ones are refused."""

import base64
import importlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import huggingface_hub.errors
import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

import seatrial.dataprep.tokenizers.selection
from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.tasks.task_list import Tokenizer, TokenizerKind
from seatrial.dataprep.tokenizers import backends, locations
from seatrial.dataprep.tokenizers.edge_cases import edge_cases
from seatrial.dataprep.tokenizers.encoder import open_encoder
from seatrial.dataprep.tokenizers.identity import describe
from seatrial.dataprep.tokenizers.selection import choose_backend, first_difference
from seatrial.spec.data import EndTokenInText
from tests.unit.dataprep.gpt2 import gpt2_file
from tests.unit.dataprep.kernel_runs import (
    END,
    encoder,
    gpt2_json,
    naive,
    naive_tokens,
    naive_without_end,
)

END_TEXT = "<|endoftext|>"
EDGES = edge_cases(END_TEXT)


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpt2_file(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GPT-2's vocabulary as tiktoken's file; its ranks are its ids."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    codes = [*range(33, 127), *range(161, 173), *range(174, 256)]
    bytes_of = dict(zip(map(chr, codes), codes, strict=True))
    others = [code for code in range(256) if code not in codes]
    bytes_of |= {chr(256 + i): code for i, code in enumerate(others)}
    assert sorted(bytes_of) == letters
    vocabulary = json.loads(gpt2_json())["model"]["vocab"]
    lines = [
        f"{base64.b64encode(bytes(bytes_of[c] for c in token)).decode()} {rank}\n"
        for token, rank in sorted(vocabulary.items(), key=lambda item: item[1])
        if token != END_TEXT
    ]
    path = tmp_path_factory.mktemp("tiktoken") / "r50k_base.tiktoken"
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="session")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small SentencePiece model."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(EDGES * 2 + ["the ship leaves port at dawn"] * 50),
        model_writer=model,
        vocab_size=1000,
        model_type="bpe",
        byte_fallback=True,
        character_coverage=0.98,
        minloglevel=2,
    )
    path = tmp_path_factory.mktemp("sentencepiece") / "tokenizer.model"
    path.write_bytes(model.getvalue())
    return path


def test_a_tokenizer_json_is_described(gpt2: Path) -> None:
    tokenizer, data = describe(str(gpt2))
    assert tokenizer.kind is TokenizerKind.HUGGING_FACE
    assert (tokenizer.vocab_size, tokenizer.end_of_document) == (50257, END)
    assert tokenizer.token_bytes == 2
    assert data == gpt2.read_bytes()
    assert describe(str(gpt2.parent))[0] == tokenizer


def test_the_settings_beside_it_name_the_end(tmp_path: Path) -> None:
    content = json.loads(gpt2_json())
    content["added_tokens"].append(content["added_tokens"][0] | {"id": 50257, "content": "</s>"})
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(BadInputError, match="the end-of-document token is not specified") as error:
        describe(str(tmp_path))
    assert error.value.findings[0].code == InputCode.END_OF_DOCUMENT
    stated = {"eos_token": {"content": "</s>", "lstrip": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stated))
    tokenizer, _ = describe(str(tmp_path))
    assert (tokenizer.vocab_size, tokenizer.end_of_document) == (50258, 50257)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"{not json", b"[]", b'{"model": 1}'])
def test_what_is_no_tokenizer_is_an_error_of_the_user(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(BadInputError) as error:
        describe(str(tmp_path / "tokenizer.json"))
    assert error.value.findings[0].fix


def test_a_tokenizer_of_the_hub_is_pinned_to_its_commit(
    gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, str | None]] = []
    snapshot = tmp_path / "snapshots" / "607a30d783dfa663caf39e06633721c8d4cfcd7e"
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer.json").write_bytes(gpt2.read_bytes())

    def download(name: str, file: str, revision: str | None, local_files_only: bool) -> str:
        assert not local_files_only
        asked.append((name, file, revision))
        if not (snapshot / file).exists():
            raise huggingface_hub.errors.EntryNotFoundError(f"404 for {file}")
        return str(snapshot / file)

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda *_, **__: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    tokenizer, _ = describe("hf://openai-community/gpt2@main")
    assert tokenizer.address == f"hf://openai-community/gpt2@{snapshot.name}"
    assert asked == [
        ("openai-community/gpt2", "tokenizer.json", "main"),
        ("openai-community/gpt2", "tokenizer_config.json", "main"),
    ]
    (snapshot / "tokenizer.json").unlink()
    with pytest.raises(BadInputError, match=r"neither tokenizer\.json nor tokenizer\.model"):
        describe("hf://openai-community/gpt2")


def test_a_hub_that_is_silent_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    over = Event()
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda *_, **__: over.wait())
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(locations, "_PATIENCE", 0.3)
    try:
        with pytest.raises(BadInputError, match=r"does not respond \(not within 0 s\)"):
            describe("hf://openai-community/gpt2")
    finally:
        over.set()


def test_a_hub_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: str, **__: str | None) -> str:
        raise huggingface_hub.errors.LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda *_, **__: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(BadInputError, match="cannot be loaded from the Hub: no connection"):
        describe("hf://openai-community/gpt2")


@pytest.mark.parametrize("address", ["/no/such/tokenizer.json", "no-such-encoding"])
def test_an_absent_tokenizer_is_an_error_of_the_user(address: str) -> None:
    with pytest.raises(BadInputError) as error:
        describe(address)
    assert error.value.findings[0].code == InputCode.TOKENIZER


def test_a_file_of_ranks_needs_the_name_of_its_encoding(ranks: Path, tmp_path: Path) -> None:
    other = tmp_path / "mine.tiktoken"
    other.write_bytes(ranks.read_bytes())
    with pytest.raises(BadInputError, match="mine is not an encoding"):
        describe(str(other))


@pytest.mark.parametrize("backend", ["gigatoken", "fastokens"])
@pytest.mark.parametrize("policy", [EndTokenInText.TOKEN, EndTokenInText.TEXT])
def test_fast_backends_are_exact_on_the_edge_cases(backend: str, policy: EndTokenInText) -> None:
    tokens, lengths = encoder(backend).for_policy(policy).encode(EDGES)
    tokenizer = naive_without_end() if policy is EndTokenInText.TEXT else naive()
    lists = [tokenizer.encode(text, add_special_tokens=False).ids for text in EDGES]
    assert first_difference((tokens, lengths), backends.flat(lists)) is None
    assert (END in tokens) == (policy is EndTokenInText.TOKEN)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=80), max_size=8),
    backend=st.sampled_from(["gigatoken", "fastokens", "tokenizers"]),
    policy=st.sampled_from([EndTokenInText.TOKEN, EndTokenInText.TEXT]),
)
def test_documents_end_with_the_end(texts: list[str], backend: str, policy: EndTokenInText) -> None:
    using = encoder(backend).for_policy(policy)
    tokens, lengths = using.encode_documents(texts, np.dtype("<u2"))
    expected = [naive_tokens(text, policy) for text in texts]
    assert tokens.tolist() == [i for ids in expected for i in ids]
    assert lengths.tolist() == [len(ids) for ids in expected]


def test_what_is_encoded_decodes(gpt2: Path) -> None:
    text = "Ship ahoy! 漢字 <|endoftext|>"
    tokens, _ = encoder().encode([text])
    assert encoder().decode(tokens.tolist()) == text


def test_the_fastest_exact_backend_is_chosen(gpt2: Path) -> None:
    tokenizer, _ = describe(str(gpt2))
    choice = choose_backend(tokenizer, gpt2, ["some text of the corpus"])
    assert (choice.backend, choice.refused) == ("gigatoken", ())
    assert choice.version == backends.version_of("gigatoken")
    assert choice.compared == len(EDGES) + 1


def _breaking(kind: Callable[[backends.Model], backends.Backend], on: str) -> Any:
    class Breaking:
        """A backend that drops a token of one text."""

        def __init__(self, model: backends.Model) -> None:
            self._right = kind(model)

        def encode(self, texts: list[str]) -> backends.Encoded:
            lists = [self._right.encode([text])[0].tolist() for text in texts]
            return backends.flat(
                [ids[:-1] if text == on else ids for text, ids in zip(texts, lists, strict=True)]
            )

    return Breaking


def test_backends_that_err_are_refused_with_the_text(
    gpt2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = next(text for text in EDGES if "🙂" not in text and "漢字" in text)
    wrong = {
        "gigatoken": _breaking(backends.Gigatoken, edge),
        "fastokens": _breaking(backends.Fastokens, "a rare text of the corpus"),
    }
    monkeypatch.setattr(
        seatrial.dataprep.tokenizers.selection, "BACKENDS", backends.BACKENDS | wrong
    )
    tokenizer, _ = describe(str(gpt2))
    choice = choose_backend(tokenizer, gpt2, ["fine", "a rare text of the corpus"])
    assert choice.backend == "tokenizers"
    first, second = choice.refused
    assert first.backend.startswith("gigatoken ")
    assert f"edge case {EDGES.index(edge)}, {edge[:40]!a}" in first.reason
    assert "text of the sample 1, 'a rare text" in second.reason


def test_a_backend_has_to_be_exact_for_the_policy_of_the_spec_alone(
    gpt2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong_as_text(model: backends.Model) -> backends.Backend:
        kind = _breaking(backends.Gigatoken, EDGES[-1]) if model.end_is_text else backends.Gigatoken
        return kind(model)

    module = seatrial.dataprep.tokenizers.selection
    monkeypatch.setattr(module, "BACKENDS", backends.BACKENDS | {"gigatoken": wrong_as_text})
    tokenizer, _ = describe(str(gpt2))
    chosen = [
        choose_backend(tokenizer, gpt2, [], policy).backend
        for policy in (EndTokenInText.TOKEN, EndTokenInText.BAD, EndTokenInText.TEXT)
    ]
    assert chosen == ["gigatoken", "gigatoken", "fastokens"]


def test_the_reference_is_loaded_once(gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[bool] = []

    def counted(model: backends.Model) -> backends.Backend:
        loaded.append(model.end_is_text)
        return backends.HuggingFace(model)

    monkeypatch.setitem(backends.BACKENDS, "tokenizers", counted)
    backends.reference_backend.cache_clear()
    tokenizer, _ = describe(str(gpt2))
    choice = choose_backend(tokenizer, gpt2, ["text"])
    opened = open_encoder(tokenizer, gpt2, choice.backend)
    assert opened.reference.encode(["text"])[1].tolist() == [1]
    open_encoder(tokenizer, gpt2, "tokenizers").renew()
    assert loaded == [False]
    backends.reference_backend.cache_clear()


def test_backends_that_fail_or_are_absent_are_refused(
    gpt2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicError(BaseException):
        pass

    def panics(_: backends.Model) -> backends.Backend:
        raise PanicError("index out of bounds")

    def version(name: str) -> str:
        if name == "fastokens":
            raise ImportError(name)
        return "1"

    module = seatrial.dataprep.tokenizers.selection
    monkeypatch.setattr(module, "BACKENDS", backends.BACKENDS | {"gigatoken": panics})
    monkeypatch.setattr(module, "version_of", version)
    tokenizer, _ = describe(str(gpt2))
    choice = choose_backend(tokenizer, gpt2, [])
    assert choice.backend == "tokenizers"
    assert [refusal.reason for refusal in choice.refused] == [
        "it fails: index out of bounds.",
        "it is not installed.",
    ]


def test_tiktoken_gives_the_tokens_of_its_vocabulary(ranks: Path) -> None:
    tokenizer, _ = describe(str(ranks))
    assert tokenizer.kind is TokenizerKind.TIKTOKEN
    assert (tokenizer.vocab_size, tokenizer.end_of_document) == (50257, END)
    choice = choose_backend(tokenizer, ranks, ["text"])
    opened = open_encoder(tokenizer, ranks, choice.backend)
    for policy in (EndTokenInText.TOKEN, EndTokenInText.TEXT):
        tokens, lengths = opened.for_policy(policy).encode_documents(EDGES, np.dtype("<u2"))
        expected = [naive_tokens(text, policy) for text in EDGES]
        assert lengths.tolist() == [len(ids) for ids in expected]
        assert tokens.tolist() == [i for ids in expected for i in ids]


def test_sentencepiece_gives_the_tokens_of_its_library(pieces: Path) -> None:
    tokenizer, _ = describe(str(pieces))
    assert tokenizer.kind is TokenizerKind.SENTENCEPIECE
    assert (tokenizer.vocab_size, tokenizer.end_of_document) == (1000, 2)
    choice = choose_backend(tokenizer, pieces, ["the ship"])
    opened = open_encoder(tokenizer, pieces, choice.backend)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    tokens, lengths = opened.encode_documents(EDGES, np.dtype("<u2"))
    lists = [processor.EncodeAsIds(text) for text in EDGES]
    assert lengths.tolist() == [len(ids) + bool(ids) for ids in lists]
    assert tokens.tolist() == [i for ids in lists for i in (*ids, 2) if ids]


def test_differences_are_found_by_text() -> None:
    def encoded(*lists: list[int]) -> backends.Encoded:
        return backends.flat(lists)

    assert first_difference(encoded([1, 2], [], [3]), encoded([1, 2], [], [3])) is None
    assert first_difference(encoded([1, 2], [], [3]), encoded([1, 2], [], [4])) == 2
    assert first_difference(encoded([1, 2], [], [3]), encoded([1], [2], [3])) == 0
    assert first_difference(encoded([1], [9], [3]), encoded([1], [2], [3, 4])) == 1
    assert first_difference(encoded([1], [2], [3]), encoded([1], [2, 2], [3])) == 1


def test_a_width_of_four_bytes_from_65500_on() -> None:
    sizes = [65_499, 65_500]
    made = [Tokenizer(TokenizerKind.HUGGING_FACE, "", "", size, 0) for size in sizes]
    assert [each.token_bytes for each in made] == [2, 4]


def test_an_interrupt_while_a_backend_loads_is_not_taken_for_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """gigatoken imports awkward in its first call, and swallows whatever that raises."""
    load = importlib.import_module

    def interrupted(name: str) -> object:
        if name == "awkward":
            raise KeyboardInterrupt
        return load(name)

    monkeypatch.setattr(importlib, "import_module", interrupted)
    data = json.dumps({}).encode()
    model = backends.Model(
        TokenizerKind.HUGGING_FACE, "tokenizer.json", data, "<|endoftext|>", False
    )
    with pytest.raises(KeyboardInterrupt):
        backends.BACKENDS["gigatoken"](model)
