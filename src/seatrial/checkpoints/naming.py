# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""File names of checkpoints: those that each engine declares, torch's, and those of Seatrial."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from seatrial.spec.engine import REGISTERED_ENGINES, engine_named

RECORD = "seatrial-record.json"
"""The record, written last and exactly once, in the checkpoint's directory."""
VERIFIED = "seatrial-verified.json"
"""Time and progress of the last verification, in the checkpoint's directory."""
PIN = "seatrial-pin.json"
"""Protects a checkpoint from pruning, in the checkpoint's directory."""
OURS = frozenset({RECORD, VERIFIED, PIN})
"""Seatrial's files in a checkpoint's directory, in addition to the list of files."""

OWN_DIRECTORY = "seatrial"
"""The directory, next to the checkpoints, that every start of Seatrial's worker writes to."""
STARTS = f"{OWN_DIRECTORY}/starts"
"""The directory, next to the checkpoints, with one file for each start of the processes."""

METADATA = ".metadata"
"""torch's list of tensors, with the shard and offset of each. A pickle."""

_ASIDE = re.compile(r"(?P<directory>.+)\.replaced-by-\d+")
_SHARD = re.compile(r"__\d+_(i(?P<incarnation>\d+)_)?\d+\.distcp")
_SHARD_LIST = re.compile(r"seatrial-shards-(?P<incarnation>\d+)\.jsonl")
_ARCHIVES = (".pt", ".pth", ".pkl", ".bin", ".ckpt")


@dataclass(frozen=True, slots=True)
class CheckpointNaming:
    """An engine's names for its checkpoints, and for the files that it reads."""

    directory: str
    """The directory of a step, as a format string of `step`."""
    tracker: str = ""
    """The file next to the checkpoints that contains the newest step; empty if there is none."""
    format_file: str = ""
    """The file in a checkpoint that states its format; empty if there is none."""
    marks_shards: bool = False
    """True if the shards that Seatrial saves have the number of the start in their names."""
    other_files: tuple[str, ...] = ()
    """Patterns of other names in a checkpoint that the engine reads, in addition to torch's."""

    def directory_name(self, step: int) -> str:
        """Return the directory of a step."""
        return self.directory.format(step=step)

    def step_of(self, directory: str) -> int | None:
        """Return the step in a directory's name; None if it is not a checkpoint of the engine."""
        before, _, after = self.directory.partition("{step")
        digits = directory.removeprefix(before).removesuffix(after.partition("}")[2])
        step = int(digits) if digits.isascii() and digits.isdigit() else None
        return step if step is not None and self.directory_name(step) == directory else None

    def reads(self, name: str) -> bool:
        """True if the engine might read a file or directory of this name in a checkpoint."""
        return (
            name in (METADATA, self.format_file, self.tracker)
            or is_archive(name)
            or (name.startswith(".") and name.endswith(METADATA))
            or any(fnmatchcase(name, pattern) for pattern in self.other_files)
        )


def all_namings() -> Iterator[CheckpointNaming]:
    """Yield the names of each registered engine, for checkpoints whose engine is not known yet."""
    for name in REGISTERED_ENGINES:
        yield engine_named(name).checkpoint_naming


def step_of(directory: str) -> int | None:
    """Return the step in a directory's name; None if it is no engine's checkpoint."""
    steps = (naming.step_of(directory) for naming in all_namings())
    return next((step for step in steps if step is not None), None)


def is_marked(directory: str) -> bool:
    """True if Seatrial's own saves in a directory of this name have marked shards."""
    return any(n.marks_shards for n in all_namings() if n.step_of(directory) is not None)


def set_aside_name(directory: str, incarnation: int) -> str:
    """Return the new name of a checkpoint whose step is saved again."""
    return f"{directory}.replaced-by-{incarnation}"


def is_set_aside(directory: str) -> bool:
    """True if the directory holds a checkpoint whose step was saved again."""
    match = _ASIDE.fullmatch(directory)
    return match is not None and step_of(match["directory"]) is not None


def shard_list_name(incarnation: int) -> str:
    """Return the name of the file list with digests, in the checkpoint's directory."""
    return f"seatrial-shards-{incarnation}.jsonl"


def is_left_behind(name: str) -> bool:
    """True if a file outside the record is left over from an interrupted save."""
    ours = _SHARD.fullmatch(name) or _SHARD_LIST.fullmatch(name)
    return bool(ours) or name == ".metadata.tmp" or name.startswith(".seatrial")


def is_shard(name: str) -> bool:
    """True if torch's distributed checkpoints name a shard so, with or without a start."""
    return _SHARD.fullmatch(name) is not None


def incarnation_of(name: str) -> int | None:
    """Return the start that wrote a shard or a shard list; None if the name does not contain it."""
    match = _SHARD.fullmatch(name) or _SHARD_LIST.fullmatch(name)
    return int(match["incarnation"]) if match and match["incarnation"] else None


def is_archive(name: str) -> bool:
    """True if an engine would pass a file of this name to torch.load."""
    return name.endswith(_ARCHIVES)
