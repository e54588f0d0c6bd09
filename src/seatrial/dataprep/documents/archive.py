# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Documents in a tar archive: JSON lines, text files, and WebDataset samples.

A `.jsonl` or `.ndjson` member has one document per line. A `.txt` or a `.json` member is one
document. Consecutive members `KEY.txt` and `KEY.json` are one document together, as in WebDataset:
the text is in `KEY.txt`, and the domain in `KEY.json`. All other members are ignored.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from seatrial.codes.data import BadInputError
from seatrial.dataprep.documents.batches import (
    BadLineReason,
    DocumentBatch,
    LineCount,
    LineLocation,
    excerpt,
)
from seatrial.dataprep.documents.decompression import Content, content_of
from seatrial.dataprep.documents.json_lines import (
    domain_in,
    parse_object,
    read_json_lines,
    text_in,
)
from seatrial.dataprep.documents.tar_stream import TarMember, broken_archive, members_of
from seatrial.dataprep.documents.text import BatchBuilder, RawText, add_text, read_whole
from seatrial.dataprep.tasks.task_list import SourceSettings, compression_of

_LINES = ("jsonl", "ndjson")
_JSON = "json"
_TEXT = "txt"
_SHOWN = 3


def read_archive(
    stream: BinaryIO, address: str, source: SourceSettings, count: LineCount
) -> Iterator[DocumentBatch]:
    """Yield the documents of an archive in the order of its members.

    Raises:
        BadInputError: The archive or a compressed member is damaged or truncated, a member with
            the name of a document is a link, or no member is a document.
    """
    reading = _Reading(source, count)
    used = False
    ignored: list[str] = []
    for member in members_of(content_of(stream, address), address):
        kind, key = kind_of(member.name)
        if member.is_directory or kind is None:
            ignored.append(member.name)
            continue
        used = True
        if member.link is not None:
            raise _is_link(member)
        content = content_of(member.stream, member.label)
        if kind in _LINES:
            yield from reading.finish()
            yield from read_json_lines(content, member.label, source, count)
        else:
            yield from reading.add(kind, key, member.label, content)
    yield from reading.finish()
    files = [name for name in ignored if not name.endswith("/")]
    if files and not used:
        raise _no_documents(address, files)


def kind_of(name: str) -> tuple[str | None, str]:
    """Return what a member contains, by its suffix, and its key; None if it is no document."""
    base = name.rpartition("/")[2]
    plain = base[: -len(packing)] if (packing := compression_of(base)) is not None else base
    stem, dot, suffix = plain.rpartition(".")
    kind = suffix.lower()
    is_document = dot and stem and not base.startswith(".") and kind in (*_LINES, _JSON, _TEXT)
    return (kind if is_document else None), name.removesuffix(base) + stem


@dataclass(slots=True)
class _Sample:
    """The members with one key."""

    key: str
    label: str
    parts: dict[str, bytes | None] = field(default_factory=dict)
    """Content by kind; None if it is too long."""


class _Reading:
    """Collects the members of samples, and the documents of a batch."""

    def __init__(self, source: SourceSettings, count: LineCount) -> None:
        self._text_path = source.text_field.split(".")
        self._domain_path = source.domain_field.split(".") if source.domain_field else None
        self._count = count
        self._builder = BatchBuilder()
        self._sample: _Sample | None = None

    def add(self, kind: str, key: str, label: str, content: Content) -> Iterator[DocumentBatch]:
        """Add a member to its sample; a new key ends the sample before it."""
        sample = self._sample
        if sample is None or sample.key != key or kind in sample.parts:
            self._end_sample()
            if self._builder.is_full:
                yield from self._builder.take()
            self._sample = sample = _Sample(key, label)
        if kind == _TEXT:
            sample.label = label
        sample.parts[kind] = read_whole(content)

    def finish(self) -> Iterator[DocumentBatch]:
        """Yield the documents that were not yielded yet."""
        self._end_sample()
        yield from self._builder.take()

    def _end_sample(self) -> None:
        sample, self._sample = self._sample, None
        if sample is None:
            return
        self._count.lines += 1
        place = LineLocation(sample.label, 1, 0)
        if any(data is None for data in sample.parts.values()):
            self._builder.add(place, BadLineReason.TOO_LONG, None)
            return
        text, metadata = sample.parts.get(_TEXT), sample.parts.get(_JSON)
        if text is None:
            self._add_object(place, metadata or b"")
            return
        domain = None if self._domain_path is None else self._domain_of(metadata or b"")
        if isinstance(domain, BadLineReason):
            self._builder.add(place, domain, None, excerpt(metadata or text))
        else:
            add_text(self._builder, sample.label, RawText(1, 0, text), domain)

    def _domain_of(self, metadata: bytes) -> str | BadLineReason:
        """Return the domain in the metadata of a text."""
        found = parse_object(metadata)
        if found is None or isinstance(found, BadLineReason):
            return BadLineReason.NO_DOMAIN
        return domain_in(found, self._domain_path or ())

    def _add_object(self, place: LineLocation, data: bytes) -> None:
        """Add a document that is one JSON object."""
        found = parse_object(data)
        if found is None or isinstance(found, BadLineReason):
            self._builder.add(place, found or BadLineReason.NOT_JSON, None, excerpt(data))
            return
        text = text_in(found, self._text_path)
        domain = None if self._domain_path is None else domain_in(found, self._domain_path)
        if isinstance(domain, BadLineReason):
            text, domain = (text if isinstance(text, BadLineReason) else domain), None
        self._builder.add(place, text, domain, excerpt(data))


def _is_link(member: TarMember) -> BadInputError:
    return broken_archive(
        member.label,
        "the member is a link or a special file, and Seatrial follows no links in archives.",
        "Write the archive again with the files themselves (GNU tar: --dereference and"
        " --hard-dereference).",
        ascii(member.link)[1:-1][:100],
    )


def _no_documents(address: str, names: list[str]) -> BadInputError:
    shown = ", ".join(ascii(name)[1:-1] for name in names[:_SHOWN])
    more = ", ..." if len(names) > _SHOWN else ""
    return broken_archive(
        address,
        f"none of its {len(names):,} members is a document ({shown}{more}).",
        "Use members that end in .jsonl, .ndjson, .json or .txt, or set files to a glob that"
        " excludes this archive.",
    )
