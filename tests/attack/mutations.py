# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Damage to one file: what power cuts, editors, restores and other programs leave behind."""

import json
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

Mutation = Callable[[Path, random.Random], None]

_OTHER_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**62, 10**400, 1.5, 1e308, "", "x", "\x00", "\ud800", "\x1b[2J"),
    *([], {}, [None], {"a": 1}, [[[[[]]]]], "2026-11-15", "yesterday", "9999-12-31T23:59:59Z"),
    *("0001-01-01T00:00:00+14:00", "2026-11-15T03:12:00", "../../../../etc/passwd", "a\nb"),
)


def _truncate(path: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(max(1, path.stat().st_size)))


def _flip_bits(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes() or b"\0")
    for _ in range(draw.choice((1, 1, 3, 40))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def _random_bytes(path: Path, draw: random.Random) -> None:
    path.write_bytes(draw.randbytes(draw.choice((1, 7, 300, 70_000))))


def _text(*texts: str | bytes) -> Mutation:
    def write(path: Path, draw: random.Random) -> None:
        text = draw.choice(texts)
        path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)

    return write


def _other_value(path: Path, draw: random.Random) -> None:
    """Give one field of the JSON another value, whatever type it had."""
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        return _random_bytes(path, draw)
    spots: list[tuple[Any, Any]] = []
    level = [value] if isinstance(value, (dict, list)) else []
    while level:
        one = level.pop()
        inner = one.items() if isinstance(one, dict) else enumerate(one)
        for key, below in inner:
            spots.append((one, key))
            if isinstance(below, (dict, list)):
                level.append(below)
    if not spots:
        return _random_bytes(path, draw)
    for holder, key in draw.sample(spots, min(len(spots), draw.choice((1, 1, 2, 5)))):
        holder[key] = draw.choice(_OTHER_VALUES)
    path.write_text(json.dumps(value))
    return None


def _newer_format(path: Path, draw: random.Random) -> None:
    """What a later version may write: more fields, another number of the format."""
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        return _random_bytes(path, draw)
    if isinstance(value, dict):
        value |= {"format": 99, "apiVersion": "seatrial.dev/v9", "added": {"later": [1, 2]}}
    path.write_text(json.dumps(value))
    return None


def _doubled(path: Path, draw: random.Random) -> None:
    """Entries twice: the file's content, or the file under another attempt's name."""
    data = path.read_bytes()
    other = path.with_name(f"{draw.choice((0, 3, 99_999, 10**9, 10**30)):05}{path.suffix}")
    if draw.random() < 0.5:
        other.write_bytes(data)
    path.write_bytes(data + data)


def _removed(path: Path, _: random.Random) -> None:
    path.unlink()


def _swapped(path: Path, draw: random.Random) -> None:
    """Another state file of the same run in its place."""
    others = [one for one in path.parent.iterdir() if one.is_file() and one != path]
    if others:
        shutil.copyfile(draw.choice(sorted(others)), path)


def _instead(make: Callable[[Path], None]) -> Mutation:
    def put(path: Path, _: random.Random) -> None:
        path.unlink()
        make(path)

    return put


def _socket(path: Path) -> None:
    # The name of a socket is short; it can be moved to any place.
    made = Path("/tmp") / f"seatrial-{os.getpid()}-{random.getrandbits(64)}"  # noqa: S108
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(made))
    shutil.move(made, path)


def _huge(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(2**32)


MUTATIONS: dict[str, Mutation] = {
    "truncated": _truncate,
    "bits flipped": _flip_bits,
    "random bytes": _random_bytes,
    "empty": _text(""),
    "another type": _text("[]", "null", "{}", "0", '"x"', "true", "[1,2]", "[null]", "1e5"),
    "other values": _other_value,
    "deep nesting": _text("[" * 200_000, '{"a":' * 100_000, "[" * 150 + "]" * 150),
    "huge numbers": _text("1" * 100_000, "1e999999", "-1e400", "NaN", "[Infinity]"),
    "NUL": _text("\0", b"\0" * 4096, '{"number": "\\u0000"}'),
    "other encodings": _text("\ufeff{}", "{}".encode("utf-16"), b"\xff\xfe{", "\ud800"),
    "newer format": _newer_format,
    "doubled": _doubled,
    "removed": _removed,
    "swapped": _swapped,
    "directory": _instead(lambda path: path.mkdir()),
    "full directory": _instead(lambda path: (path / "a" / "b").mkdir(parents=True)),
    "pipe": _instead(os.mkfifo),
    "socket": _instead(_socket),
    "link to itself": _instead(lambda path: path.symlink_to(path.name)),
    "dangling link": _instead(lambda path: path.symlink_to("not-there")),
    "link to a device": _instead(lambda path: path.symlink_to("/dev/zero")),
    "4 GiB": _instead(_huge),
    "unreadable": lambda path, _: path.chmod(0),
}
