# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Files that carry code, by the thousand: what torch's own loaders execute, Seatrial refuses.

And the reverse: what both versions of torch write themselves passes, with the same values.
"""

import io
import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from seatrial.checkpoints.pickle_rules import METADATA_RULES, PLAIN_RULES, UnsafeFileError
from seatrial.checkpoints.pickle_scan import scan_pickle
from seatrial.checkpoints.scan import scan_archive
from seatrial.checkpoints.stored_tensors import StoredItem, scan_items
from tests.attack.crafted_files import Crafted, Route, crafted
from tests.scanned import scan_checkpoint
from tests.unit.checkpoints.made import extra_state

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

Size = Callable[[int, int], int]
Record = Callable[[str, object], None]
Answers = list[dict[str, Any]]

REPOSITORY = Path(__file__).parents[2]
FILES, FEW_FILES = 2400, 150
LEAST_EXECUTED = 1000
"""With each torch: the more of the files execute, the more the refusals say."""
NEVER_EXECUTES = {
    "prefix": "torch takes a file that begins with other bytes for a pickle",
    "shifted prefix": "the same",
    "gap before the first entry": "the same",
    "ARCHIVE/data.pkl": "torch wants one folder, in one case",
    "decoy in another folder": "torch wants one folder",
    "decoy in the first folder": "torch looks for its version in the first folder",
    "name with backslash": "torch wants one folder",
    "no folder": "torch wants one folder",
    "name that is no UTF-8": "torch lists all names",
    "duplicate, hostile first": "torch takes the last of two entries",
    "zip64 offset differs": "torch believes the plain field",
    "zip64 disks": "torch refuses divided archives",
    "archive on disk 1": "torch refuses divided archives",
    "encrypted flag": "torch refuses it",
    "strong encryption flag": "torch refuses it",
    "patch flag": "torch refuses it",
    "count too small": "the version is not listed",
    "count too large": "torch refuses it",
    "no version": "torch refuses it",
    "unknown byteorder": "torch refuses it",
    "calls nt.system": "a module of Windows",
    "calls __builtin__.execfile": "Python 2",
    "calls ctypes.CDLL": "there is no library of that name",
    "deep factory": "it calls nothing; it is about the scanner, whose process would end",
    "flags of a dtype": "numpy fails when it frees the array; no code of the file runs",
}
"""Tricks that no loader of torch falls for by itself; they are refused like the others."""


def _environments(size: Size) -> dict[str, str]:
    """Python of each engine, by its name."""
    wanted = {"megatron": "SEATRIAL_WORKER_PYTHON", "composer": "SEATRIAL_LLM_FOUNDRY_PYTHON"}
    if size(0, 1):
        # torch alone: loading an engine takes longer than all files of the short form.
        wanted = {"torch": wanted["megatron"]}
    return {engine: os.environ[variable] for engine, variable in wanted.items()}


def _run(python: str, module: str, *words: str) -> Answers:
    command = [python, "-m", f"tests.attack.{module}", *words]
    if os.geteuid() == 0:
        command = ["unshare", "--net", *command]
    paths = os.pathsep.join((str(REPOSITORY / "src"), str(REPOSITORY)))
    settings = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, env=os.environ | settings, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _scan(file: Crafted) -> bool:
    """True if the scanner lets a file pass; any error but UnsafeFileError fails the test."""
    stream = io.BytesIO(file.data)
    try:
        match file.route:
            case Route.ARCHIVE:
                scan_archive(stream)
            case Route.ITEM:
                scan_archive(stream, offset=file.offset, length=file.length)
            case Route.METADATA:
                scan_pickle(file.data, METADATA_RULES)
            case Route.DUMP:
                scan_pickle(file.data, PLAIN_RULES)
            case Route.EXTRA_STATE:
                held = extra_state(file.data)
                item = StoredItem("layer._extra_state", "file", 0, len(held))
                scan_items(io.BytesIO(held), [item])
    except UnsafeFileError:
        return False
    return True


def _written(files: list[Crafted], directory: Path) -> None:
    with (directory / "index.jsonl").open("w") as index:
        for number, file in enumerate(files):
            name = f"{number:05}.pt"
            (directory / name).write_bytes(file.data)
            case = {"file": name, "route": file.route, "offset": file.offset, "length": file.length}
            index.write(json.dumps(case) + "\n")


def test_the_same_seed_makes_the_same_distinct_files() -> None:
    once, again = crafted(300), crafted(300)
    assert once == again
    assert len({(file.route, file.data) for file in once}) == 300


def test_no_crafted_file_executes_through_seatrial(
    tmp_path: Path, attack_size: Size, record_property: Record
) -> None:
    files = crafted(attack_size(FILES, FEW_FILES))
    _written(files, tmp_path)
    passed = {number for number, file in enumerate(files) if _scan(file)}
    environments = _environments(attack_size)
    with ThreadPoolExecutor(2) as pool:
        answers = dict(
            pool.map(
                lambda engine: (
                    engine,
                    _run(environments[engine], "jail", str(tmp_path), "--engine", engine),
                ),
                environments,
            )
        )
    assert {len(one) for one in answers.values()} == {len(files)}
    raw = {engine: _executed(one, "raw") for engine, one in answers.items()}
    for engine, one in answers.items():
        assert not [files[number].name for number in _executed(one, "seatrial")], engine
        died = [number for number, answer in enumerate(one) if answer["seatrial"].get("died")]
        assert not [files[number].name for number in died], engine
    union = set().union(*raw.values())
    assert not [files[number].name for number in sorted(passed & union)]
    least = attack_size(LEAST_EXECUTED, FEW_FILES // 3)
    assert min(map(len, raw.values())) >= least, {one: len(found) for one, found in raw.items()}
    if attack_size(1, 0):
        _refuse_vacuous(files, union)
    counts = ", ".join(f"{len(found):,} under {engine}" for engine, found in raw.items())
    shown = f"{len(files):,} crafted files ({len(union):,} executed under torch's own loaders"
    record_property("figure", f"{shown}: {counts}): 0 executed through Seatrial")


def _executed(answers: Answers, way: str) -> set[int]:
    return {number for number, answer in enumerate(answers) if answer[way]["executed"]}


def _refuse_vacuous(files: list[Crafted], executed: set[int]) -> None:
    """Every trick must execute under some loader of torch, unless it is known not to."""
    tricks = {trick for file in files for trick in file.tricks}
    working = {trick for number in executed for trick in files[number].tricks}
    assert tricks - working - set(NEVER_EXECUTES) == set()
    assert set(NEVER_EXECUTES) & working == set()


def test_legitimate_files_pass_with_the_same_values(
    tmp_path: Path, attack_size: Size, record_property: Record
) -> None:
    accepted = 0
    for engine, python in _environments(attack_size).items():
        directory = tmp_path / engine
        directory.mkdir()
        few = () if attack_size(1, 0) else ("--few",)
        compared = _run(python, "legitimate_files", str(directory), *few)
        for case in compared:
            scan_checkpoint(directory / case["file"])
        assert not [answer for answer in compared if not answer["same"]], engine
        accepted += len(compared)
        # Some have gigabytes.
        (directory / "large.pt").unlink(missing_ok=True)
    assert accepted >= attack_size(200, 20)
    record_property("figure", f"{accepted} legitimate files: {accepted} accepted")
