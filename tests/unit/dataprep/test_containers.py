# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The same documents give the same data set, whatever they are stored in."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.dataprep.estimate import estimate
from seatrial.dataprep.inspection import verify_at
from seatrial.dataprep.prepare import list_tasks, prepare
from seatrial.dataprep.tasks.task_list import Compression, InputFormat, thaw
from seatrial.sdk.plan import plan
from tests.unit.dataprep.kernel_runs import (
    counts_add_up,
    jsonl,
    listed,
    naive_tokens,
    packed,
    run,
    tarred,
)
from tests.unit.dataprep.kernel_runs import written as stored
from tests.unit.dataprep.little_corpus import SPEC, InlineDriver, documents, tokenizer_json

Files = Sequence[tuple[str, bytes]]

# Texts that each format can hold: one line, not blank, and no control characters.
LINE = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)


def containers(texts: Sequence[str]) -> Iterator[tuple[str, Files, dict[str, str]]]:
    """The documents in every format, with the settings of the source."""
    rows = [{"text": text} for text in texts]
    named = [(f"{number:05}", text.encode()) for number, text in enumerate(texts)]
    lines = jsonl(rows)
    half = len(jsonl(rows[: len(rows) // 2]))
    halves = [("1.jsonl", lines[:half]), ("2.jsonl", lines[half:])]
    objects = [(f"{key}.json", json.dumps(row, indent=1).encode())
               for (key, _), row in zip(named, rows, strict=True)]  # fmt: skip
    plain: list[tuple[str, Files, dict[str, str]]] = [
        ("JSON lines", halves, {}),
        ("text files", [(f"{key}.txt", data) for key, data in named], {}),
        ("lines of text", [("a.txt", "\n".join(texts).encode())], {"format": "text-lines"}),
        ("paragraphs", [("a.txt", "\n\n".join(texts).encode())], {"format": "text-paragraphs"}),
        ("a tar of JSON lines", [("a.tar", tarred(halves))], {}),
        ("a tar of text", [("a.tar", tarred([(f"{k}.txt", d) for k, d in named]))], {}),
        ("a tar of objects", [("a.tar", tarred(objects))], {}),
        (
            "a WebDataset",
            [("a.tar", tarred([x for (key, data), row in zip(named, objects, strict=True)
                               for x in (row, (f"{key}.txt", data), (f"{key}.cls", b"7"))]))],
            {},
        ),
    ]  # fmt: skip
    for name, files, options in plain:
        yield name, files, options
        for packing in Compression:
            small = [(f"{file}{packing}", packed(data, f"x{packing}")) for file, data in files]
            yield f"{name}, {packing}", small, options
    inner = [(f"{file}{p}", packed(data, f"x{p}"))
             for (file, data), p in zip(halves, Compression, strict=False)]  # fmt: skip
    yield "a tar of compressed files", [("a.tar", tarred(inner))], {}
    yield "a short suffix", [("a.tgz", packed(tarred(halves), "x.gz"))], {}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), sink)
    yield "Parquet", [("a.parquet", bytes(sink.getvalue()))], {}


def spec_of(home: Path, files: Files, options: dict[str, str], address: str = "corpus") -> Path:
    (home / "corpus").mkdir(parents=True)
    for name, data in files:
        (home / "corpus" / name).write_bytes(data)
    (home / "tokenizer.json").write_text(tokenizer_json())
    entry = {"from": str(home / address), "name": "s", **options}
    spec = home / "run.yaml"
    spec.write_text(
        SPEC.format(
            sources=f"    - {json.dumps(entry)}",
            tokenizer=home / "tokenizer.json",
            location=home / "out",
        )
    )
    return spec


def written(home: Path) -> dict[str, bytes]:
    """The pairs of a data set."""
    out = home / "out"
    return {path.name: path.read_bytes() for path in out.iterdir() if path.suffix in _PAIR}


_PAIR = (".bin", ".idx")


@settings(max_examples=3, deadline=None)
@given(texts=st.lists(LINE, min_size=3, max_size=12))
def test_the_same_documents_in_every_container_give_the_same_tokens(texts: list[str]) -> None:
    expected = [naive_tokens(text) for text in texts]
    with TemporaryDirectory() as directory:
        for number, (name, files, options) in enumerate(containers(texts)):
            home = Path(directory) / str(number)
            home.mkdir()
            inputs = [stored(home, *file) for file in files]
            if "format" in options:
                inputs = [replace(file, format=InputFormat(options["format"])) for file in inputs]
            ran = run(listed(inputs), home / "out")
            assert ran.documents == {"": expected}, name
            counts_add_up(ran)


def test_containers_give_the_same_pair_and_are_estimated_and_verified(tmp_path: Path) -> None:
    texts = [str(each["text"]) or "x" for each in documents(1, 40)]
    first: dict[str, bytes] = {}
    # Each format once, each compression once, and each compression of an archive.
    for number, (name, files, options) in enumerate(containers(texts)):
        is_packed = any(packing in name for packing in Compression)
        if is_packed and not name.startswith(("JSON lines", "a WebDataset")):
            continue
        home = tmp_path / str(number)
        wanted = plan(spec_of(home, files, options))
        prepare(wanted, InlineDriver())
        first = first or written(home)
        assert sorted(first) == ["s-00000.bin", "s-00000.idx"]
        assert written(home) == first, name
        assert not verify_at(str(home / "out")), name
        if len(files) <= 2:
            found = estimate(wanted, 1)
            assert round(found.documents.middle) == len(texts), name


def test_an_interrupted_preparation_of_archives_continues(tmp_path: Path) -> None:
    texts = [str(each["text"]) or "x" for each in documents(1, 40)]
    archive = tarred([(f"{number}.txt", text.encode()) for number, text in enumerate(texts)])
    files = [(f"{number}.tar.xz", packed(archive, "x.xz")) for number in range(3)]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    prepare(plan(spec_of(whole, files, {})), InlineDriver())
    wanted = plan(spec_of(cut, files, {}))
    (task,) = thaw(list_tasks(wanted)[0]).tasks
    assert [Path(file.address).name for file in task.inputs] == [name for name, _ in files]
    try:
        prepare(wanted, InlineDriver(stop_after=0))
    except KeyboardInterrupt:
        prepare(wanted, InlineDriver())
    assert written(cut) == written(whole)


def test_the_layout_of_oscar(tmp_path: Path) -> None:
    # A directory per language; the text is in `content`, and the language in `metadata`.
    def lines(label: str, texts: Sequence[str]) -> bytes:
        return jsonl(
            [
                {
                    "content": text,
                    "warc_headers": {"content-length": "2", "warc-type": "conversion"},
                    "metadata": {"identification": {"label": label, "prob": 0.9}},
                }
                for text in texts
            ]
        )

    spec = spec_of(
        tmp_path,
        [],
        {
            "files": "{de,fr}_meta/*.jsonl.zst",
            "text_field": "content",
            "domain_field": "metadata.identification.label",
        },
    )
    for language, label in (("de", "de"), ("fr", "fr"), ("en", "en")):
        folder = tmp_path / "corpus" / f"{language}_meta"
        folder.mkdir()
        data = packed(lines(label, ["eins zwei", "drei"]), "x.zst")
        (folder / f"{language}_meta_part_1.jsonl.zst").write_bytes(data)
        (folder / "checksum.sha256").write_text("0" * 64)
    outcome = prepare(plan(spec), InlineDriver())
    assert [file.name for file in outcome.record.files] == ["s-de-00000", "s-fr-00000"]
    assert [file.documents for file in outcome.record.files] == [2, 2]


def test_the_layout_of_older_releases_of_oscar(tmp_path: Path) -> None:
    # Text with blank lines between documents, next to metadata and checksums.
    options = {"files": "de/de*.txt.gz", "format": "text-paragraphs"}
    spec = spec_of(tmp_path, [], options)
    folder = tmp_path / "corpus" / "de"
    folder.mkdir()
    (folder / "de_part_1.txt.gz").write_bytes(packed(b"eins\nzwei\n\ndrei\n", "x.gz"))
    (folder / "de_meta_part_1.jsonl.gz").write_bytes(packed(b'{"headers": {}}\n', "x.gz"))
    (folder / "de_sha256.txt").write_text("0" * 64)
    outcome = prepare(plan(spec), InlineDriver())
    assert [file.documents for file in outcome.record.files] == [2]
