# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Crafted pickles are refused with a finding, and nothing of them runs."""

import io
import os
import pickle
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from seatrial.checkpoints.naming import METADATA
from seatrial.checkpoints.pickle_rules import ARCHIVE_RULES, METADATA_RULES, UnsafeFileError
from seatrial.checkpoints.pickle_scan import scan_pickle
from seatrial.checkpoints.stored_tensors import StoredItem, scan_items, stored_items
from seatrial.checkpoints.verification import verify
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.storage.location import LocalPlace
from tests.unit.checkpoints.made import (
    archive,
    bytes_tensor,
    crafted_list,
    extra_state,
    make_checkpoint,
    metadata,
)

NAME = NAMING.directory_name(10)


class Trap:
    """Unpickled, it makes a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._path),)


def test_the_trap_works(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))  # noqa: S301
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize("protocol", range(6))
def test_code_in_an_item_is_refused(tmp_path: Path, protocol: int) -> None:
    trap = pickle.dumps({"x": Trap(tmp_path / "sprung")}, protocol=protocol)
    make_checkpoint(tmp_path / "run", 10, item=archive(trap))
    findings = verify(LocalPlace(tmp_path / "run"), NAME)
    assert {finding.code for finding in findings} == {CheckpointCode.PICKLE}
    assert "No code from it was executed" in findings[0].rule
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("protocol", range(6))
def test_code_in_the_list_of_tensors_is_refused(tmp_path: Path, protocol: int) -> None:
    """The attacker has write access, and makes a record for what was put there."""
    with crafted_list(pickle.dumps(Trap(tmp_path / "sprung"), protocol=protocol)):
        make_checkpoint(tmp_path / "run", 10)
    (finding,) = verify(LocalPlace(tmp_path / "run"), NAME)
    assert finding.code == CheckpointCode.PICKLE
    assert ("mkdir" if protocol >= 2 else "not a pickle of protocol 2 to 5") in finding.rule
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "file", ["../iter_0000099/__0_i1_0.distcp", "/etc/passwd", METADATA, "nowhere"]
)
def test_the_list_of_tensors_leads_nowhere_else(tmp_path: Path, file: str) -> None:
    with crafted_list(metadata({"layer": (file, 0, 10)})):
        make_checkpoint(tmp_path / "run", 10)
    (finding,) = verify(LocalPlace(tmp_path / "run"), NAME)
    assert finding.code == CheckpointCode.METADATA


def test_an_item_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    trap = pickle.dumps(Trap(tmp_path / "sprung"), protocol=2)
    make_checkpoint(tmp_path / "run", 10, item=trap)
    codes = {finding.code for finding in verify(LocalPlace(tmp_path / "run"), NAME)}
    assert codes == {CheckpointCode.PICKLE}
    assert not (tmp_path / "sprung").exists()


def test_a_damaged_list_is_not_unpickled(tmp_path: Path) -> None:
    """The digest is looked at first: without the right one the pickle is never opened."""
    make_checkpoint(tmp_path / "run", 10)
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    shutil.copy(tmp_path / "run" / NAME / METADATA, tmp_path / "kept")
    size = (tmp_path / "kept").stat().st_size
    (tmp_path / "run" / NAME / METADATA).write_bytes(trap.ljust(size, b"."))
    (finding,) = verify(LocalPlace(tmp_path / "run"), NAME)
    assert finding.code == CheckpointCode.DIGEST


def test_the_items_of_a_list_are_told_in_order() -> None:
    items = stored_items(metadata({"b": ("f", 10, 5), "a": ("f", 0, 10)}))
    assert items == [StoredItem("a", "f", 0, 10), StoredItem("b", "f", 10, 5)]


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x80\x05.", pickle.dumps({"no": "list"})])
def test_what_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(UnsafeFileError):
        stored_items(data)


def test_instructions_that_hide_what_they_ask_for_are_refused_in_archives() -> None:
    with pytest.raises(UnsafeFileError, match="protocol 2"):
        scan_pickle(pickle.dumps(Trap(Path("x")), protocol=4), ARCHIVE_RULES, newest=2)
    plain = {"a": [1, 2.0, "b", b"c"]}
    assert scan_pickle(pickle.dumps(plain, protocol=2), ARCHIVE_RULES).value == plain


DEEP = b")" + b"\x85" * 1_000_000
"""A tuple in a tuple, and so on: its hash overflows the C stack."""


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(DEEP, id="value"),
        pytest.param(b"ccollections\ndefaultdict\n" + DEEP + b"\x85R", id="factory"),
        pytest.param(
            b"ccollections\nOrderedDict\n)R}X\x09\0\0\0_metadata" + DEEP + b"sb", id="state"
        ),
        pytest.param(b"]q\0h\0a", id="in itself"),
        # Each list is empty when the one around it gets it, and is filled thereafter.
        pytest.param(b"(]q\0" + b"h\0]q\0a" * 2000 + b"t", id="filled later"),
    ],
)
def test_nesting_that_overflows_the_stack_is_refused(code: bytes, tmp_path: Path) -> None:
    crafted = tmp_path / "deep"
    crafted.write_bytes(b"\x80\x02" + code + b".")
    scan = (
        "import sys; from seatrial.checkpoints import pickle_rules, pickle_scan\n"
        "try: pickle_scan.scan_pickle(open(sys.argv[1], 'rb').read(), pickle_rules.ARCHIVE_RULES)\n"
        "except pickle_rules.UnsafeFileError as error: print(error)"
    )
    # In a process of its own: what broke here was the interpreter.
    done = subprocess.run(
        [sys.executable, "-c", scan, str(crafted)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "levels deep" in done.stdout or "no checkpoint passes" in done.stdout


def test_what_a_checkpoint_nests_passes() -> None:
    shared: list[Any] = [1]
    value: dict[str, Any] = {"same": [shared, (shared, {"again": shared})], "deep": shared}
    for _ in range(200):
        value = {"in": value}
    assert scan_pickle(pickle.dumps(value, 4), ARCHIVE_RULES).value == value


def test_a_save_in_a_deep_directory_passes() -> None:
    # A path is pickled by its directories.
    deep = Path("/data", *("runs" for _ in range(100)), "checkpoints")
    assert len(deep.parts) > 100
    scan_pickle(pickle.dumps(deep, protocol=2), METADATA_RULES)


def _scan_named(name: str, item: bytes) -> None:
    scan_items(io.BytesIO(item), [StoredItem(name, "file", 0, len(item))])


def test_code_in_the_bytes_of_an_extra_state_is_refused(tmp_path: Path) -> None:
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    for name in ("decoder.layers.0.linear._extra_state/shard_0_1", "model.x._extra_state"):
        _scan_named(name, extra_state(pickle.dumps({"scale": [1.0], "extra": {"n": 1}})))
        _scan_named(name, extra_state(b""))
        _scan_named(name, archive(None))
        _scan_named(name, archive(io.BytesIO()))
        for wrong in (
            extra_state(trap),
            extra_state(b"no pickle"),
            extra_state(trap * 2, strides=2),
            archive(io.BytesIO(trap)),
            archive(io.BytesIO(archive(trap))),
            archive([{"x": io.BytesIO(archive(trap))}]),
        ):
            with pytest.raises(UnsafeFileError, match=r"_extra_state(/shard_0_1)?: "):
                _scan_named(name, wrong)
    # Under other names bytes are numbers.
    _scan_named("decoder.layers.0.weight", extra_state(trap))
    inside = b"\x80\2}X\x0e\0\0\0x._extra_state" + bytes_tensor(len(trap)) + b"s."
    make_checkpoint(tmp_path / "run", 10, item=archive(inside, trap))
    findings = verify(LocalPlace(tmp_path / "run"), NAME)
    assert {finding.code for finding in findings} == {CheckpointCode.PICKLE}
    assert not (tmp_path / "sprung").exists()


def rerun_classes(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Stand-ins for the engine's two tuples, under the names that a pickle has for them."""
    module = ModuleType("megatron.core.rerun_state_machine")
    Caller = namedtuple("Caller", ("message", "rank"))
    Call = namedtuple("Call", ("caller", "sequence"))
    for made in (Caller, Call):
        made.__module__ = module.__name__
        setattr(module, made.__name__, made)
    for name in ("megatron", "megatron.core", module.__name__):
        monkeypatch.setitem(sys.modules, name, module)
    return Caller, Call


def test_a_save_between_the_runs_of_a_step_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    caller, call = rerun_classes(monkeypatch)
    where = caller("loss is NaN", 3)
    state = {"failed": call(where, 2), "max_values": {where: 1.5}}
    assert scan_pickle(pickle.dumps(state, protocol=2), ARCHIVE_RULES).names


def test_a_validation_of_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    caller, call = rerun_classes(monkeypatch)
    for crafted in (call("no caller", 2), caller(["list"], 3), call(caller("NaN", 1), "two")):
        with pytest.raises(UnsafeFileError, match="that no checkpoint passes"):
            scan_pickle(pickle.dumps(crafted, protocol=2), ARCHIVE_RULES)
