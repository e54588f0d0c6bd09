# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which tensors a checkpoint holds, and in which pieces; read without torch, running nothing.

The pieces are items of checkpoint shards. Nothing here compares digests: a checkpoint is verified
before.
"""

import zipfile
from dataclasses import dataclass
from typing import Any

from seatrial.checkpoints.archives import item_archive
from seatrial.checkpoints.naming import METADATA
from seatrial.checkpoints.pickles import PickleError, StoredItem, read_item, read_metadata
from seatrial.checkpoints.place import Place

COMMON = "common_state/shard_0_1"
"""The item with everything that is no tensor (megatron-core 0.19.2, serialization.py)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a tensor, as one rank wrote it."""

    offsets: tuple[int, ...]
    """Where it begins in the whole tensor."""
    sizes: tuple[int, ...]
    """Its shape."""
    item: StoredItem
    """Where its bytes are."""
    plain: bool = False
    """Whether they are the numbers alone; else an archive of torch that holds them."""


Places = dict[tuple[str, tuple[int, ...]], StoredItem]
"""Where each item is, by its name and where it begins in its tensor."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a checkpoint."""

    name: str
    """Its name."""
    dtype: str
    """Its type, by torch's name."""
    shape: tuple[int, ...]
    """Its whole shape, whoever wrote it."""
    chunks: tuple[Chunk, ...]
    """Its pieces."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a checkpoint holds."""

    tensors: dict[str, StoredTensor]
    """Its tensors, by name."""
    arguments: dict[str, Any]
    """The engine's arguments, as far as they are plain values; anything else is a stand-in."""


def contents_of(place: Place, directory: str) -> Contents:
    """What a verified checkpoint of Megatron holds; PickleError where it is not what it writes."""
    tensors, places = listed(place, directory)
    if (COMMON, ()) not in places:
        raise PickleError(f"the list of tensors lacks something ({COMMON})")
    held = read_stored(place, directory, places[COMMON, ()])
    try:
        return Contents(tensors, dict(vars(held[0]["args"])))
    except (KeyError, IndexError, TypeError) as error:
        raise PickleError(f"{COMMON} holds no arguments of the engine") from error


def listed(place: Place, directory: str) -> tuple[dict[str, StoredTensor], Places]:
    """The tensors that torch's list of a verified checkpoint names, and where every item is."""
    read = read_metadata(place.store.read(f"{directory}/{METADATA}"))
    try:
        places = {_key(index): _item(index, at) for index, at in read.storage_data.items()}
        tensors = {
            str(name): _tensor(str(name), told, places)
            for name, told in read.state_dict_metadata.items()
            if hasattr(told, "chunks")
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PickleError(f"the list of tensors lacks something ({error})") from error
    return tensors, places


def _key(index: Any) -> tuple[str, tuple[int, ...]]:
    return str(index.fqn), _sizes(getattr(index, "offset", None))


def _item(index: Any, at: Any) -> StoredItem:
    return StoredItem(str(index.fqn), str(at.relative_path), int(at.offset), int(at.length))


def _sizes(size: Any) -> tuple[int, ...]:
    """The numbers of a stand-in for torch's Size."""
    if size is None:
        return ()
    numbers = size.arguments[0] if hasattr(size, "arguments") else size
    return tuple(int(number) for number in numbers)


def _tensor(name: str, told: Any, places: Places) -> Any:
    chunks = tuple(
        Chunk(_sizes(one.offsets), _sizes(one.sizes), places[name, _sizes(one.offsets)])
        for one in told.chunks
    )
    # The first of the properties is the type, for which a class of its name stands in.
    return StoredTensor(name, told.properties.state[0].__name__, _sizes(told.size), chunks)


def read_stored(place: Place, directory: str, item: StoredItem) -> Any:
    """What an item holds that is no tensor; PickleError where it asks for more than is known."""
    with place.open(f"{directory}/{item.file}") as stream:
        try:
            with item_archive(stream, item) as archive:
                code = archive.read(
                    next(name for name in archive.namelist() if name.endswith("data.pkl"))
                )
        except (zipfile.BadZipFile, StopIteration) as error:
            raise PickleError(f"{item.name}: no archive of torch") from error
    return read_item(code)
