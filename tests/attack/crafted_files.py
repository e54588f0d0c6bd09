# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Generate hostile checkpoint files: a trick of the container around a trick of the pickle.

The same seed makes the same files. Each names its tricks, so that the test can tell which of them
execute under torch's own loaders.
"""

import io
import random
import struct
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tests.attack.pickle_tricks import (
    BENIGN,
    BENIGN_PLAIN,
    DEFAULT,
    MARKER,
    OWN_TARGET,
    POISONED,
    POSITIONS,
    TARGETS,
    WAYS,
    Target,
    ask,
    call,
    deep_factory,
    poison,
    references_of_numbers,
)
from tests.attack.zip_writer import LOCAL, Archive, End, Entry

STORAGE = struct.pack("<4f", 1, 2, 3, 4)
SEED = 20_261_116


class Route(StrEnum):
    """How an engine reads a file."""

    ARCHIVE = "archive"
    """A file of its own: Composer's `rank0.pt`, Megatron's `common.pt`."""
    ITEM = "item"
    """A part of a shard of torch's distributed checkpoints."""
    METADATA = "metadata"
    """The list of tensors of such a checkpoint: a bare pickle."""
    DUMP = "dump"
    """A dump of the flight recorder: a bare pickle."""
    EXTRA_STATE = "extra state"
    """The state of FP8, in the bytes of a tensor: a bare pickle."""


@dataclass(frozen=True, slots=True)
class Crafted:
    """A hostile file."""

    route: Route
    tricks: tuple[str, ...]
    data: bytes
    offset: int = 0
    length: int = 0
    """Of the item in the shard."""

    @property
    def name(self) -> str:
        """The tricks, in words."""
        return f"{self.route}: {', '.join(self.tricks)}"


# ---------------------------------------------------------------------- containers

Container = Callable[[bytes], bytes]
"""Makes a file of a hostile pickle."""


def entries(code: bytes, folder: str = "archive") -> list[Entry]:
    """What torch writes for a pickle with one storage, in torch's order."""
    contents = (
        ("data.pkl", code),
        (".format_version", b"1"),
        (".storage_alignment", b"64"),
        ("byteorder", b"little"),
        ("data/0", STORAGE),
        ("version", b"3\n"),
        (".data/serialization_id", b"0" * 40),
    )
    return [Entry(f"{folder}/{name}".encode(), data) for name, data in contents]


def plain(code: bytes) -> bytes:
    """An archive without a trick of its own."""
    return Archive(entries(code)).write()


def _changed(**changes: object) -> Container:
    """Change fields of the entry of the pickle."""

    def container(code: bytes) -> bytes:
        listed = entries(code)
        for name, value in changes.items():
            setattr(listed[0], name, value)
        return Archive(listed).write()

    return container


def _ended(**changes: object) -> Container:
    """Change fields of the end of the archive."""

    def container(code: bytes) -> bytes:
        end = End()
        for name, value in changes.items():
            setattr(end, name, value)
        return Archive(entries(code), end).write()

    return container


def _renamed(name: bytes, decoy: bytes | None = None) -> Container:
    """The hostile pickle has another name; a harmless one before it may have the usual name."""

    def container(code: bytes) -> bytes:
        listed = entries(code)
        listed[0].name = name
        decoys = [] if decoy is None else [Entry(decoy, BENIGN)]
        return Archive([*decoys, *listed]).write()

    return container


def _without(*names: str) -> Container:
    def container(code: bytes) -> bytes:
        gone = {f"archive/{name}".encode() for name in names}
        return Archive([one for one in entries(code) if one.name not in gone]).write()

    return container


def _with(name: bytes, data: bytes, first: bool = False) -> Container:
    def container(code: bytes) -> bytes:
        added = Entry(name, data)
        listed = entries(code)
        return Archive([added, *listed] if first else [*listed, added]).write()

    return container


def _with_order(order: bytes) -> Container:
    def container(code: bytes) -> bytes:
        listed = entries(code)
        listed[3].data = order
        return Archive(listed).write()

    return container


def _duplicate(is_hostile_first: bool, name: bytes = b"archive/data.pkl") -> Container:
    def container(code: bytes) -> bytes:
        first, second = (code, BENIGN) if is_hostile_first else (BENIGN, code)
        return Archive([*entries(first), Entry(name, second)]).write()

    return container


def _two_directories(code: bytes) -> bytes:
    """Offsets lead to one directory, counting back from the end leads to another."""
    hostile = Archive(entries(code), End(has_zip64=False)).write()
    harmless = Archive(entries(BENIGN), End(has_zip64=False))
    end = hostile[-22:]
    return hostile[:-22] + harmless.write()[:-22] + end


def _other_end_in_comment(code: bytes) -> bytes:
    """The comment of a harmless archive ends with the end of a hostile one."""
    harmless = Archive(entries(BENIGN), End(has_zip64=False)).write()[:-22]
    hostile = Archive(entries(code), End(has_zip64=False), prefix=harmless)
    data = hostile.write()
    comment = data[-22:]
    outer = Archive([], End(has_zip64=False, comment=comment, count=7)).write()
    return data[:-22] + outer


def _overlap(code: bytes) -> bytes:
    """The entry of the pickle lies in the bytes of a storage."""
    inner = plain(code)
    listed = entries(BENIGN)
    listed[4].data = inner
    listed[0].offset = Archive(listed).write().index(inner)
    listed[0].size = listed[0].packed_size = len(code)
    return Archive(listed).write()


def _unlisted(code: bytes) -> bytes:
    """The directory points past a harmless entry at a hostile one that it does not list."""
    listed = entries(BENIGN)
    listed[0].offset = 0
    listed[0].size = listed[0].packed_size = len(code)
    return Archive([Entry(b"archive/data.pkl", code, is_unlisted=True), *listed]).write()


def _fake_start(code: bytes) -> bytes:
    return Archive(entries(code), prefix=LOCAL + bytes(60)).write()


def _python_prefix(code: bytes) -> bytes:
    """A hostile bare pickle, and a harmless archive that Python's zipfile finds behind it."""
    return code + plain(BENIGN)


def _script(code: bytes) -> bytes:
    """TorchScript: code of its own, which torch runs as it loads the object."""
    source = (
        "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
        "  x : int\n"
        "  def __getstate__(self: __torch__.M) -> int:\n    return 1\n"
        "  def __setstate__(self: __torch__.M, state: int) -> NoneType:\n"
        f'    made = torch.from_file("{MARKER}", True, 4)\n'
        "    self.x = torch.numel(made)\n    self.training = True\n    return None\n"
    )
    listed = [
        Entry(b"m/data.pkl", b"\x80\x02c__torch__\nM\n)\x81K\x01b."),
        Entry(b"m/code/__torch__.py", source.encode()),
        Entry(b"m/constants.pkl", b"\x80\x02)."),
        Entry(b"m/version", b"3\n"),
        Entry(b"m/byteorder", b"little"),
        # Distinct files for distinct pickles: torch reads this entry nowhere.
        Entry(b"m/extra/decoy.pkl", code),
    ]
    return Archive(listed).write()


def _tar(code: bytes, place: str = "pickle") -> bytes:
    """torch's oldest format: three pickles in a tar archive."""
    contents = {
        "storages": b"\x80\x02K\0.\x80\x02).",
        "tensors": b"\x80\x02K\0.",
        "pickle": b"\x80\x02}.",
    }
    contents[place] = code
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for name, data in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


def legacy(code: bytes, place: int = 3) -> bytes:
    """torch's format before zip: five pickles and the numbers."""
    magic = 0x1950A86A20F9469CFC6C
    packed = magic.to_bytes(10, "little")
    parts = [
        b"\x80\x02\x8a\x0a" + packed + b".",
        b"\x80\x02M\xe9\x03.",
        b"\x80\x02}(X\x10\0\0\0protocol_versionM\xe9\x03X\x0d\0\0\0little_endian\x88u.",
        b"\x80\x02}.",
        b"\x80\x02].",
    ]
    parts[place] = code
    return b"".join(parts)


def _nested(code: bytes) -> bytes:
    """A harmless pickle that loads a hostile archive from its bytes."""
    outer = call(ask("torch.storage", "_load_from_bytes"), plain(code))
    return plain(b"\x80\x03" + outer + b".")


def _gap(place: int) -> Container:
    def container(code: bytes) -> bytes:
        listed = entries(code)
        listed[place].gap = b"\0" * 37
        return Archive(listed).write()

    return container


def _mode(mode: int) -> Container:
    return _changed(made_by=3 << 8, attributes=mode << 16)


def _links(code: bytes) -> bytes:
    link = Entry(b"archive/data/1", b"/etc/passwd", made_by=3 << 8, attributes=0o120777 << 16)
    return Archive([*entries(code), link]).write()


CONTAINERS: dict[str, Container] = {
    "plain": plain,
    "no zip64": _ended(has_zip64=False),
    "prefix": lambda code: Archive(entries(code), prefix=b"#!/bin/sh\n", is_shifted=False).write(),
    "shifted prefix": lambda code: Archive(entries(code), prefix=b"MZ" + bytes(62)).write(),
    "prefix that looks like an entry": _fake_start,
    "suffix": lambda code: Archive(entries(code), suffix=b"\0" * 33).write(),
    "comment": _ended(comment=b"hello"),
    "comment shorter than said": _ended(comment=b"hello", comment_length=400),
    "comment longer than said": _ended(comment=b"hello", comment_length=0),
    "end in the comment": _other_end_in_comment,
    "data.PKL": _renamed(b"archive/data.PKL"),
    "DATA.pkl with a decoy": _renamed(b"archive/DATA.pkl", b"archive/data.pkl"),
    "ARCHIVE/data.pkl": _renamed(b"ARCHIVE/data.pkl"),
    "data.PKL with a decoy": _renamed(b"archive/data.PKL", b"archive/data.pkl"),
    "decoy in another folder": _with(b"other/data.pkl", BENIGN),
    "decoy in the first folder": _with(b"other/data.pkl", BENIGN, first=True),
    "decoy in a deeper folder": _with(b"archive/archive/data.pkl", BENIGN),
    "name with NUL": _with(b"archive/data.pkl\0.txt", BENIGN),
    "name with backslash": _renamed(b"archive\\data.pkl", b"archive/data.pkl"),
    "name with dots": _with(b"archive/../archive/data.pkl", BENIGN),
    "name that is no UTF-8": _with(b"archive/\xff\xfe", b"x"),
    "no folder": _renamed(b"data.pkl"),
    "duplicate, hostile first": _duplicate(True),
    "duplicate, hostile last": _duplicate(False),
    "duplicate in other case": _duplicate(False, b"archive/data.pKl"),
    "duplicate version": _with(b"archive/version", b"9\n"),
    "zip64 entry": _changed(zip64=True),
    "zip64 entry twice": _changed(zip64=True, extra=struct.pack("<HHQQQ", 1, 24, 1, 1, 1)),
    "masked end": _ended(is_masked=True),
    "zip64 count differs": _ended(zip64_count=6),
    "zip64 offset differs": _ended(offset=1),
    "zip64 disks": _ended(locator_disks=2),
    "wrong CRC": _changed(crc=0x12345678),
    "zero CRC": _changed(crc=0),
    "symlink attribute": _mode(0o120777),
    "directory attribute": _mode(0o040755),
    "symlink beside": _links,
    "no descriptor": _changed(flags=0x0800),
    "local header without descriptor flag": _changed(local_flags=0x0800),
    "missing descriptor": _changed(descriptor=b""),
    "wrong descriptor": _changed(descriptor=b"PK\x07\x08" + b"\x07" * 12),
    "zip64 descriptor": _changed(descriptor=b"PK\x07\x08" + b"\0" * 20),
    "other name in local header": _changed(local_name=b"archive/note.txt"),
    "other method in local header": _changed(local_method=8),
    "other size in local header": _changed(local_size=7),
    "comment of an entry": _changed(comment=b"hello"),
    "extra field": _changed(extra=struct.pack("<HH4s", 0x7075, 4, b"name")),
    "Unicode path field": _changed(
        extra=struct.pack("<HHBI", 0x7075, 5 + 16, 1, 0) + b"archive/note.txt"
    ),
    "local extra field": _changed(local_extra=struct.pack("<HH4s", 0x7075, 4, b"name")),
    "local padding": _changed(local_extra=struct.pack("<HH4s", 0x4246, 4, b"ZZZZ")),
    "compressed": _changed(method=8),
    "encrypted flag": _changed(flags=0x0809),
    "strong encryption flag": _changed(flags=0x0848),
    "patch flag": _changed(flags=0x0828),
    "entry on disk 1": _changed(disk=1),
    "archive on disk 1": _ended(disk=1),
    "two directories": _two_directories,
    "overlapping entries": _overlap,
    "unlisted entry": _unlisted,
    "gap before the first entry": _gap(0),
    "gap between entries": _gap(3),
    "bytes before the directory": _ended(before_directory=b"\0" * 9),
    "bytes behind the directory": _ended(between=b"\0" * 9),
    "count too small": _ended(count=3),
    "count too large": _ended(count=9),
    "no version": _without("version"),
    "no byteorder": _without("byteorder"),
    "no notes": _without(".format_version", ".storage_alignment", ".data/serialization_id"),
    "big byteorder": _with_order(b"big"),
    "unknown byteorder": _with_order(b"middle"),
    "pickle last": lambda code: Archive(list(reversed(entries(code)))).write(),
    "extra entry": _with(b"archive/readme.txt", b"hello"),
    "attributes.pkl": _with(b"archive/attributes.pkl", BENIGN),
    "nested archive": _nested,
    "TorchScript": _script,
    "bare pickle": lambda code: code,
    "bare pickle before an archive": _python_prefix,
    "legacy": legacy,
    "legacy magic": lambda code: legacy(code, 0),
    "legacy version": lambda code: legacy(code, 1),
    "legacy system": lambda code: legacy(code, 2),
    "legacy keys": lambda code: legacy(code, 4),
    "legacy before an archive": lambda code: legacy(code) + plain(BENIGN),
    "tar": _tar,
    "tar storages": lambda code: _tar(code, "storages"),
    "tar tensors": lambda code: _tar(code, "tensors"),
    "tar before an archive": lambda code: _tar(code) + plain(BENIGN),
}
"""What is wrong with the file around the pickle, and whether a harmless pickle hides it."""


# ---------------------------------------------------------------------- files


@dataclass(frozen=True, slots=True)
class Payload:
    """A hostile pickle and its tricks."""

    tricks: tuple[str, ...]
    code: bytes


def payload(target: str, way: str, position: str) -> Payload:
    """One pickle."""
    code = POSITIONS[position](WAYS[way](TARGETS[target]))
    called = () if way in OWN_TARGET else (f"calls {target}",)
    return Payload((*called, way, position), code)


def _fitting(target: Target) -> str:
    """A position whose protocol resolves the target's name."""
    return "PROTO 4" if min(target.protocols) == 4 else "alone"


def _singles() -> Iterator[Payload]:
    """Each trick of a pickle once, with everything else plain."""
    for name, target in TARGETS.items():
        yield payload(name, "GLOBAL REDUCE", _fitting(target))
    for way in WAYS:
        yield payload("os.system", way, "alone")
    for position in POSITIONS:
        yield payload("os.system", "GLOBAL REDUCE", position)
    for kind in POISONED:
        yield Payload((f"BUILD on {kind}",), POSITIONS["popped"](poison(kind)))
    deep = b"\x80\x02}" + b")" + b"\x85" * 5_000 + b"Ns"
    yield Payload(("deep key",), deep + WAYS["GLOBAL REDUCE"](DEFAULT) + b"0.")
    yield Payload(("deep factory",), deep_factory())
    yield Payload(("flags of a dtype",), references_of_numbers())


def _shard(data: bytes, chance: random.Random) -> tuple[bytes, int]:
    before = b"".join(plain(BENIGN) for _ in range(chance.randrange(3)))
    after = plain(BENIGN) if chance.random() < 0.5 else b""
    return before + data + after, len(before)


def _file(container: str, code: Payload, route: Route, chance: random.Random) -> Crafted:
    tricks = (container,) if container == "TorchScript" else (container, *code.tricks)
    if route in (Route.METADATA, Route.DUMP, Route.EXTRA_STATE):
        # The list of tensors has no container: with the tensor of `0` gone, the pickle is bare.
        return Crafted(route, code.tricks, code.code.replace(BENIGN[2:], BENIGN_PLAIN[2:]))
    data = CONTAINERS[container](code.code)
    if route is Route.ARCHIVE:
        return Crafted(route, tricks, data)
    shard, offset = _shard(data, chance)
    return Crafted(route, tricks, shard, offset, len(data))


def crafted(count: int, seed: int = SEED) -> list[Crafted]:
    """Distinct hostile files: each trick by itself, as far as the count goes, then combinations."""
    chance = random.Random(seed)  # noqa: S311
    plain_code = payload("os.system", "GLOBAL REDUCE", "alone")
    singles = [_file(one, plain_code, Route.ARCHIVE, chance) for one in CONTAINERS]
    singles += [_file("plain", one, Route.ARCHIVE, chance) for one in _singles()]
    for route in (Route.METADATA, Route.EXTRA_STATE):
        singles += [_file("plain", one, route, chance) for one in _singles()]
    found: dict[tuple[Route, bytes], Crafted] = {}
    if count < len(singles):
        singles = chance.sample(singles, count * 2 // 3)
    for one in singles:
        found.setdefault((one.route, one.data), one)
    while len(found) < count:
        target = chance.choice(list(TARGETS))
        position = chance.choice(list(POSITIONS))
        mixed = payload(target, chance.choice(list(WAYS)), position)
        route = chance.choices(list(Route), (5, 3, 1, 1, 1))[0]
        container = "plain" if chance.random() < 0.2 else chance.choice(list(CONTAINERS))
        one = _file(container, mixed, route, chance)
        found.setdefault((one.route, one.data), one)
    return list(found.values())
