# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read a checkpoint's tensors and their chunks without torch and without executing code.

A chunk is an item in a checkpoint shard, and a torch archive. This module does not compare digests:
verify the checkpoint first.
"""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from seatrial.checkpoints.fp8_rules import EXTRA_STATE_RULES
from seatrial.checkpoints.naming import METADATA
from seatrial.checkpoints.pickle_rules import METADATA_RULES, Made, Name, UnsafeFileError
from seatrial.checkpoints.pickle_scan import LARGEST_PICKLE, scan_pickle
from seatrial.checkpoints.scan import ScannedArchive, scan_archive
from seatrial.storage.location import Location

EXTRA_STATE = "_extra_state"
"""torch's name for the non-tensor state of a layer. For FP8, a pickle stored as bytes."""
_BUFFER = Name("_io", "BytesIO")
_REBUILT = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3")
_BYTES = ("ByteStorage", "CharStorage")


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A tensor or object, and its location."""

    name: str
    """The engine's name for the item, such as `decoder.layers.0.weight`."""
    file: str
    """The checkpoint shard."""
    offset: int
    """Offset in the shard, in bytes."""
    length: int
    """In bytes."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a tensor, as written by one rank."""

    offsets: tuple[int, ...]
    """Position of the chunk in the whole tensor."""
    sizes: tuple[int, ...]
    item: StoredItem
    """The location of its bytes."""
    plain: bool = False
    """True if the bytes are raw numbers; otherwise they are a torch archive."""


Places = dict[tuple[str, tuple[int, ...]], StoredItem]
"""Items by tensor name and position in the tensor."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a checkpoint."""

    name: str
    dtype: str
    """torch's name for the data type."""
    shape: tuple[int, ...]
    """The shape of the whole tensor."""
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a checkpoint."""

    tensors: dict[str, StoredTensor]
    arguments: dict[str, Any]
    """The engine's arguments. Stand-ins replace values that are not plain data."""


def listed(place: Location, directory: str) -> tuple[dict[str, StoredTensor], Places]:
    """Return the tensors in a verified checkpoint's metadata, and the location of each item."""
    read = _scanned_list(place.store.read(f"{directory}/{METADATA}"))
    try:
        places = {_key(index): _item(index, at) for index, at in read.storage_data.items()}
        tensors = {
            str(name): _tensor(str(name), told, places)
            for name, told in read.state_dict_metadata.items()
            if hasattr(told, "chunks")
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnsafeFileError(f"the tensor metadata is incomplete ({error})") from error
    return tensors, places


def _key(index: Any) -> tuple[str, tuple[int, ...]]:
    return str(index.fqn), _sizes(getattr(index, "offset", None))


def _item(index: Any, at: Any) -> StoredItem:
    values = (index.fqn, at.relative_path, at.offset, at.length)
    if tuple(map(type, values)) != (str, str, int, int) or at.offset < 0 or at.length < 0:
        raise ValueError("an item has no location")
    return StoredItem(*values)


def _sizes(size: Any) -> tuple[int, ...]:
    """Return the numbers in a stand-in for torch.Size."""
    if size is None:
        return ()
    numbers = size.arguments[0] if isinstance(size, Made) else size
    return tuple(int(number) for number in numbers)


def _tensor(name: str, told: Any, places: Places) -> Any:
    chunks = tuple(
        Chunk(_sizes(one.offsets), _sizes(one.sizes), places[name, _sizes(one.offsets)])
        for one in told.chunks
    )
    # The first property is the data type.
    return StoredTensor(name, told.properties.state[0].name, _sizes(told.size), chunks)


def stored_items(metadata: bytes) -> list[StoredItem]:
    """Return all items that the engine's tensor metadata references, ordered by location."""
    read = _scanned_list(metadata)
    try:
        items = [_item(index, at) for index, at in read.storage_data.items()]
    except (AttributeError, TypeError, ValueError) as error:
        raise UnsafeFileError(f"the tensor metadata is incomplete ({error})") from error
    return sorted(items, key=lambda item: (item.file, item.offset))


def scan_items(stream: BinaryIO, items: Iterable[StoredItem]) -> None:
    """Scan items in a shard. Raises UnsafeFileError for the first that must not be loaded."""
    for item in items:
        _scan_item(stream, item)


def _scan_item(stream: BinaryIO, item: StoredItem) -> ScannedArchive:
    try:
        scanned = scan_archive(stream, offset=item.offset, length=item.length)
        for held in _extra_states(item.name, scanned.content.value):
            _scan_extra_state(scanned, held)
    except UnsafeFileError as error:
        raise UnsafeFileError(f"{item.name}: {error}") from None
    return scanned


def _extra_states(name: str, value: Any) -> Iterator[Made]:
    """Yield the objects stored as extra state, which layers unpickle."""
    waiting, seen = [(EXTRA_STATE in name, value)], set()
    while waiting:
        is_inside, one = waiting.pop()
        if isinstance(one, Made):
            if is_inside:
                yield one
        elif isinstance(one, dict | list | tuple) and (id(one), is_inside) not in seen:
            seen.add((id(one), is_inside))
            pairs = one.items() if isinstance(one, dict) else enumerate(one)
            waiting += [(is_inside or EXTRA_STATE in str(key), below) for key, below in pairs]


def _scan_extra_state(archive: ScannedArchive, held: Made) -> None:
    """Scan the pickle in a tensor's bytes, or the archive in a buffer."""
    if held.kind == _BUFFER and held.state and held.state[0]:
        scan_archive(io.BytesIO(held.state[0]))
    if held.kind.name not in _REBUILT or held.arguments[0].kind not in _BYTES:
        return
    storage, offset, size, strides = held.arguments[:4]
    shape, steps = _sizes(size), _sizes(strides)
    if shape == (0,):
        return
    if len(shape) != 1 or steps != (1,):
        raise UnsafeFileError("the bytes of a layer's extra state are not contiguous")
    if shape[0] > LARGEST_PICKLE:
        raise UnsafeFileError(
            f"a layer's extra state has {shape[0]:,} bytes, more than {LARGEST_PICKLE:,}"
        )
    # The scanner has already checked that the tensor is inside its storage.
    archive.stream.seek(archive.offset + archive.entries[f"data/{storage.key}"].begin + offset)
    scan_pickle(archive.stream.read(shape[0]), EXTRA_STATE_RULES)


def _scanned_list(metadata: bytes) -> Any:
    return scan_pickle(metadata, METADATA_RULES).value


def read_stored(place: Location, directory: str, item: StoredItem) -> Any:
    """Read an item that is not a tensor. Raises UnsafeFileError if it uses unknown names."""
    with place.open(f"{directory}/{item.file}") as stream:
        return _scan_item(stream, item).content.value
