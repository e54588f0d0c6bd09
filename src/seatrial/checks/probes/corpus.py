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

from seatrial.dataprep.documents.decompression import content_of
from seatrial.dataprep.inputs.selection import Listed, format_of
from seatrial.dataprep.tasks.task_list import InputFormat
from seatrial.errors import SeatrialError

BEGINNING = 1 << 20
"""Maximum number of bytes to read from a file."""
MOST_LINES = 100
"""Number of lines to parse. The corpus is unreadable only if none of them can be parsed."""

_PLAIN = (".jsonl", ".ndjson", ".json", ".txt")
_TEXT_PER_STORED_BYTE = 3.0
"""Typical compression ratio of text."""
_BYTES_PER_TOKEN = 4.0
"""Typical size of a token in English text."""


def rough_tokens(files: Iterable[tuple[str, int]]) -> int:
    """Estimate the tokens in files from their names and sizes, to within a factor of about 2."""
    text = sum(
        size if path.lower().endswith(_PLAIN) else size * _TEXT_PER_STORED_BYTE
        for path, size in files
    )
    return round(text / _BYTES_PER_TOKEN)


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
        _beginning(first.address)
    except PermissionError:
        return Sample(unreadable=f"this user has no permission to read {name}")
    except pa.ArrowInvalid:
        return Sample(unreadable=f"{name} is not a Parquet file")
    except SeatrialError:
        return Sample(unreadable=f"{name} is truncated, or its compression does not match its name")
    except OSError:
        return Sample()
    return Sample()


def _beginning(file: str) -> bytes:
    """Return the first megabyte of a file, decompressed; the last line may be incomplete."""
    buffer, size = bytearray(BEGINNING), 0
    with Path(file).open("rb") as stream:
        content = content_of(stream, file)
        while size < BEGINNING - 64:
            count = content.readinto(memoryview(buffer)[size:])
            if not count:
                # A last line without a line break is complete too.
                return bytes(buffer[:size]) + b"\n"
            size += count
    return bytes(buffer[:size])


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
