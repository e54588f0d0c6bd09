# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The one reader and the one writer of state files."""

import ast
import errno
import os
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest

from seatrial.checkpoints.commit import write_tracker
from seatrial.planning.calibration import Calibration, write_calibration
from seatrial.rehearsal.rehearse import RehearsalReport, write_report
from seatrial.runs.ledger.host import LocalRun
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord, End
from seatrial.sdk.pipeline import Logbook
from seatrial.storage import state_files
from seatrial.storage.directory import LocalStore
from seatrial.storage.location import LocalPlace
from seatrial.storage.state_files import (
    MOST_NESTED,
    DamagedError,
    create_state,
    decode,
    make_directory,
    open_append,
    open_regular,
    parse_json,
    read_json,
    read_state,
    write_state,
    write_whole,
)
from seatrial.worker.supervisor.exit_records import Final, remember

SOURCES = Path(state_files.__file__).parents[1]
WHEN = "2026-11-15T03:12:00Z"


# ------------------------------------------------------------------------------------ reading


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("{", "it is not JSON"),
        (b"\xff\xfe", "it is not UTF-8"),
        ("\ufeff{}", "it is not JSON"),
        ("NaN", "NaN"),
        ("[1e999]", "too large"),
        ("9" * 5000, "too large"),
        (str(2**63), "too large"),
        ("[" * 200_000, "levels deep"),
        ("[" * (MOST_NESTED + 1) + "]" * (MOST_NESTED + 1), "levels deep"),
        ('{"a": "\\u0000"}', "NUL"),
        ('{"\\ud800": 1}', "half of a surrogate pair"),
    ],
)
def test_json_that_would_fail_later_is_damaged(text: str | bytes, why: str) -> None:
    with pytest.raises(DamagedError, match=why):
        parse_json(text)


def test_json_at_the_limits_is_read() -> None:
    assert parse_json("[" * MOST_NESTED + "]" * MOST_NESTED)
    assert parse_json(str(2**63 - 1)) == 2**63 - 1
    assert parse_json(str(-(2**63))) == -(2**63)
    assert parse_json('{"é": [1.5e300, "\\ud83d\\ude00", null]}') == {"é": [1.5e300, "😀", None]}


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(before)


@pytest.mark.parametrize(
    "put",
    [
        as_pipe,
        as_socket,
        Path.mkdir,
        lambda path: path.symlink_to(path.name),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.write_bytes(b"x" * 11),
    ],
)
@pytest.mark.timeout(10)
def test_what_is_no_small_file_is_damaged(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "state")
    with pytest.raises(DamagedError):
        read_state(tmp_path / "state", 10)


@pytest.mark.timeout(10)
def test_a_pipe_is_not_waited_for_whatever_it_is_opened_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for opened in (open_regular, open_append):
        with pytest.raises(OSError, match="named pipe"):
            opened(tmp_path / "pipe")


def test_what_is_missing_is_not_damaged(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    for path in ("none", "file/below", "link"):
        with pytest.raises(FileNotFoundError):
            read_json(tmp_path / path)


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    number: int


@dataclass(frozen=True)
class Outer:
    name: str
    share: float
    inner: Inner
    colour: Colour | None = None
    words: tuple[str, ...] = ()
    table: dict[str, str] | None = None


GOOD = {
    "name": "a",
    "share": 1,
    "inner": {"number": 2},
    "colour": "red",
    "words": ["b"],
    "table": {"c": "d"},
    "of a later version": 1,
}


def test_a_dataclass_is_made_with_the_types_of_its_fields() -> None:
    assert decode(Outer, GOOD) == Outer("a", 1.0, Inner(2), Colour.RED, ("b",), {"c": "d"})
    assert decode(Outer, GOOD | {"colour": None}).colour is None


@pytest.mark.parametrize(
    "change",
    [
        {"name": 1}, {"name": None}, {"share": "1"}, {"share": True}, {"inner": 2},
        {"inner": {"number": 1.5}}, {"inner": {"number": True}}, {"inner": {}}, {"colour": "blue"},
        {"words": "b"}, {"words": [1]}, {"words": {}}, {"table": []}, {"table": {"c": 1}},
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_damaged(change: dict[str, object]) -> None:
    with pytest.raises(DamagedError, match=next(iter(change)) + "|number"):
        decode(Outer, GOOD | change)


@pytest.mark.parametrize("value", [None, [], 1, "x", {}, {"name": "a"}])
def test_what_is_no_such_object_is_damaged(value: object) -> None:
    with pytest.raises(DamagedError):
        decode(Outer, value)


# ------------------------------------------------------------------------------------ writing


def test_state_is_for_its_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_state(tmp_path / "a/b/c", "x")
        create_state(tmp_path / "a/d", "x")
        open_append(tmp_path / "a/e").close()
    finally:
        os.umask(before)
    for name in ("a/b/c", "a/d", "a/e"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    for name in ("a", "a/b"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700
    (tmp_path / "a/d").chmod(0o644)
    write_state(tmp_path / "a/d", "y")
    assert (tmp_path / "a/d").stat().st_mode & 0o777 == 0o600


def test_a_file_that_the_user_named_keeps_its_permissions(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "page.html", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o644
    (tmp_path / "page.html").chmod(0o640)
    write_whole(tmp_path / "page.html", "y")
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o640


def test_a_name_is_given_once(tmp_path: Path) -> None:
    create_state(tmp_path / "a", "first")
    with pytest.raises(FileExistsError):
        create_state(tmp_path / "a", "second")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["first"]


def test_a_name_is_given_once_where_there_are_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    create_state(tmp_path / "a", "first")
    with pytest.raises(FileExistsError):
        create_state(tmp_path / "a", "second")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["first"]


def test_a_file_above_is_not_taken_for_a_name_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        create_state(tmp_path / "file/a/b", "x")
    with pytest.raises(NotADirectoryError):
        make_directory(tmp_path / "file")


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_state(tmp_path / "a", "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_state(tmp_path / "a", "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_temporary_names_differ_between_hosts_processes_and_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    replace = os.replace

    def noting(source: Path, target: Path) -> None:
        names.append(Path(source).name)
        replace(source, target)

    monkeypatch.setattr(os, "replace", noting)
    for host in ("a", "b.example.org"):
        monkeypatch.setattr(socket, "gethostname", lambda host=host: host)
        for process in (1, 2):
            monkeypatch.setattr(os, "getpid", lambda process=process: process)
            write_state(tmp_path / "state", "x")
            write_state(tmp_path / "state", "x")
    assert len(set(names)) == len(names) == 8
    assert [name.rpartition("-")[0] for name in names[::2]] == [
        *(".state.a-1", ".state.a-2", ".state.b-1", ".state.b-2"),
    ]
    long = tmp_path / ("x" * 255)
    write_state(long, "x")
    assert long.read_text() == "x"


# A write survives a power cut if the file is on the disk before its name is given, and the name is
# on the disk before the call returns.

CALIBRATION = Calibration(1.0, 1.0, 1.0, 9, 2, 0, 0.01, {}, "", "")
WRITERS: dict[str, Callable[[Path], object]] = {
    "state": lambda home: write_state(home / "new/state", "x"),
    "state once": lambda home: create_state(home / "new/state", "x"),
    "output": lambda home: write_whole(home / "page.html", "x"),
    "record": lambda home: LocalRun(home).add(AttemptRecord(1, "a", WHEN, "", "")),
    "end": lambda home: LocalRun(home).end(1, End(WHEN, AttemptOutcome.FAILED)),
    "pipeline": lambda home: Logbook(home / "pipeline.json", {}).note("rules"),
    "calibration": lambda home: write_calibration(CALIBRATION, home),
    "rehearsal": lambda home: write_report(
        RehearsalReport("a", "", "", (), (), 1), home / "r.json"
    ),
    "final": lambda home: remember(home, Final("a", 1)),
    "store": lambda home: LocalStore(home).create("work/record.json", b"x"),
    "tracker": lambda home: write_tracker(LocalPlace(str(home)), "newest.txt", "100"),
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is asked of the system, in order: what is synced, and what is named."""
    found: list[tuple[str, str]] = []
    fsync, replace, link = os.fsync, os.replace, os.link

    def synced(number: int) -> None:
        found.append(("sync", os.readlink(f"/proc/self/fd/{number}")))
        fsync(number)

    def replaced(source: Path, target: Path) -> None:
        found.append(("name", f"{source} {target}"))
        replace(source, target)

    def linked(source: Path, target: Path) -> None:
        found.append(("name", f"{source} {target}"))
        link(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(os, "link", linked)
    return found


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_survives_a_power_cut(
    tmp_path: Path, calls: list[tuple[str, str]], writer: str
) -> None:
    WRITERS[writer](tmp_path)
    names = [number for number, (what, _) in enumerate(calls) if what == "name"]
    assert len(names) == 1, calls
    hidden, path = calls[names[0]][1].split(" ")
    before = [where for what, where in calls[: names[0]] if what == "sync"]
    after = [where for what, where in calls[names[0] + 1 :] if what == "sync"]
    assert before[-1] == hidden
    assert str(Path(path).parent) in after
    # A directory that was made for it has its name on the disk too.
    for above in Path(path).parents:
        if above == tmp_path:
            break
        assert str(above.parent) in (*before, *after), calls


# Nobody else writes files in place, gives them their names or parses what it has just read: whoever
# does is listed with the reason.
PLAIN_WRITERS = {
    "checkpoints/commit.py": "sets a whole directory aside; it syncs the files of the engine",
    "checkpoints/digesting_file.py": "files of the engine, which a commit makes count",
    "sdk/output_files.py": "a device such as /dev/stdout cannot be replaced",
    "cli/main.py": "the report of a defect, in the directory for temporary files",
    "cli/watch.py": "the terminal",
    "dataprep/estimate.py": "in a temporary directory of the call",
    "dataprep/inspection.py": "in a temporary directory of the call",
    "storage/directory.py": "streams of any size: fsync, name, fsync, as state_files does",
    "storage/uploads.py": "an object store, which has no files to sync",
    "monitoring/event_log.py": "appends lines; half a line is left out by its reader",
    "storage/state_files.py": "the writer itself",
    "worker/node/all_reduce.py": "a probe that other nodes look for; nobody reads it later",
    "worker/node/measure.py": "a probe of the volume's speed, deleted at once",
    "worker/node/preflight.py": "a probe of the disk, and the message for the kubelet",
    "worker/supervisor/heartbeats.py": "written over in place at every step",
    "worker/weights/export.py": "an export, in a new directory that is synced as a whole",
    "worker/megatron/shard_writing.py": "weights of a start, in a new directory",
}
_NAMING = {"replace", "link", "rename", "renames"}
_WRITING = {"write_text", "write_bytes"}
_WRITE_MODE = re.compile(r"[rbt]*[wax+][wax+bt]*")


def plain_writes(tree: ast.AST) -> Iterator[str]:
    """The calls that write a file in place, or give one its name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        owner = function.value if isinstance(function, ast.Attribute) else None
        is_os = isinstance(owner, ast.Name) and owner.id == "os"
        if name in _WRITING or (is_os and name in _NAMING):
            yield f"{name} on line {node.lineno}"
        is_open = name == "open" or (isinstance(function, ast.Name) and function.id == "open")
        words = [*node.args, *(each.value for each in node.keywords)]
        modes = [each.value for each in words if isinstance(each, ast.Constant)]
        if is_open and any(isinstance(m, str) and _WRITE_MODE.fullmatch(m) for m in modes):
            yield f"open for writing on line {node.lineno}"
        flags = {n.attr for each in words for n in ast.walk(each) if isinstance(n, ast.Attribute)}
        is_descriptor = isinstance(function, ast.Name) and function.id == "open_descriptor"
        if ((is_os and name == "open") or is_descriptor) and flags & {"O_WRONLY", "O_RDWR"}:
            yield f"a descriptor for writing on line {node.lineno}"


def test_nobody_else_writes_files_in_place() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        calls = list(plain_writes(ast.parse(path.read_text())))
        if calls:
            found[path.relative_to(SOURCES).as_posix()] = calls
    others = {name: calls for name, calls in found.items() if name not in PLAIN_WRITERS}
    assert not others, f"write through seatrial.storage.state_files: {others}"
    assert found.keys() == PLAIN_WRITERS.keys(), "an exemption that nobody needs"


PLAIN_READERS = {
    "checkpoints/exchange/import_plan.py": "a file of the Hub, whose limits are its own",
    "checkpoints/exchange/safetensors_file.py": "a file of the Hub, whose limits are its own",
}


def test_nobody_else_parses_a_file_as_json() -> None:
    found: dict[str, list[int]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.loads", "json.load"):
                text = ast.unparse(node)
                if "read" in text or text.startswith("json.load("):
                    name = path.relative_to(SOURCES).as_posix()
                    found.setdefault(name, []).append(node.lineno)
    assert found.keys() == PLAIN_READERS.keys(), "read through seatrial.storage.state_files"
