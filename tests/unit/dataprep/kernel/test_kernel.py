# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel against a naive reference: json, Hugging Face tokenizers, one document at a time."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.kernel import run as kernel
from seatrial.dataprep.kernel.parts import MOST_DOMAINS
from seatrial.dataprep.kernel.run import ONE_IN, chosen
from seatrial.dataprep.tasks.records import record_file
from seatrial.dataprep.tasks.task_list import InputFile
from seatrial.dataprep.tokenizers.backends import Encoded
from seatrial.dataprep.tokenizers.encoder import Encoder
from seatrial.spec.data import EmptyDocuments, EndTokenInText
from seatrial.storage.directory import LocalStore
from tests.unit.dataprep.kernel_runs import (
    END,
    GPT2,
    counts_add_up,
    encoder,
    jsonl,
    listed,
    naive_tokens,
    packed,
    run,
    written,
)

TEXTS = [
    "Hello world",
    "",
    "naïve café \r\n\t 漢字 🙂",
    "<|endoftext|> inside <|endoftext|>",
    " a  b ",
]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
PIECE = st.one_of(TEXT, st.sampled_from([*TEXTS, "<|", "<|endoftext|>", "\0", "\n\n", "e" * 500]))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet"])
def test_every_format_gives_the_tokens_of_the_reference(name: str, tmp_path: Path) -> None:
    path = tmp_path / "made.parquet"
    pq.write_table(pa.table({"id": list(range(5)), "text": TEXTS}), path)
    content = jsonl([{"id": i, "text": text} for i, text in enumerate(TEXTS)])
    stored = path.read_bytes() if name == "a.parquet" else packed(content, name)
    ran = run(listed([written(tmp_path, name, stored)]), tmp_path / "out")
    assert ran.documents == {"": [naive_tokens(text) for text in TEXTS]}
    counts = ran.record.counts
    assert (counts.lines, counts.bad, counts.input_bytes) == (5, {}, len(stored))
    assert counts.text_bytes == sum(len(text.encode()) for text in TEXTS)
    counts_add_up(ran)


def test_text_files_are_a_document_each(tmp_path: Path) -> None:
    names = ["a.txt", "b.txt.gz", "c.txt.zst"]
    inputs = [
        written(tmp_path, name, packed(text.encode(), name))
        for name, text in zip(names, TEXTS, strict=False)
    ]
    ran = run(listed(inputs), tmp_path / "out")
    assert ran.documents[""] == [naive_tokens(text) for text in TEXTS[:3]]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    texts=st.lists(st.lists(PIECE, max_size=4).map("".join), max_size=12),
    policy=st.sampled_from([EndTokenInText.TOKEN, EndTokenInText.TEXT]),
    empty=st.sampled_from(EmptyDocuments),
    backend=st.sampled_from(["gigatoken", "fastokens", "tokenizers"]),
    enough=st.sampled_from([1, 100, 1 << 23]),
)
def test_any_documents_give_the_tokens_of_the_reference(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    texts: list[str],
    policy: EndTokenInText,
    empty: EmptyDocuments,
    backend: str,
    enough: int,
) -> None:
    monkeypatch.setattr(kernel, "_ENOUGH", enough)
    domains = [str(len(text) % 3) for text in texts]
    rows = [{"text": t, "meta": {"d": d}} for t, d in zip(texts, domains, strict=True)]
    tasks = listed(
        [written(tmp_path, "a.jsonl", jsonl(rows))],
        domain_field="meta.d",
        end_token_in_text=policy,
        empty_documents=empty,
    )
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    ran = run(tasks, folder, using=encoder(backend))
    expected: dict[str, list[list[int]]] = {}
    for text, domain in zip(texts, domains, strict=True):
        ids = naive_tokens(text, policy)
        if ids or empty is EmptyDocuments.KEEP:
            expected.setdefault(domain, []).append(ids)
    assert ran.documents == expected
    # The reference, which steps in for a backend that fails, would be right as well.
    assert ran.record.backend.split()[0] == backend
    assert "," not in ran.record.backend
    counts_add_up(ran)


def test_domains_are_files_by_number_in_the_order_of_appearance(tmp_path: Path) -> None:
    names = ["../../etc", "b", "../../etc", "", "b"]
    rows = [{"text": f"text {i}", "d": name} for i, name in enumerate(names)]
    tasks = listed([written(tmp_path, "a.jsonl", jsonl(rows))], domain_field="d")
    ran = run(tasks, tmp_path / "out")
    assert [file.domain for file in ran.record.files] == ["../../etc", "b", ""]
    assert ran.documents["../../etc"] == [naive_tokens("text 0"), naive_tokens("text 2")]
    assert all("etc" not in file.tokens_file for file in ran.record.files)


def test_many_domains_share_a_temporary_file(tmp_path: Path) -> None:
    rows = [{"text": f"text {i}", "d": str(i % 40)} for i in range(120)]
    tasks = listed([written(tmp_path, "a.jsonl", jsonl(rows))], domain_field="d")
    ran = run(tasks, tmp_path / "out")
    assert ran.documents == {
        str(d): [naive_tokens(f"text {i}") for i in range(d, 120, 40)] for d in range(40)
    }


def test_too_many_domains_are_an_error(tmp_path: Path) -> None:
    rows = [{"text": "t", "d": str(i)} for i in range(MOST_DOMAINS + 1)]
    tasks = listed([written(tmp_path, "a.jsonl", jsonl(rows))], domain_field="d")
    with pytest.raises(BadInputError, match="more than 1,000 values") as error:
        run(tasks, tmp_path / "out")
    assert error.value.findings[0].code == InputCode.DOMAINS
    assert not list((tmp_path / "out").rglob("*.*"))


def test_the_end_token_can_be_bad(tmp_path: Path) -> None:
    rows = [{"text": text} for text in TEXTS]
    tasks = listed(
        [written(tmp_path, "a.jsonl", jsonl(rows))],
        end_token_in_text=EndTokenInText.BAD,
        largest_bad_share=0.5,
    )
    ran = run(tasks, tmp_path / "out")
    assert ran.documents[""] == [naive_tokens(text) for text in TEXTS if "<|endof" not in text]
    assert [(line["line"], line["reason"]) for line in ran.quarantine] == [(4, "end-token-in-text")]
    counts_add_up(ran)


def test_too_many_bad_lines_fail_with_the_first_places(tmp_path: Path) -> None:
    data = jsonl([{"text": "good"}] * 8) + b'{"text": 1}\nnonsense\n'
    file = written(tmp_path, "a.jsonl", data)
    with pytest.raises(BadInputError) as error:
        run(listed([file], largest_bad_share=0.1), tmp_path / "out")
    (finding,) = error.value.findings
    assert finding.code == InputCode.BAD_SHARE
    assert (finding.where.file, finding.where.line) == (file.address, 9)
    assert "2 of 10 lines" in finding.rule
    assert f"{file.address}:10 (not-json)" in finding.rule
    assert not list((tmp_path / "out").rglob("*.*"))
    ran = run(listed([file], largest_bad_share=0.2), tmp_path / "out")
    assert ran.record.counts.bad == {"not-json": 1, "text-not-a-string": 1}
    offsets = [line["offset"] for line in ran.quarantine]
    assert [data[at:].split(b"\n")[0] for at in offsets] == [b'{"text": 1}', b"nonsense"]


def test_who_loses_the_race_leaves_nothing(tmp_path: Path) -> None:
    tasks = listed(
        [written(tmp_path, "a.jsonl", jsonl([{"text": "x"}, {"text": 1}]))], largest_bad_share=1.0
    )
    first = run(tasks, tmp_path / "out", "first")
    files = sorted(file.path for file in LocalStore(tmp_path / "out").list())
    second = run(tasks, tmp_path / "out", "second")
    assert second.record == first.record
    assert second.record.attempt == "first"
    assert sorted(file.path for file in LocalStore(tmp_path / "out").list()) == files
    assert record_file(tasks.name, 0) in files


def test_progress_ends_with_all_bytes(tmp_path: Path) -> None:
    inputs = [
        written(tmp_path, f"{i}.jsonl.zst", packed(jsonl([{"text": "x" * 10}] * 5), "x.zst"))
        for i in range(3)
    ]
    tasks, told = listed(inputs), list[int]()
    kernel.run_task(
        tasks.tasks[0], tasks, LocalStore(tmp_path / "out"), encoder(), "a", told.append
    )
    assert told == sorted(told)
    assert told[-1] == sum(file.size for file in inputs)


def test_one_document_in_a_thousand_is_audited() -> None:
    share = chosen(3, np.arange(1_000_000)).mean() * ONE_IN
    assert 0.95 < share < 1.05
    assert not np.array_equal(chosen(3, np.arange(10_000)), chosen(4, np.arange(10_000)))


class Wrong:
    """A backend that is wrong about one word."""

    def __init__(self, right: Encoder) -> None:
        self._right = right

    def encode(self, texts: list[str]) -> Encoded:
        return self._right.encode([text.replace("ship", "boat") for text in texts])


def test_the_audit_finds_a_backend_that_errs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Encoder(encoder().tokenizer, encoder()._model, "gigatoken")
    wrong._library = Wrong(encoder("tokenizers"))  # type: ignore[assignment]
    rows = [{"text": f"document {i}"} for i in range(3000)]
    at = int(np.flatnonzero(chosen(0, np.arange(3000)))[0])
    rows[at] = {"text": "a ship"}
    file = written(tmp_path, "a.jsonl", jsonl(rows))
    with pytest.raises(BadInputError, match="give different tokens for this document") as error:
        run(listed([file]), tmp_path / "out", using=wrong)
    assert error.value.findings[0].where.line == at + 1
    assert not list((tmp_path / "out").rglob("*.*"))


def test_ids_out_of_the_vocabulary_are_an_error(tmp_path: Path) -> None:
    class Large:
        def encode(self, texts: list[str]) -> Encoded:
            return np.full(len(texts), 65_536 + END, np.uint32), np.ones(len(texts), np.int64)

    wrong = Encoder(encoder().tokenizer, encoder()._model, "gigatoken")
    wrong._library = Large()  # type: ignore[assignment]
    with pytest.raises(BadInputError, match="the ID 115792, which is outside the vocabulary"):
        run(listed([written(tmp_path, "a.jsonl", jsonl([{"text": "x"}]))]), tmp_path, using=wrong)


def test_a_backend_that_gives_up_is_replaced_by_the_reference(tmp_path: Path) -> None:
    class Panic(BaseException):
        pass

    class Panicking:
        def encode(self, texts: list[str]) -> Encoded:
            raise Panic

    broken = Encoder(encoder().tokenizer, encoder()._model, "gigatoken")
    broken._library = Panicking()  # type: ignore[assignment]
    file = written(tmp_path, "a.jsonl", jsonl([{"text": text} for text in TEXTS]))
    ran = run(listed([file]), tmp_path / "out", using=broken)
    assert ran.documents[""] == [naive_tokens(text) for text in TEXTS]
    assert "and tokenizers" in ran.record.backend


def test_the_tokenizer_is_loaded_anew_when_memory_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [100, 600, 90, 100, 800, 700, 790]
    monkeypatch.setattr(kernel, "memory_in_use", lambda: held.pop(0) << 20 if held else 0)
    monkeypatch.setattr(kernel, "_ENOUGH", 1)
    renewed: list[int] = []
    renew = Encoder.renew

    def counted(self: Encoder) -> None:
        renewed.append(len(held))
        renew(self)

    monkeypatch.setattr(Encoder, "renew", counted)
    inputs = [written(tmp_path, f"{i}.jsonl", jsonl([{"text": f"text {i}"}])) for i in range(5)]
    ran = run(listed(inputs), tmp_path / "out", using=Encoder(GPT2, encoder()._model, "gigatoken"))
    assert ran.documents[""] == [naive_tokens(f"text {i}") for i in range(5)]
    # At 600 and at 800, and not at 790: 700 were left, so that did not help.
    assert renewed == [5, 2]


def test_lengths_are_counted_by_powers_of_two(tmp_path: Path) -> None:
    texts = ["", "x", "x y", "x y z", "a " * 8]
    tasks = listed([written(tmp_path, "a.jsonl", jsonl([{"text": text} for text in texts]))])
    ran = run(tasks, tmp_path / "out")
    lengths = [len(ids) for ids in ran.documents[""]]
    assert [ran.record.lengths[n.bit_length()] for n in lengths] == [
        sum(m.bit_length() == n.bit_length() for m in lengths) for n in lengths
    ]
    assert sum(ran.record.lengths) == 5


def all_bad(tmp_path: Path, good: int = 0) -> InputFile:
    """A plain file of some 5 MB of which every line lacks the text, after so many that have it."""
    lines = [{"text": f"text {i}"} for i in range(good)]
    lines += [{"content": f"line {i} {'x' * 80}"} for i in range(50_000)]
    return written(tmp_path, "a.jsonl", jsonl(lines))


def test_a_task_of_which_no_line_is_good_ends_early(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"all of the first \d+,\d+ lines") as raised:
        run(listed([all_bad(tmp_path)]), tmp_path / "out")
    (finding,) = raised.value.findings
    assert finding.code == InputCode.BAD_SHARE
    assert (finding.where.line, finding.where.file) == (1, str(tmp_path / "a.jsonl"))
    assert "no-text-field" in finding.rule
    assert '{"content": "line 0' in finding.rule
    # Not after all of it, and nothing is left.
    assert int(re.findall(r"first ([\d,]+)", finding.rule)[0].replace(",", "")) < 40_000
    assert not list((tmp_path / "out").rglob("*.*"))


@pytest.mark.parametrize(("good", "share"), [(1, 1e-4), (0, 0.9), (0, 1.0)])
def test_no_task_ends_early_that_may_still_pass(tmp_path: Path, good: int, share: float) -> None:
    tasks = listed([all_bad(tmp_path, good)], largest_bad_share=share)
    if share == 1:
        assert run(tasks, tmp_path / "out").record.counts.bad == {"no-text-field": 50_000}
        return
    with pytest.raises(BadInputError, match=rf"50,000 of {50_000 + good:,} lines"):
        run(tasks, tmp_path / "out")
