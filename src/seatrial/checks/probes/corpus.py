# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the start of a corpus: the fields of its documents, or why they cannot be read."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.documents.archive import kind_of
from seatrial.dataprep.documents.decompression import Content, content_of
from seatrial.dataprep.documents.tar_stream import members_of
from seatrial.dataprep.inputs.selection import Listed, format_of
from seatrial.dataprep.tasks.task_list import InputFormat, compression_of

BEGINNING = 1 << 20
"""Maximum number of bytes to read from a file."""
MOST_LINES = 100
"""Number of lines to parse. The corpus is unreadable only if none of them can be parsed."""

_TEXT_PER_STORED_BYTE = 3.0
"""Typical compression ratio of text."""
_BYTES_PER_TOKEN = 4.0
"""Typical size of a token in English text."""


def rough_tokens(files: Iterable[tuple[str, int]]) -> int:
    """Estimate the tokens in files from their names and sizes, to within a factor of about 2."""
    text = sum(size * (_TEXT_PER_STORED_BYTE if _is_packed(path) else 1) for path, size in files)
    return round(text / _BYTES_PER_TOKEN)


def _is_packed(path: str) -> bool:
    """True unless the name shows plain text."""
    return compression_of(path) is not None or format_of(path) in (None, InputFormat.PARQUET)


@dataclass(frozen=True, slots=True)
class Sample:
    """Facts from the first documents of a corpus."""

    fields: tuple[str, ...] = ()
    """Fields of a document; empty if none was read."""
    other_fields: tuple[str, ...] = ()
    """The fields that are not text."""
    unreadable: str = ""
    """Why no document can be read, as the start of a sentence; empty if one can."""


def sample_of(files: Sequence[Listed]) -> Sample:
    """Sample the first file that is not empty. Only local files are read."""
    if not files or "://" in files[0].address:
        return Sample()
    first = next((file for file in files if file.size), None)
    if first is None:
        all_of = "its only file is" if len(files) == 1 else f"all {len(files):,} files are"
        return Sample(unreadable=f"{all_of} empty")
    kind, name = format_of(first.path), first.path
    try:
        if kind is InputFormat.PARQUET:
            return _of_schema(parquet.read_schema(first.address))
        if kind is InputFormat.JSONL:
            return _of_lines(_beginning(first.address), name)
        if kind is InputFormat.TAR:
            return _of_archive(first.address)
        _beginning(first.address)
    except PermissionError:
        return Sample(unreadable=f"this user has no permission to read {name}")
    except pa.ArrowInvalid:
        return Sample(unreadable=f"{name} is not a Parquet file")
    except BadInputError as error:
        if error.findings[0].code == InputCode.ARCHIVE:
            return Sample(unreadable=f"{name}: {error.findings[0].rule.rstrip('.')}")
        return Sample(unreadable=f"{name} is truncated, or its compression does not match its name")
    except OSError:
        return Sample()
    return Sample()


def _beginning(file: str) -> bytes:
    """Return the first megabyte of a file, decompressed; the last line may be incomplete."""
    with Path(file).open("rb") as stream:
        return _first_bytes(content_of(stream, file))


def _first_bytes(content: Content) -> bytes:
    buffer, size = bytearray(BEGINNING), 0
    while size < BEGINNING - 64:
        count = content.readinto(memoryview(buffer)[size:])
        if not count:
            # A last line without a line break is complete too.
            return bytes(buffer[:size]) + b"\n"
        size += count
    return bytes(buffer[:size])


def _of_archive(file: str) -> Sample:
    """Sample the first document in an archive, and the members before it."""
    with Path(file).open("rb") as stream:
        for member in members_of(content_of(stream, file), file):
            kind, _ = kind_of(member.name)
            if kind is None or member.link is not None:
                continue
            data = _first_bytes(content_of(member.stream, member.label))
            if kind == "json":
                # One object, which may have several lines.
                data = data.replace(b"\n", b" ") + b"\n"
            # The fields of a text file are unknown: its metadata follows, if there is any.
            return Sample() if kind == "txt" else _of_lines(data, member.label)
    return Sample()


def _of_lines(data: bytes, name: str) -> Sample:
    """Sample the first document in the first lines."""
    lines = [line for line in data.split(b"\n")[:-1] if line.strip()][:MOST_LINES]
    for line in lines:
        try:
            document: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            # Nested fields are not inspected.
            other = (key for key, value in document.items() if not isinstance(value, str | dict))
            return Sample(tuple(document), tuple(other))
    if not lines:
        # A line that is longer than the part that was read may be a document.
        return Sample() if data.strip() else Sample(unreadable=f"{name} has no text")
    which = "the first line" if len(lines) == 1 else f"none of the first {len(lines)} lines"
    verb = "is not a JSON object" if len(lines) == 1 else "is a JSON object"
    return Sample(unreadable=f"{which} of {name} {verb}")


def _of_schema(schema: pa.Schema) -> Sample:
    """Return the columns of a table as a sample."""
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_struct)
    more = (pa.types.is_large_binary, pa.types.is_dictionary, pa.types.is_null)
    other = (
        field.name for field in schema if not any(is_kind(field.type) for is_kind in (*text, *more))
    )
    return Sample(tuple(schema.names), tuple(other))
