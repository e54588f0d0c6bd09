# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Corruptions, drawn by seed: the verifier finds every one."""

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.checkpoints.inventory import tracked_step
from seatrial.checkpoints.naming import METADATA, RECORD, shard_list_name
from seatrial.checkpoints.verification import verify
from seatrial.engines.megatron.checkpoint_names import FORMAT_FILE, NAMING, TRACKER
from seatrial.findings import has_errors
from seatrial.storage.location import LocalPlace
from tests.unit.checkpoints.made import make_checkpoint

CASES = 90
SEED = 20261115
SHARD_LIST = shard_list_name(1)
OLD, NEW = NAMING.directory_name(10), NAMING.directory_name(20)
Corruption = Callable[[Path, random.Random], None]


def files_of(checkpoint: Path) -> list[Path]:
    """The files that a record protects, itself and its list among them."""
    return sorted(file for file in checkpoint.iterdir() if file.is_file())


def any_file(root: Path, draw: random.Random) -> Path:
    return draw.choice(files_of(root / NEW))


def flip(root: Path, draw: random.Random) -> None:
    file = any_file(root, draw)
    data = bytearray(file.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)


def zero(root: Path, draw: random.Random) -> None:
    file = any_file(root, draw)
    data = bytearray(file.read_bytes())
    begin = draw.randrange(max(1, len(data) - 4096))
    end = min(len(data), begin + 4096)
    data[begin:end] = bytes(end - begin)
    file.write_bytes(data)


def truncate(root: Path, draw: random.Random) -> None:
    file = any_file(root, draw)
    data = file.read_bytes()
    file.write_bytes(data[: draw.randrange(len(data))])


def extend(root: Path, draw: random.Random) -> None:
    file = any_file(root, draw)
    file.write_bytes(file.read_bytes() + draw.randbytes(draw.randint(1, 64)))


def swap(root: Path, draw: random.Random) -> None:
    one, other = (root / NEW / f"__{rank}_i1_0.distcp" for rank in (0, 1))
    mine, theirs = one.read_bytes(), other.read_bytes()
    one.write_bytes(theirs)
    other.write_bytes(mine)


def delete(root: Path, draw: random.Random) -> None:
    any_file(root, draw).unlink()


def stale_record(root: Path, draw: random.Random) -> None:
    """The record, or the record and its list, of the checkpoint before."""
    for name in draw.choice([(RECORD,), (RECORD, SHARD_LIST), (SHARD_LIST,)]):
        shutil.copy(root / OLD / name, root / NEW / name)


def stale_file(root: Path, draw: random.Random) -> None:
    """A file of the checkpoint before: whole, and of the wrong step."""
    name = draw.choice(["__0_i1_0.distcp", "__1_i1_0.distcp"])
    shutil.copy(root / OLD / name, root / NEW / name)


def added_file(root: Path, draw: random.Random) -> None:
    """What the engine would read in the place of what was saved."""
    (root / NEW / draw.choice(["common.pt", "mp_rank_00", "x.metadata.pkl"])).write_bytes(b"x")


CORRUPTIONS: tuple[Corruption, ...] = (
    flip,
    zero,
    truncate,
    extend,
    swap,
    delete,
    stale_record,
    stale_file,
    added_file,
)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("run") / "checkpoints"
    for step in (10, 20):
        make_checkpoint(root, step)
    return root


def bytes_of(root: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in files_of(root / NEW)}


def corrupted(pristine: Path, root: Path, seed: int) -> str:
    """A copy with one corruption that changes something; which one."""
    draw = random.Random(seed)  # noqa: S311
    corruption = draw.choice(CORRUPTIONS)
    before = bytes_of(pristine)
    while True:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(pristine, root)
        corruption(root, draw)
        # Zeroing zeros changes nothing, and there is nothing to find then.
        if bytes_of(root) != before:
            return corruption.__name__


def silent_corruptions(pristine: Path, root: Path, cases: int) -> tuple[list[str], Counter[str]]:
    """The corruptions that the verifier does not find, and how often each kind was drawn."""
    silent, drawn = [], Counter[str]()
    for seed in range(SEED, SEED + cases):
        name = corrupted(pristine, root, seed)
        drawn[name] += 1
        place = LocalPlace(root)
        findings = verify(place, NEW, threads=1)
        # A checkpoint without its record does not exist: told as a warning, and passed by.
        gone = not (root / NEW / RECORD).exists() and bool(findings)
        if not (has_errors(findings) or gone):
            silent.append(f"{seed} {name}")
    return silent, drawn


def test_no_corruption_is_silent(pristine: Path, tmp_path: Path) -> None:
    silent, drawn = silent_corruptions(pristine, tmp_path / "copy", CASES)
    assert not silent
    assert all(drawn[corruption.__name__] for corruption in CORRUPTIONS)


def test_what_was_not_touched_is_good(pristine: Path) -> None:
    place = LocalPlace(pristine)
    assert verify(place, OLD) == []
    assert verify(place, NEW) == []


@pytest.mark.parametrize("text", ["", "garbage", "\0\0\0", "20\n10", "-5", "release", "9" * 30])
def test_a_garbage_tracker_is_no_step(pristine: Path, tmp_path: Path, text: str) -> None:
    root = tmp_path / "copy"
    shutil.copytree(pristine, root)
    (root / TRACKER).write_text(text)
    assert tracked_step(LocalPlace(root)) == -1


def test_files_that_nobody_reads_do_no_harm(pristine: Path, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    shutil.copytree(pristine, root)
    (root / NEW / "notes.txt").write_text("mine")
    (root / NEW / "__0_i9_0.distcp").write_bytes(b"cut short")
    assert verify(LocalPlace(root), NEW) == []


@pytest.mark.parametrize("name", [METADATA, FORMAT_FILE, SHARD_LIST])
def test_every_file_of_the_frame_is_needed(pristine: Path, tmp_path: Path, name: str) -> None:
    root = tmp_path / "copy"
    shutil.copytree(pristine, root)
    (root / NEW / name).unlink()
    assert has_errors(verify(LocalPlace(root), NEW))
