# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The state of FP8: what Transformer Engine writes passes, and nothing that looks like it."""

import pytest

from seatrial.checkpoints.fp8_rules import EXTRA_STATE_RULES
from seatrial.checkpoints.pickle_rules import UnsafeFileError
from seatrial.checkpoints.pickle_scan import scan_pickle

STORAGE = (
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00(X\x10\x00\x00\x00"
    b"protocol_versionq\x01M\xe9\x03X\r\x00\x00\x00little_endianq\x02\x88X\n\x00\x00\x00type_sizes"
    b"q\x03}q\x04(X\x05\x00\x00\x00shortq\x05K\x02X\x03\x00\x00\x00intq\x06K\x04X\x04\x00\x00\x00"
    b"longq\x07K\x04uu.\x80\x02(X\x07\x00\x00\x00storageq\x00ctorch\nFloatStorage\nq\x01X\x0e\x00"
    b"\x00\x0094305212986624q\x02X\x03\x00\x00\x00cpuq\x03K\x03Ntq\x04Q.\x80\x02]q\x00X\x0e\x00\x00"
    b"\x0094305212986624q\x01a.\x03\x00\x00\x00\x00\x00\x00\x00" + bytes(12)
)
"""Three numbers as torch writes them."""
RECIPE = b"ctransformer_engine.common.recipe\n"
FORMAT = RECIPE + b"Format\n" + RECIPE + b"_FormatHelper\nM\xc0\x01M\x00\xe0\x86\x81\x85R"


def tensor(storage: bytes, size: int = 3) -> bytes:
    held = b"ctorch.storage\n_load_from_bytes\nB" + len(storage).to_bytes(4, "little") + storage
    view = b"K\x00K" + bytes([size]) + b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)Rt"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + held + b"\x85R" + view + b"R"


def recipe(name: bytes, value: bytes) -> bytes:
    key = b"X" + len(name).to_bytes(4, "little") + name
    return RECIPE + b"DelayedScaling\n)\x81}" + key + value + b"sb"


def scan(code: bytes) -> None:
    scan_pickle(b"\x80\x04" + code + b".", EXTRA_STATE_RULES)


@pytest.mark.parametrize("code", [tensor(STORAGE), recipe(b"fp8_format", FORMAT)])
def test_what_the_engine_writes_passes(code: bytes) -> None:
    scan(code)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(tensor(STORAGE, size=4), id="view beyond the storage"),
        pytest.param(tensor(STORAGE[:-1]), id="storage cut short"),
        pytest.param(tensor(STORAGE + b"."), id="bytes behind the storage"),
        pytest.param(tensor(STORAGE.replace(b"Float", b"Other")), id="unknown class"),
        pytest.param(tensor(STORAGE.replace(b"K\x03N", b"K\x04N")), id="counts that differ"),
        pytest.param(tensor(STORAGE.replace(b"Ntq\x04Q", b"Ntq\x040cos\nsystem\n")), id="code"),
        pytest.param(tensor(b"\x80\x02cos\nsystem\n."), id="a pickle as storage"),
        pytest.param(
            recipe(b"amax_compute_algo", b"ctorch.storage\n_load_from_bytes\n"), id="function"
        ),
        pytest.param(recipe(b"__class__", b"N"), id="attribute of Python"),
        pytest.param(RECIPE + b"DelayedScaling\n}X\x01\0\0\0aNsb", id="state of a class"),
        pytest.param(RECIPE + b"Format\nK\x01\x85R", id="no format"),
        pytest.param(b"cnumpy\nndarray\nK\x01\x85X\x01\0\0\0O\x86R", id="array of objects"),
    ],
)
def test_anything_else_is_refused(code: bytes) -> None:
    with pytest.raises(UnsafeFileError):
        scan(code)
