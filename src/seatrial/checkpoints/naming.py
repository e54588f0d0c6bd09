# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How the files of a run's checkpoints are called: the engine's own names, and ours beside them."""

import re

RECORD = "seatrial-record.json"
"""The record, created last and once, in the checkpoint's directory."""
VERIFIED = "seatrial-verified.json"
"""When the checkpoint was last verified, and how far, in the checkpoint's directory."""
PIN = "seatrial-pin.json"
"""Keeps a checkpoint from being pruned, in the checkpoint's directory."""
OURS = frozenset({RECORD, VERIFIED, PIN})
"""Files of a checkpoint's directory that are not the engine's, beside the list of files."""

TRACKER = "latest_checkpointed_iteration.txt"
"""Where the engine looks up the newest step."""
STARTS = "seatrial/starts"
"""The directory, beside the checkpoints, with one file for each start of the processes."""

METADATA = ".metadata"
"""The engine's list of tensors: where each lies in which checkpoint shard. A pickle."""
FORMAT_FILE = "metadata.json"
"""The engine's note of which format a checkpoint has."""

_NAME = r"(iter_(?=\d{7})|ba(?!0))(?P<step>\d+)"
"""Megatron's directories and Composer's, which knows no leading zeros."""
_DIRECTORY = re.compile(_NAME)
_SET_ASIDE = re.compile(rf"{_NAME}\.replaced-by-(?P<incarnation>\d+)")
_SHARD = re.compile(r"__\d+_(i(?P<incarnation>\d+)_)?\d+\.distcp")
_SHARD_LIST = re.compile(r"seatrial-shards-(?P<incarnation>\d+)\.jsonl")


_ARCHIVES = (".pt", ".pth", ".pkl", ".bin", ".ckpt")


def directory_name(step: int) -> str:
    """The directory of a step's checkpoint of Megatron."""
    return f"iter_{step:07d}"


def step_of(directory: str) -> int | None:
    """The step that a directory's name says; none where it is no checkpoint's."""
    match = _DIRECTORY.fullmatch(directory)
    return int(match["step"]) if match else None


def set_aside_name(directory: str, incarnation: int) -> str:
    """Where a checkpoint goes whose step is saved again."""
    return f"{directory}.replaced-by-{incarnation}"


def is_set_aside(directory: str) -> bool:
    """Whether a directory holds a checkpoint whose step was saved again."""
    return _SET_ASIDE.fullmatch(directory) is not None


def shard_list_name(incarnation: int) -> str:
    """The list of files with their digests, in the checkpoint's directory, of the one who saves."""
    return f"seatrial-shards-{incarnation}.jsonl"


def is_left_behind(name: str) -> bool:
    """Whether a file without a place in the record is what a save that was cut short leaves."""
    ours = _SHARD.fullmatch(name) or _SHARD_LIST.fullmatch(name)
    return bool(ours) or name == ".metadata.tmp" or name.startswith(".seatrial")


def incarnation_of(name: str) -> int | None:
    """The start that wrote a checkpoint shard or a list of them; none where the name has none."""
    match = _SHARD.fullmatch(name) or _SHARD_LIST.fullmatch(name)
    return int(match["incarnation"]) if match and match["incarnation"] else None


def is_archive(name: str) -> bool:
    """True if the engine would hand a file to torch.load by its name."""
    return name.endswith(_ARCHIVES)


def engine_reads(name: str) -> bool:
    """Whether the engine might read a file, or look into a directory, by its name alone."""
    return (
        name in (METADATA, FORMAT_FILE, "modelopt_state", "latest_checkpointed_iteration.txt")
        or is_archive(name)
        or name.startswith(("mp_rank_", "model_optim"))
        or (name.startswith(".") and name.endswith(METADATA))
    )
