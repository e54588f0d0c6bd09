# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs that are broken in every way, and what has to hold for each of them."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from seatrial.codes.data import BadInputError
from seatrial.spec.data import EmptyDocuments, EndTokenInText
from tests.unit.dataprep.kernel_runs import (
    counts_add_up,
    listed,
    naive_tokens,
    packed,
    run,
    written,
)

TEXTS = ("Plain words.", "", "漢字 🙂 é", "a\r\n b", "<|endoftext|>", "x" * 300, "tab\tnul\0")
DOMAINS = ("web", "../../up", "/etc/passwd", "a\0b", "", "..", "C:\\x", "d" * 300)


def _line(rng: random.Random) -> bytes:
    """A line of a file: most often good."""
    text = rng.choice(TEXTS)
    good: dict[str, Any] = {"text": text, "meta": {"d": rng.choice(DOMAINS)}, "n": rng.random()}
    line = json.dumps(good, ensure_ascii=rng.random() < 0.5).encode()
    kinds: list[Callable[[], bytes]] = [
        lambda: line[: rng.randrange(len(line))],
        lambda: line.replace(b'"text"', rng.choice([b'"txt"', b'"Text"', b'"\\u0074ext"'])),
        lambda: json.dumps(
            good | {"text": rng.choice([None, 1, ["x"], {"text": "y"}, True])}
        ).encode(),
        lambda: (
            line.replace(b'"n"', b'"text"', 1) if rng.random() < 0.5 else b'{"text":"a","text":"b"}'
        ),
        lambda: line.replace(b'"text": "', b'"text": "\\ud800', 1),
        lambda: line.replace(b'"text": "', b'"text": "\\udc00\\ud800x', 1),
        lambda: line.replace(
            b'"text": "', b'"text": "' + rng.choice([b"\xff", b"\xc3", b"\xed\xa0\x80"]), 1
        ),
        lambda: line.replace(b'"text": "', b'"text": "\0', 1),
        lambda: b'{"text": "x", "deep": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        lambda: b'{"text": "x", "deep": ' + b'{"a":' * 5000,
        lambda: b"[" + line + b"]",
        lambda: rng.choice(
            [b"", b"  ", b"\r", b"null", b"1e999", b'"text"', b"\xef\xbb\xbf" + line]
        ),
        lambda: bytes(rng.randrange(256) for _ in range(rng.randrange(40))).replace(b"\n", b""),
        lambda: line.replace(b'"n": 0', b'"n": 1e999', 1),
        lambda: line + b"\r",
        lambda: line.replace(b'"meta"', b'"Meta"', 1),
    ]
    return rng.choice(kinds)() if rng.random() < 0.4 else line


def _flipped(rng: random.Random, data: bytes) -> bytes:
    """Damage of what is stored: cut off, bits turned, a piece lost, doubled or put in."""
    if not data:
        return data
    out, at = bytearray(data), rng.randrange(len(data))
    match rng.randrange(6):
        case 0:
            return data[:at]
        case 1:
            out[at] ^= 1 << rng.randrange(8)
        case 2:
            del out[at : at + rng.randrange(1, 20)]
        case 3:
            out[at:at] = os.urandom(rng.randrange(1, 20))
        case 4:
            out += data[: rng.randrange(len(data))]
        case _:
            out += bytes(rng.randrange(1, 20))
    return bytes(out)


def _parquet(rng: random.Random) -> bytes:
    """A Parquet file that may lack the column, have another type in it, or rows of nothing."""
    values: list[Any] = [rng.choice([*TEXTS, None]) for _ in range(rng.randrange(20))]
    columns: dict[str, Any] = {
        "text": rng.choice(
            [
                pa.array(values, pa.string()),
                pa.array(values, pa.large_string()),
                pa.array(values, pa.string()).dictionary_encode(),
                pa.array(range(len(values))),
                pa.array([b"\xff\xfe"] * len(values), pa.binary()),
            ]
        ),
        "meta": pa.array([{"d": rng.choice([*DOMAINS, None])} for _ in values]),
    }
    if rng.random() < 0.2:
        del columns[rng.choice(["text", "meta"])]
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=rng.choice([1, 3, 1000]))
    return sink.getvalue()


def _naive(content: bytes, domain: bool) -> list[str]:
    """The texts of JSON lines by Python's own json, one line at a time."""
    texts = []
    for number, line in enumerate(content.split(b"\n")):
        try:
            whole = json.loads(line.decode("utf-8" if number else "utf-8-sig"))
            # Numbers and strings that are none in strict JSON, anywhere in the line.
            json.dumps(whole, ensure_ascii=False, allow_nan=False).encode()
            name = whole["meta"]["d"] if domain else ""
            if isinstance(whole["text"], str) and isinstance(name, str) and len(name) <= 256:
                texts.append(whole["text"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return texts


def _naive_rows(stored: bytes, domain: bool) -> tuple[list[str], int]:
    """The texts of a Parquet file all at once, as Python objects; and how many rows it has."""
    # Damage of a column that is not wanted is not seen.
    columns = ["text", *(["meta"] if domain else [])]
    rows = pq.read_table(io.BytesIO(stored), columns=columns).to_pylist()
    texts = []
    for row in rows:
        name = (row["meta"] or {}).get("d") if domain else ""
        if isinstance(row["text"], str) and isinstance(name, str) and len(name) <= 256:
            texts.append(row["text"])
    return texts, len(rows)


def _naive_text(content: bytes, domain: bool) -> list[str]:
    """The text of a file that is one document."""
    try:
        return [] if domain else [content.decode("utf-8-sig")]
    except UnicodeDecodeError:
        return []


def _unpacked(stored: bytes, name: str) -> bytes:
    """The content by other functions than the reader's; an error when it is not whole."""
    if name.endswith(".gz"):
        return gzip.decompress(stored)
    if name.endswith(".xz"):
        # Zeros may follow the stream.
        return lzma.decompress(stored.rstrip(b"\0"))
    if name.endswith(".bz2"):
        return bz2.decompress(stored)
    if not name.endswith(".zst"):
        return stored
    content = b""
    while stored:
        frame = zstandard.ZstdDecompressor().decompressobj()
        content += frame.decompress(stored)
        if not frame.eof:
            raise ValueError("cut")
        stored = frame.unused_data
    return content


def try_one(seed: int, folder: Path) -> bool:
    """Prepare one mutated input; says whether it gave data, or else the declared error."""
    rng = random.Random(seed)  # noqa: S311
    name = rng.choice(
        [
            *("a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.jsonl.xz", "a.jsonl.bz2"),
            *("a.txt", "a.parquet", "a.txt.zst"),
        ]
    )
    content = b"\n".join(_line(rng) for _ in range(rng.randrange(30))) + rng.choice([b"", b"\n"])
    stored = _parquet(rng) if name == "a.parquet" else packed(content, name)
    damaged = rng.random() < 0.3
    stored = _flipped(rng, stored) if damaged else stored
    domain = rng.random() < 0.5
    tasks = listed(
        [written(folder, name, stored)],
        domain_field="meta.d" if domain else None,
        largest_bad_share=1.0,
        end_token_in_text=rng.choice(list(EndTokenInText)),
        empty_documents=rng.choice(list(EmptyDocuments)),
    )
    out = folder / "in" / "out"
    failed: BadInputError | None = None
    try:
        ran = run(tasks, out)
    except BadInputError as error:
        failed = error
    assert {path.name for path in folder.iterdir()} <= {name, "in"}
    assert {path.name for path in (folder / "in").glob("*")} <= {"out"}
    if failed is not None:
        assert all(finding.fix and finding.where.file for finding in failed.findings)
        assert [path.name for path in folder.rglob("*") if path.is_file()] == [name]
        return False
    counts_add_up(ran)
    # A run that did not fail had a whole file, and lost no line of it.
    if name == "a.parquet":
        texts, lines = _naive_rows(stored, domain)
    else:
        whole = _unpacked(stored, name)
        pieces = whole.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        is_text = ".txt" in name
        lines = 1 if is_text else sum(1 for piece in pieces if piece.strip())
        texts = _naive_text(whole, domain) if is_text else _naive(whole, domain)
    assert ran.record.counts.lines == lines
    _compare(ran.documents, texts, tasks.settings.end_token_in_text, tasks)
    return True


def _compare(
    documents: dict[str, list[list[int]]], texts: list[str], policy: EndTokenInText, tasks: Any
) -> None:
    """See that the documents are those of the naive reading, over all domains."""
    if policy is EndTokenInText.BAD:
        texts = [text for text in texts if "<|endoftext|>" not in text]
    expected = [naive_tokens(text, policy) for text in texts]
    if tasks.settings.empty_documents is EmptyDocuments.DROP:
        expected = [ids for ids in expected if ids]
    found = [ids for each in documents.values() for ids in each]
    assert sorted(found) == sorted(expected)
