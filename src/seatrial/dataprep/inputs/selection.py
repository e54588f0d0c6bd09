# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Select the inputs of a source from the files at its address, and detect their format."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from seatrial.dataprep.tasks.task_list import (
    COMPRESSED_TAR,
    Compression,
    InputFile,
    InputFormat,
)
from seatrial.errors import SeatrialError
from seatrial.spec.data import DataSource, SourceFormat
from seatrial.storage.store import named


class InputError(SeatrialError):
    """An input is missing, unreadable or changed; the message contains the fix."""


class Listed(NamedTuple):
    """A file below the address of a source."""

    path: str
    """Path below the address, or only the name if the address is a single file."""
    address: str
    """Full address of the file."""
    size: int
    """Stored bytes."""
    version: str
    """Changes when the content changes."""


_ENDINGS = {
    ".jsonl": InputFormat.JSONL,
    ".ndjson": InputFormat.JSONL,
    ".json": InputFormat.JSONL,
    ".txt": InputFormat.TEXT,
    ".tar": InputFormat.TAR,
}
_FORMATS = (
    {
        ending + packing: format_
        for ending, format_ in _ENDINGS.items()
        for packing in ("", *Compression)
    }
    | dict.fromkeys(COMPRESSED_TAR, InputFormat.TAR)
    | {".parquet": InputFormat.PARQUET}
)
_KNOWN = f".jsonl, .json, .txt, .tar (plain, or with {', '.join(Compression)}) and .parquet"
_TEXTS = (InputFormat.TEXT_LINES, InputFormat.TEXT_PARAGRAPHS)
# Metadata that tools write next to a data set: JSON, but not documents.
_ABOUT = {"dataset.json", "dataset_dict.json", "dataset_info.json", "dataset_infos.json"}
_SHOWN = 3
_SET_BOTH = "Set files to a glob that matches them, and format to their format."


def format_of(name: str) -> InputFormat | None:
    """Return the format of a file by its name; None if the name does not show it."""
    parts = name.rpartition("/")[2].lower().split(".")
    for count in (2, 1):
        if len(parts) > count and (found := _FORMATS.get("." + ".".join(parts[-count:]))):
            return found
    return None


def can_be_read_as(shown: InputFormat, wanted: InputFormat) -> bool:
    """True if a file whose name shows one format can be read as the wanted format."""
    return shown is wanted or (shown is InputFormat.TEXT and wanted in _TEXTS)


def without_ending(name: str) -> str:
    """Return a file name without the endings that show its format and its compression."""
    base = name.rpartition("/")[2]
    while (dot := base.rfind(".")) >= 0 and base[dot:].lower() in _ALL_ENDINGS:
        base = base[:dot]
    return base


_ALL_ENDINGS = {
    *_ENDINGS, *Compression, *COMPRESSED_TAR, ".parquet", ".text", ".bin", ".idx", ".list"
}  # fmt: skip


def matches(glob: str, path: str) -> bool:
    """True if a path matches a glob: `*` and `?` match within a part, `**` any number of parts."""
    return _pattern(glob).fullmatch(path) is not None


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    """Translate a glob to a regular expression; as in a shell, `*` skips hidden names."""
    parts = glob.strip("/").split("/")
    pattern = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            pattern += r"(?:(?!\.)[^/]+/)*" + (r"(?!\.)[^/]+" if last else "")
        else:
            pattern += _part_pattern(part) + ("" if last else "/")
    try:
        return re.compile(pattern, re.DOTALL)
    except re.error:
        raise InputError(
            f"files: {glob!r} is not a glob. Use *, ?, [a-z], {{a,b}}, and ** for directories."
        ) from None


def _part_pattern(part: str) -> str:
    """Translate one part of a glob, with `*`, `?`, `[...]` and `{a,b}`."""
    pattern = "" if part.startswith(".") else r"(?!\.)"
    for piece in re.findall(r"\*+|\?|\[!?\]?[^\]]*\]|\{[^{}]*\}|.", part, re.DOTALL):
        if piece[0] == "*":
            pattern += "[^/]*"
        elif piece == "?":
            pattern += "[^/]"
        elif len(piece) > 2 and piece[0] == "[":
            inside = piece[1:-1].replace("\\", r"\\").replace("[", r"\[")
            pattern += "(?!/)[" + ("^" + inside[1:] if inside[0] == "!" else inside) + "]"
        elif len(piece) > 1 and piece[0] == "{":
            pattern += "(?:" + "|".join(_part_pattern(a) for a in piece[1:-1].split(",")) + ")"
        else:
            pattern += re.escape(piece)
    return pattern


class Listing(NamedTuple):
    """The files at the address of a source."""

    files: list[Listed]
    """The files, in any order."""
    alone: bool = False
    """True if the address is a single file."""


def select(listing: Listing, source: DataSource) -> list[InputFile]:
    """Select the inputs of a source from its listing, sorted by address."""
    address = named(source.from_ or "")
    if listing.alone:
        return [_alone(listing.files[0], source, address)]
    if source.files is None:
        chosen = _by_name(listing.files, source, address)
    else:
        chosen = _by_glob(listing.files, source, address)
    chosen.sort(key=lambda file: file.address)
    return spread(chosen, source.sample_files)


def spread(files: list[InputFile], count: int | None) -> list[InputFile]:
    """Return `count` evenly spaced files: the middle one of each of `count` equal runs."""
    if count is None or count >= len(files):
        return files
    return [files[(2 * place + 1) * len(files) // (2 * count)] for place in range(count)]


def _input(file: Listed, format_: InputFormat) -> InputFile:
    return InputFile(file.address, file.size, file.version, format_)


def _alone(file: Listed, source: DataSource, address: str) -> InputFile:
    """Return the single file at the address."""
    if source.files is not None:
        raise InputError(
            f"{address}: is a file, but files ({source.files!r}) is a glob of files below a "
            "directory. Remove files, or set from to the directory."
        )
    if source.format is not SourceFormat.AUTO:
        return _input(file, InputFormat(source.format))
    format_ = format_of(file.path)
    if format_ is None:
        raise InputError(
            f"{address}: its name does not indicate a supported format ({_KNOWN}). "
            "Set format to its format."
        )
    return _input(file, format_)


def _by_name(listed: Sequence[Listed], source: DataSource, address: str) -> list[InputFile]:
    """Select the files whose names show the wanted format."""
    wanted = None if source.format is SourceFormat.AUTO else InputFormat(source.format)
    found = []
    for file in listed:
        format_ = format_of(file.path)
        name = file.path.rpartition("/")[2]
        hidden = file.path.startswith(".") or "/." in file.path
        if format_ is None or hidden or name in _ABOUT:
            continue
        if wanted is None or can_be_read_as(format_, wanted):
            found.append(_input(file, wanted or format_))
    if not found:
        kind = f"a {source.format} file" if wanted else f"a supported format ({_KNOWN})"
        raise InputError(
            f"{address}: none of its {_files(listed)} has the suffix of {kind}. "
            + ("Set files to a glob that matches them." if wanted else _SET_BOTH)
        )
    formats = Counter(file.format for file in found)
    if len(formats) > 1:
        counts = " and ".join(f"{count:,} {name}" for name, count in sorted(formats.items()))
        most = formats.most_common(1)[0][0]
        raise InputError(
            f"{address}: contains files of more than one format ({counts}), so some of them may be "
            f"metadata or duplicates. Set format to {most}, or set files to a glob."
        )
    return found


def _by_glob(listed: Sequence[Listed], source: DataSource, address: str) -> list[InputFile]:
    """Select the files that match the glob; if the format is set, any name is accepted."""
    glob = source.files or ""
    fitting = [file for file in listed if matches(glob, file.path)]
    if not fitting:
        deeper = sum(matches(f"**/{glob}", file.path) for file in listed)
        hint = (
            f"In subdirectories, {deeper:,} match: set files to '**/{glob}'."
            if deeper
            else "Set files to a glob that matches some, such as '**/*.jsonl.zst'."
        )
        raise InputError(
            f"{address}: files is {glob!r}, which matches none of its {_files(listed)}. {hint}"
        )
    if source.format is not SourceFormat.AUTO:
        return [_input(file, InputFormat(source.format)) for file in fitting]
    found = []
    for file in fitting:
        format_ = format_of(file.path)
        if format_ is None:
            raise InputError(
                f"{address}: {file.path} matches files ({glob!r}), but its name does not indicate "
                f"a supported format ({_KNOWN}). Set format to its format, or narrow the glob."
            )
        found.append(_input(file, format_))
    return found


def _files(listed: Sequence[Listed]) -> str:
    """Return the number of files and the first few names."""
    if not listed:
        return "0 files"
    names = ", ".join(sorted(file.path for file in listed)[:_SHOWN])
    more = ", ..." if len(listed) > _SHOWN else ""
    return f"{len(listed):,} file{'s' if len(listed) > 1 else ''} ({names}{more})"
