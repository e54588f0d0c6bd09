# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The scanner accepts the one form of archive that torch writes, and refuses everything else."""

import _compat_pickle
import io
import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.checkpoints.pickle_rules import ARCHIVE_RULES, METADATA_RULES, PLAIN_RULES
from seatrial.checkpoints.scan import UnsafeFileError, scan_archive, scan_pickle
from seatrial.checkpoints.stopping import StopError
from seatrial.checkpoints.verification import verify
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.engines.llm_foundry.checkpoints import refuse_foreign
from seatrial.storage.location import LocalPlace
from tests.unit.checkpoints.made import archive, crafted_whole
from tests.unit.checkpoints.test_composer import wanted
from tests.unit.checkpoints.test_pickles import Trap

PLAIN = pickle.dumps({"a": 1}, protocol=2)


def zipped(entries: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    """An archive with these entries, in order."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as file:
        for name, data in entries:
            file.writestr(name, data)
    return held.getvalue()


def code(path: Path, protocol: int = 2) -> bytes:
    """A pickle that makes a directory."""
    return pickle.dumps({"x": Trap(path)}, protocol=protocol)


def test_an_archive_without_checksums_passes() -> None:
    """torch writes zeros with `set_crc32_options(False)`, and compares none."""
    data = archive({"a": 1})
    for entry in zipfile.ZipFile(io.BytesIO(data)).infolist():
        data = data.replace(entry.CRC.to_bytes(4, "little"), bytes(4))
    assert scan_archive(io.BytesIO(data)).content.value == {"a": 1}


def test_code_in_a_whole_checkpoint_with_a_record_is_found(tmp_path: Path) -> None:
    """The record matches: whoever can write the file can write the record."""
    setup, trap = wanted("parallelism.sharding=none"), archive(code(tmp_path / "sprung"))
    crafted_whole(tmp_path / "run", 10, trap, setup)
    (finding,) = verify(LocalPlace(tmp_path / "run"), "ba10")
    assert finding.code == CheckpointCode.PICKLE
    assert "mkdir" in finding.rule
    assert not (tmp_path / "sprung").exists()


def test_a_name_in_other_case_is_refused(tmp_path: Path) -> None:
    """torch finds data.PKL for data.pkl."""
    trap = code(tmp_path / "sprung")
    for names in (["archive/data.PKL"], ["archive/data.PKL", "archive/data.pkl"]):
        data = zipped([(name, trap if "PKL" in name else PLAIN) for name in names])
        (tmp_path / "weights.pt").write_bytes(data)
        with pytest.raises(StopError, match=r"data\.PKL"):
            refuse_foreign(str(tmp_path / "weights.pt"))


def test_a_legacy_file_before_an_archive_is_refused(tmp_path: Path) -> None:
    """Python's zipfile finds the archive; torch takes the file for a legacy one."""
    (tmp_path / "weights.pt").write_bytes(code(tmp_path / "sprung") + archive({"a": 1}))
    with pytest.raises(StopError, match="starts with a pickle"):
        refuse_foreign(str(tmp_path / "weights.pt"))


def test_what_was_scanned_is_what_is_loaded(tmp_path: Path) -> None:
    """Whatever comes to the same descriptor after the scan: the pickle is the scanned one."""
    good, trap = archive({"a": 1}, b"tensor"), archive(code(tmp_path / "x"), b"other!")
    (tmp_path / "item").write_bytes(good)
    with (tmp_path / "item").open("rb") as stream:
        scanned = scan_archive(stream)
        (tmp_path / "item").write_bytes(trap)
        read = scanned.open().read()
    assert read is not None
    begin, size = scanned.entries["data/0"].begin, scanned.entries["data/0"].size
    assert read[:begin] == good[:begin]
    assert read[begin + size :] == good[begin + size :]


def test_an_archive_inside_a_file_is_scanned_in_place() -> None:
    good = archive({"a": 1}, b"tensor")
    stream = io.BytesIO(b"before" + good + b"after")
    scanned = scan_archive(stream, offset=6, length=len(good))
    assert scanned.content.value == {"a": 1}
    assert scanned.open().read() == good


def _swap(old: bytes, new: bytes, count: int = 1) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old, new, count)


def _at_end(offset: int, form: str, value: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        held = bytearray(data)
        struct.pack_into(form, held, len(data) + offset, value)
        return bytes(held)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: b"\0" + data, "not start with a zip entry"),
        (lambda data: data + b"\0", "bytes follow"),
        (lambda data: data[:-1], "bytes follow"),
        (_at_end(-2, "<H", 1), "comment"),
        (_at_end(-6, "<I", 1), "is not at the stated position"),
        (_at_end(-12, "<H", 1), "multi-volume"),
        (_swap(b"data.pkl", b"data.PKL"), "contradicts the central directory"),
        (_swap(b"archive/", b"archivE/"), "contradicts the central directory"),
        (_swap(PLAIN, PLAIN.replace(b"a", b"b")), "checksum"),
        (_swap(b"data/0", b"data/x", 2), "entry 'data/x', which torch never writes"),
        (_swap(b"data/0", b"../../", 2), "torch never writes"),
        (lambda data: data[:50], "not a torch archive"),
        (lambda data: data[:99], "bytes follow"),
        (lambda data: b"", "not a torch archive"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_container_that_torch_does_not_write_is_refused(
    change: Callable[[bytes], bytes], said: str
) -> None:
    good = archive(PLAIN, b"tensor")
    scan_archive(io.BytesIO(good))
    with pytest.raises(UnsafeFileError, match=said):
        scan_archive(io.BytesIO(change(good)))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([("archive/data.pkl", PLAIN), ("archive/data.pkl", PLAIN)], "same name"),
        ([("archive/data.pkl", PLAIN), ("Archive/data/0", b"")], "more than one folder"),
        ([("archive/data/0", b"")], r"no data\.pkl"),
        ([("data.pkl", PLAIN)], "invalid name 'data.pkl'"),
        ([("../data.pkl", PLAIN)], "invalid name"),
        ([("a\\b/data.pkl", PLAIN)], "invalid name"),
        ([("archive/data.pkl", PLAIN), ("archive/constants.pkl", PLAIN)], "constants"),
        ([("archive/data.pkl", PLAIN), ("archive/code/x.py", b"")], "code/x"),
        ([("archive/data.pkl", PLAIN), ("archive/byteorder", b"middle")], "byte order"),
        ([("archive/data.pkl", PLAIN), ("archive/data/", b"")], "directory"),
    ],
)
def test_entries_that_torch_does_not_write_are_refused(
    entries: list[tuple[str, bytes]], said: str
) -> None:
    with pytest.raises(UnsafeFileError, match=said):
        scan_archive(io.BytesIO(zipped(entries)))


def test_a_compressed_entry_is_refused() -> None:
    data = zipped([("archive/data.pkl", PLAIN)], zipfile.ZIP_DEFLATED)
    with pytest.raises(UnsafeFileError, match="compressed"):
        scan_archive(io.BytesIO(data))


def test_a_link_is_refused() -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        entry = zipfile.ZipInfo("archive/data.pkl")
        entry.external_attr = 0o120777 << 16
        file.writestr(entry, PLAIN)
    with pytest.raises(UnsafeFileError, match="link"):
        scan_archive(held)


FAR = 1 << 32
HEADER = b"PK\3\4" + bytes(2) + b"\x08\x08" + bytes(18)


class Sparse(io.BytesIO):
    """A file with a tensor of 4 GiB in its middle, which takes no memory."""

    def __init__(self, head: bytes, tail: bytes) -> None:
        super().__init__()
        self.head, self.tail, self.at = head, tail, 0

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self.at = offset + (len(self.head) + FAR + len(self.tail) if whence == 2 else 0)
        return self.at

    def tell(self) -> int:
        return self.at

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        begin = len(self.head) + FAR
        if self.at < begin:
            return self.head[self.at : self.at + size]
        return self.tail[self.at - begin : self.at - begin + size]


def sparse(early: int = 0, described: int = FAR) -> Sparse:
    """What torch 2.7 and 2.13 write for a tensor of 4 GiB and something after it."""
    crc, name, note = b"\1\2\3\4", b"archive/data/0", b"archive/version"
    code = zlib.crc32(PLAIN).to_bytes(4, "little")
    first = HEADER + struct.pack("<HH", 16, 0) + b"archive/data.pkl" + PLAIN
    first += b"PK\7\x08" + code + struct.pack("<II", len(PLAIN), len(PLAIN))
    padded = struct.pack("<HHQQ", 1, 16, FAR, early) + b"FB\3\0ZZZ"
    head = first + HEADER + struct.pack("<HH", len(name), len(padded)) + name + padded
    tail = b"PK\7\x08" + crc + struct.pack("<QQ", FAR, described)
    begin = len(head) + FAR + len(tail)
    extra, text = struct.pack("<HHQ", 1, 8, begin), b"3\n"
    check = zlib.crc32(text).to_bytes(4, "little")
    tail += HEADER + struct.pack("<HH", len(note), len(extra)) + note + extra + text
    tail += b"PK\7\x08" + check + struct.pack("<QQ", 2, 2)
    listed = b""
    for entry, sum_, size, at, more in (
        (b"archive/data.pkl", code, len(PLAIN), 0, b""),
        (name, crc, 0xFFFFFFFF, len(first), struct.pack("<HHQQ", 1, 16, FAR, FAR)),
        (note, check, 2, 0xFFFFFFFF, extra),
    ):
        listed += (
            b"PK\1\2"
            + bytes(4)
            + b"\x08\x08"
            + bytes(6)
            + sum_
            + struct.pack("<IIHHHHHII", size, size, len(entry), len(more), 0, 0, 0, 0, at)
        )
        listed += entry + more
    where = len(head) + FAR + len(tail)
    end = where + len(listed)
    tail += listed + struct.pack(
        "<4sQHHIIQQQQ", b"PK\6\6", 44, 0, 0, 0, 0, 3, 3, len(listed), where
    )
    tail += struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
    tail += struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 3, 3, len(listed), 0xFFFFFFFF, 0)
    return Sparse(head, tail)


def test_a_tensor_of_4_gib_is_accepted() -> None:
    assert scan_archive(sparse()).entries["data/0"].size == FAR
    for wrong in (sparse(early=7), sparse(described=7)):
        with pytest.raises(UnsafeFileError, match="contradicts"):
            scan_archive(wrong)


# ---------------------------------------------------------------------------- pickles

HOOKS = b"ccollections\nOrderedDict\n)R"
STORAGE = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuK\4tQ"
BYTES = b"c_codecs\nencode\nX\1\0\0\0aX\6\0\0\0latin1\x86R"
DTYPE = b"cnumpy\ndtype\nX\2\0\0\0f8\x89\x88\x87R"


def by_2(code: bytes) -> bytes:
    return b"\x80\2" + code + b"."


def tensor(
    storage: bytes = STORAGE, shape: bytes = b"K\4\x85K\1\x85", hooks: bytes = HOOKS
) -> bytes:
    """The instructions of a tensor."""
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + shape + b"\x89" + hooks + b"tR"
    )


def scan(code: bytes) -> object:
    return scan_pickle(by_2(code), ARCHIVE_RULES, {"0": 16}, newest=2).value


def test_the_parts_of_the_next_test_are_good() -> None:
    for part in (HOOKS, tensor(), DTYPE, BYTES):
        scan(part)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(b"cos\nsystem\n.", "uses os.system", id="a global"),
        pytest.param(
            b"ctorch.storage\n_load_from_bytes\n", "uses torch.storage", id="a nested load"
        ),
        pytest.param(
            b"ctorch._tensor\n_rebuild_from_type_v2\n",
            "uses torch._tensor",
            id="a call of an argument",
        ),
        pytest.param(b"}" + b")R", "value that it computed", id="a call of a value"),
        pytest.param(HOOKS + b")R", "value that it computed", id="a call of an object"),
        pytest.param(b"ctorch\nfloat32\n)R", "it calls", id="a call of a constant"),
        pytest.param(
            b"ctorch._utils\n_rebuild_tensor_v2\n)\x81",
            "it creates an instance",
            id="an instance of a function",
        ),
        pytest.param(b"(cargparse\nNamespace\no", "instruction 'o'", id="the old instance"),
        pytest.param(b"(X\1\0\0\0xios\nsystem\n", "instruction 'i'", id="an instance by name"),
        pytest.param(b"\x82\1", "instruction '0x82'", id="an extension"),
        pytest.param(b"Px\n", "instruction 'P'", id="a reference by text"),
        pytest.param(b"cargparse\nNamespace.__init__\n", "it uses", id="a dotted name"),
        pytest.param(b"cargparse\n_os\n", "it uses", id="a name of another module"),
        pytest.param(
            b"cargparse\nNamespace\n)\x81}X\t\0\0\0__class__K\1sb",
            "sets a state",
            id="dunder attributes",
        ),
        pytest.param(
            b"cargparse\nNamespace\n)\x81}}X\1\0\0\0aK\1s\x86b",
            "sets a state",
            id="a state with slots",
        ),
        pytest.param(b"}}X\1\0\0\0aK\1sb", "has no state", id="a state of a dictionary"),
        pytest.param(
            b"cargparse\nNamespace\n}X\1\0\0\0aK\1sb", "has no state", id="a state of a class"
        ),
        pytest.param(
            HOOKS + b"}X\5\0\0\0itemsK\1sb",
            "sets a state",
            id="attributes of an ordered dictionary",
        ),
        pytest.param(
            tensor(hooks=HOOKS + b"K\1ccollections\nOrderedDict\ns"),
            "no checkpoint passes",
            id="hooks",
        ),
        pytest.param(
            b"(" + HOOKS + b"q\1" + tensor(hooks=b"h\1") + b"h\1K\1K\2st",
            "adds hooks",
            id="hooks by the memo",
        ),
        pytest.param(
            tensor(storage=STORAGE.replace(b"0X\3", b"1X\3")),
            "not in its archive",
            id="a storage that is not there",
        ),
        pytest.param(
            tensor(storage=STORAGE.replace(b"K\4", b"K\5")),
            "has 16 bytes",
            id="a storage that is shorter",
        ),
        pytest.param(
            tensor(shape=b"K\4\x85K\2\x85"), "no checkpoint passes", id="a view beyond its storage"
        ),
        pytest.param(
            tensor(shape=b"K\4\x85)"), "no checkpoint passes", id="a view with other axes"
        ),
        pytest.param(
            STORAGE.replace(b"X\7\0\0\0storage", b"X\6\0\0\0module"),
            "not in its archive",
            id="a module outside",
        ),
        pytest.param(
            b"cnumpy\ndtype\nX\2\0\0\0O8\x89\x88\x87R",
            "no checkpoint passes",
            id="objects in an array",
        ),
        pytest.param(
            b"cnumpy\ndtype\nX\2\0\0\0V8\x89\x88\x87R",
            "no checkpoint passes",
            id="records in an array",
        ),
        pytest.param(
            DTYPE + b"(K\3X\1\0\0\0<N}}J\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb",
            "sets a state",
            id="fields of a dtype",
        ),
        pytest.param(
            DTYPE + b"(K\3X\1\0\0\0<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\1tb",
            "sets a state",
            id="numbers as references",
        ),
        pytest.param(
            b"cnumpy.core.multiarray\nscalar\n" + DTYPE + b"]\x86R",
            "no checkpoint passes",
            id="a scalar of a list",
        ),
        pytest.param(
            b"c_codecs\nencode\nX\1\0\0\0aX\3\0\0\0zip\x86R",
            "no checkpoint passes",
            id="another codec",
        ),
        pytest.param(
            b"ccollections\ndefaultdict\ncargparse\nNamespace\n\x85R",
            "no checkpoint passes",
            id="another factory",
        ),
        pytest.param(
            b"c_io\nBytesIO\n)\x81" + BYTES + b"K\0}\x87b",
            "sets a state",
            id="attributes of a buffer",
        ),
        pytest.param(b"]K\0K\1s", "not a dictionary", id="items of a list"),
        pytest.param(tensor() + b"K\0K\1s", "not a dictionary", id="items of a tensor"),
        pytest.param(b"cbuiltins\nset\n]\x85RK\1a", "not a list", id="an item appended to a set"),
        pytest.param(b"}]K\1s", "as a key", id="a list as a key"),
        pytest.param(b"}K\1\x85\x85\x85K\1s", "as a key", id="a deep key"),
        pytest.param(b"\x8b\xff\xff\xff\x7f", "instruction '0x8b'", id="an integer without end"),
        pytest.param(b"\x8c\1a", "instruction '0x8c'", id="an instruction of a later protocol"),
        pytest.param(b"h\7", "parsing failed", id="a memo that is empty"),
        pytest.param(b"R", "parsing failed", id="a stack that is empty"),
        pytest.param(b"K\1t", "parsing failed", id="a mark that is missing"),
        pytest.param(b"K\1K\2", "more than one", id="two values"),
        pytest.param(b"K\1.K\1", "follow the pickle", id="bytes at the end"),
        pytest.param(b"\x80\4K\1", "instruction '0x80'", id="another protocol inside"),
    ],
)
def test_a_pickle_that_asks_for_more_is_refused(code: bytes, said: str) -> None:
    with pytest.raises(UnsafeFileError, match=re.escape(said)):
        scan(code)


def test_no_allowed_name_means_another_one_when_it_is_loaded() -> None:
    """Python's unpickler renames what the second protocol names."""
    for rules in (ARCHIVE_RULES, METADATA_RULES):
        for name in rules:
            assert name.module not in _compat_pickle.IMPORT_MAPPING
            assert (name.module, name.name) not in _compat_pickle.NAME_MAPPING


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_come_back(protocol: int) -> None:
    value = {
        "a": [1, -2, 2**40, -(2**70), 1.5, None, True, False, "ü", ()],
        (1, "b"): {"c": (1, 2)},
    }
    shared = [value, value]
    assert scan_pickle(pickle.dumps(shared, protocol=protocol), PLAIN_RULES).value == shared
    if protocol > 3:
        rest = [b"x" * 300, {1, 2}, "x" * 300]
        assert scan_pickle(pickle.dumps(rest, protocol=protocol), PLAIN_RULES).value == rest
