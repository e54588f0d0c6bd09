# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""File names of checkpoints: the engine's own, and those that Seatrial adds."""

import re

RECORD = "seatrial-record.json"
"""The record, written last and exactly once, in the checkpoint's directory."""
VERIFIED = "seatrial-verified.json"
"""Time and progress of the last verification, in the checkpoint's directory."""
PIN = "seatrial-pin.json"
"""Protects a checkpoint from pruning, in the checkpoint's directory."""
OURS = frozenset({RECORD, VERIFIED, PIN})
"""Seatrial's files in a checkpoint's directory, in addition to the list of files."""

TRACKER = "latest_checkpointed_iteration.txt"
"""The file from which the engine reads the newest step."""
STARTS = "seatrial/starts"
"""The directory, next to the checkpoints, with one file for each start of the processes."""

METADATA = ".metadata"
"""The engine's list of tensors, with the shard and offset of each. A pickle."""
FORMAT_FILE = "metadata.json"
"""The engine's file that states the format of a checkpoint."""

_NAME = r"(iter_(?=\d{7})|ba(?!0))(?P<step>\d+)"
"""The directories of Megatron, and of Composer, which uses no leading zeros."""
_DIRECTORY = re.compile(_NAME)
_SET_ASIDE = re.compile(rf"{_NAME}\.replaced-by-(?P<incarnation>\d+)")
_SHARD = re.compile(r"__\d+_(i(?P<incarnation>\d+)_)?\d+\.distcp")
_SHARD_LIST = re.compile(r"seatrial-shards-(?P<incarnation>\d+)\.jsonl")


_ARCHIVES = (".pt", ".pth", ".pkl", ".bin", ".ckpt")


def directory_name(step: int) -> str:
    """Return the directory of a step's Megatron checkpoint."""
    return f"iter_{step:07d}"


def step_of(directory: str) -> int | None:
    """Return the step in a directory's name; None if it is not a checkpoint."""
    match = _DIRECTORY.fullmatch(directory)
    return int(match["step"]) if match else None


def set_aside_name(directory: str, incarnation: int) -> str:
    """Return the new name of a checkpoint whose step is saved again."""
    return f"{directory}.replaced-by-{incarnation}"


def is_set_aside(directory: str) -> bool:
    """True if the directory holds a checkpoint whose step was saved again."""
    return _SET_ASIDE.fullmatch(directory) is not None


def shard_list_name(incarnation: int) -> str:
    """Return the name of the file list with digests, in the checkpoint's directory."""
    return f"seatrial-shards-{incarnation}.jsonl"


def is_left_behind(name: str) -> bool:
    """True if a file outside the record is left over from an interrupted save."""
    ours = _SHARD.fullmatch(name) or _SHARD_LIST.fullmatch(name)
    return bool(ours) or name == ".metadata.tmp" or name.startswith(".seatrial")


def incarnation_of(name: str) -> int | None:
    """Return the start that wrote a shard or a shard list; None if the name does not contain it."""
    match = _SHARD.fullmatch(name) or _SHARD_LIST.fullmatch(name)
    return int(match["incarnation"]) if match and match["incarnation"] else None


def is_archive(name: str) -> bool:
    """True if the engine would pass a file of this name to torch.load."""
    return name.endswith(_ARCHIVES)


def engine_reads(name: str) -> bool:
    """True if the engine might read a file or directory of this name."""
    return (
        name in (METADATA, FORMAT_FILE, "modelopt_state", "latest_checkpointed_iteration.txt")
        or is_archive(name)
        or name.startswith(("mp_rank_", "model_optim"))
        or (name.startswith(".") and name.endswith(METADATA))
    )
