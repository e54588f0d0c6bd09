# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""safetensors files: a length, JSON with the location of each tensor, and the tensor bytes.

Implemented here because the official library maps whole files into memory or needs all tensors at
once. The format is described at https://huggingface.co/docs/safetensors.
"""

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.codes.exchange import ExchangeCode, refusal

DTYPES = {"float32": ("F32", 4), "bfloat16": ("BF16", 2), "float16": ("F16", 2)}
"""Data types by torch's name, with the format's name and the size in bytes."""
LARGEST_FILE = 5_000_000_000
"""Maximum tensor bytes per file. Larger models are split, as in Hugging Face's own tools."""
INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
_LONGEST_HEADER = 100 << 20
_READ_BYTES = 8 << 20
"""How much of a tensor is in memory at once for a comparison."""
_NAMES = {name: ours for ours, (name, _) in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in a file."""

    name: str
    dtype: str
    """torch's name for the data type."""
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        count = DTYPES[self.dtype][1]
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor and the location of its bytes."""

    tensor: Tensor
    file: Path
    offset: int
    """The position of the tensor's first byte."""


def header(tensors: Iterable[Tensor]) -> bytes:
    """Return the header of a file with these tensors."""
    content: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in tensors:
        begin, end = end, end + tensor.size
        content[tensor.name] = {
            "dtype": DTYPES[tensor.dtype][0],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(content, separators=(",", ":")).encode()
    # Align the tensors to 8 bytes.
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def divided(tensors: Iterable[Tensor], largest: int = LARGEST_FILE) -> dict[str, list[Tensor]]:
    """Split the tensors into files, in order; a single file if they fit."""
    groups: list[list[Tensor]] = [[]]
    size = 0
    for tensor in tensors:
        if groups[-1] and size + tensor.size > largest:
            groups.append([])
            size = 0
        groups[-1].append(tensor)
        size += tensor.size
    if len(groups) == 1:
        return {SINGLE: groups[0]}
    count = len(groups)
    return {
        f"model-{number:05d}-of-{count:05d}.safetensors": group
        for number, group in enumerate(groups, start=1)
    }


def index_of(files: dict[str, list[Tensor]]) -> dict[str, Any]:
    """Return the index, which maps each tensor to its file."""
    total = sum(tensor.size for tensors in files.values() for tensor in tensors)
    names = {tensor.name: file for file, tensors in files.items() for tensor in tensors}
    return {"metadata": {"total_size": total}, "weight_map": names}


def placed_tensors(directory: Path) -> dict[str, Placed]:
    """Return every tensor in a directory's files. Raises FindingsError if they cannot be read."""
    index = directory / INDEX
    if index.is_file():
        try:
            names = set(json.loads(index.read_bytes())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _unreadable(index, f"it is not a tensor index ({error})") from error
        files = [directory / Path(str(name)).name for name in sorted(map(str, names))]
    elif (directory / SINGLE).is_file():
        files = [directory / SINGLE]
    else:
        pickled = sorted(path.name for path in directory.glob("*.bin"))
        rule = "the directory contains no safetensors weights."
        fix = (
            "Use a directory that contains model.safetensors, or several safetensors files and "
            "their index."
        )
        if pickled:
            rule = f"{pickled[0]} is a pickle, which could execute code, so it is not loaded."
            fix = "Convert the model to safetensors first, with save_pretrained in transformers."
        raise refusal(ExchangeCode.UNREADABLE, str(directory), rule, fix)
    found: dict[str, Placed] = {}
    for file in files:
        found |= _read_header(file)
    return found


def same_values(one: Placed, other: Placed) -> bool:
    """True if two tensors have the same data type, shape and bytes; reads a little at a time."""
    if (one.tensor.dtype, one.tensor.shape) != (other.tensor.dtype, other.tensor.shape):
        return False
    left = one.tensor.size
    with one.file.open("rb") as ours, other.file.open("rb") as theirs:
        ours.seek(one.offset)
        theirs.seek(other.offset)
        while left:
            size = min(left, _READ_BYTES)
            if ours.read(size) != theirs.read(size):
                return False
            left -= size
    return True


def _read_header(file: Path) -> dict[str, Placed]:
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > min(_LONGEST_HEADER, size):
                raise _unreadable(file, f"its header has {length:,} bytes")
            content = json.loads(stream.read(length))
        content.pop("__metadata__", None)
        return {name: _placed(file, name, told, 8 + length, size) for name, told in content.items()}
    except OSError as error:
        raise _unreadable(file, str(error.strerror)) from error
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(file, f"its header cannot be read ({type(error).__name__})") from error


def _placed(file: Path, name: str, told: dict[str, Any], base: int, size: int) -> Placed:
    if told["dtype"] not in _NAMES:
        raise _unreadable(file, f"{name} has the unsupported data type {told['dtype']}")
    tensor = Tensor(name, _NAMES[told["dtype"]], tuple(int(n) for n in told["shape"]))
    begin, end = (int(offset) for offset in told["data_offsets"])
    if begin < 0 or end - begin != tensor.size or base + end > size:
        raise _unreadable(file, f"{name} is not inside the file")
    return Placed(tensor, file, base + begin)


def _unreadable(file: Path, said: str) -> Exception:
    return refusal(
        ExchangeCode.UNREADABLE,
        str(file),
        f"the file cannot be read as safetensors: {said}.",
        "Download the file again, and compare it with the published digest.",
    )
