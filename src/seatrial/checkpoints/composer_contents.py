# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint of Composer's holds, sharded or whole; read without torch, running nothing.

A whole one is a single archive of torch: a pickle that describes everything, and the numbers of
each tensor as they are. The pickle is read through stand-ins, and of the numbers only is found out
where they lie; so the file may be larger than memory. Beside the tensors Composer keeps the
configuration of a Hugging Face model, which MPT is one of (composer 0.32.1, `get_metadata` of
models/huggingface.py); it is of what was trained, whatever a spec has become since.
"""

import struct
import zipfile
from collections.abc import Iterable
from typing import Any, BinaryIO

from seatrial.checkpoints.naming import COMPOSER_FILE
from seatrial.checkpoints.pickles import PickleError, StoredItem, read_item
from seatrial.checkpoints.place import Place
from seatrial.checkpoints.settings import flat
from seatrial.checkpoints.stored_tensors import (
    Chunk,
    Contents,
    StoredTensor,
    listed,
    read_stored,
)

MODEL = "state.model."
"""What the names of the model's tensors begin with in a sharded checkpoint."""
CONFIG = ("state", "integrations", "huggingface", "model", "config", "content")
"""Where the configuration of the model stands."""
STORAGES = {
    "FloatStorage": ("float32", 4),
    "BFloat16Storage": ("bfloat16", 2),
    "HalfStorage": ("float16", 2),
    "DoubleStorage": ("float64", 8),
}
"""The kinds of storages that weights have: the type of a number, and its bytes."""
_NAMES = struct.Struct("<26xHH")
"""The head of an entry of an archive: at its end, how long the name and what follows it are."""


def sharded_contents(place: Place, directory: str) -> Contents:
    """What a verified checkpoint of FSDP holds; PickleError where it is none of Composer's."""
    tensors, places = listed(place, directory)
    prefix = ".".join(CONFIG) + "."
    settings = {
        name.removeprefix(prefix): read_stored(place, directory, item)
        for (name, _), item in places.items()
        if name.startswith(prefix)
    }
    ours = {
        name.removeprefix(MODEL): tensor
        for name, tensor in tensors.items()
        if name.startswith(MODEL)
    }
    return _contents(ours, settings)


def whole_contents(place: Place, directory: str) -> Contents:
    """What a verified checkpoint of one file holds; PickleError where it is none of Composer's."""
    with place.open(f"{directory}/{COMPOSER_FILE}") as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                return _whole(stream, archive)
        except zipfile.BadZipFile as error:
            raise PickleError(f"{COMPOSER_FILE}: no archive of torch") from error


def _contents(tensors: dict[str, StoredTensor], settings: dict[str, Any]) -> Contents:
    if not tensors or not settings:
        raise PickleError("there is no model of Hugging Face's make in it, nor its configuration")
    return Contents(tensors, settings)


def _whole(stream: BinaryIO, archive: zipfile.ZipFile) -> Contents:
    entries = {entry.filename.partition("/")[2]: entry for entry in archive.infolist()}
    if "data.pkl" not in entries:
        raise PickleError(f"{COMPOSER_FILE}: no archive of torch")
    if "byteorder" in entries and archive.read(entries["byteorder"]) != b"little":
        raise PickleError(f"{COMPOSER_FILE} was written on a machine of another byte order")
    state = read_item(archive.read(entries["data.pkl"]))
    try:
        tensors = {
            str(name): _tensor(str(name), one, stream, entries)
            for name, one in _at(state, ("state", "model")).items()
        }
        settings = flat(_at(state, CONFIG))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise PickleError(f"it is not what Composer writes ({error})") from error
    return _contents(tensors, settings)


def _at(tree: Any, names: Iterable[str]) -> Any:
    for name in names:
        tree = tree[name]
    return tree


def _tensor(
    name: str, told: Any, stream: BinaryIO, entries: dict[str, zipfile.ZipInfo]
) -> StoredTensor:
    """A tensor, from the arguments of the function that would make it."""
    storage, offset, size, strides = told.arguments[:4]
    _, kind, key, *_ = storage.arguments[0]
    dtype, width = STORAGES[kind.__name__]
    shape = tuple(int(one) for one in size)
    if tuple(strides) != _strides(shape):
        raise ValueError(f"{name} does not lie in one piece")
    count = 1
    for one in shape:
        count *= one
    entry = entries[f"data/{key}"]
    if entry.compress_type != zipfile.ZIP_STORED or (offset + count) * width > entry.file_size:
        raise ValueError(f"{name} is not where it should be")
    begin = _begin(stream, entry) + offset * width
    item = StoredItem(name, COMPOSER_FILE, begin, count * width)
    chunk = Chunk((0,) * len(shape), shape, item, plain=True)
    return StoredTensor(name, dtype, shape, (chunk,))


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor whose numbers follow each other."""
    found: list[int] = []
    step = 1
    for size in reversed(shape):
        found.append(step)
        step *= size
    return tuple(reversed(found))


def _begin(stream: BinaryIO, entry: zipfile.ZipInfo) -> int:
    """Where the bytes of an entry begin; torch fills up before them, so only its head tells."""
    stream.seek(entry.header_offset)
    head = stream.read(_NAMES.size)
    if len(head) < _NAMES.size:
        raise ValueError("the archive ends too early")
    name, extra = _NAMES.unpack(head)
    return entry.header_offset + _NAMES.size + int(name) + int(extra)
