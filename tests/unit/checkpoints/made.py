# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as the engine writes them, without torch: the same files, pickles and archives."""

import hashlib
import io
import json
import pickle
import random
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from seatrial.checkpoints.commit import commit, read_back, write_tracker
from seatrial.checkpoints.naming import METADATA
from seatrial.checkpoints.record import Record, ShardFile, ShardList
from seatrial.checkpoints.setup import DataOrder, ModelShape, Setup, Versions
from seatrial.checkpoints.starts import claim
from seatrial.engines.llm_foundry.checkpoints import WHOLE_FILE
from seatrial.engines.megatron.checkpoint_names import FORMAT_FILE, NAMING, TRACKER
from seatrial.planning.layout import Layout
from seatrial.storage.location import LocalPlace

SETUP = Setup(
    layout=Layout(dp_size=2),
    model=ModelShape(
        layers=2, hidden_size=32, ffn_hidden_size=128, heads=4, kv_heads=4, head_dim=8,
        positions="learned_absolute", max_positions=16, norm="LayerNorm", gated=False,
        linear_bias=True, qkv_bias=True, qk_norm=False, tied_embeddings=True,
        padded_vocab_size=128, experts=0, dense_layers=0, expert_ffn_hidden_size=0,
        shared_expert_ffn_hidden_size=0,
    ),
    data_order=DataOrder(("1", "/data/a"), (), "99,1,0", 1234, 16, 400),
    tokenizer="NullTokenizer",
    precision="fp32",
    checkpoint_format="torch_dist",
    optimizer="adam",
    optimizer_sharding="fully_reshardable",
    global_batch_size=4,
    versions=Versions("0.1.0", "megatron-core 0.19.2", "2.13.0"),
)  # fmt: skip
_CHECKPOINT = "torch.distributed.checkpoint"


def record(step: int, incarnation: int = 1, **values: Any) -> Record:
    """A record before its commit."""
    empty = ShardList(0, 0, "")
    return Record(step, step * 4, "", incarnation, empty, values.pop("setup", SETUP), **values)


def archive(content: Any = None, tensor: bytes = b"") -> bytes:
    """One item of a shard, as torch saves it."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as file:
        code = content if isinstance(content, bytes) else pickle.dumps(content, protocol=2)
        file.writestr("archive/data.pkl", code)
        file.writestr("archive/data/0", tensor)
    return held.getvalue()


def bytes_tensor(count: int, *, strides: int = 1) -> bytes:
    """The instructions that make a tensor of bytes, in the storage `0`."""
    number = b"J" + count.to_bytes(4, "little")
    storage = b"(X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\x000X\3\0\0\0cpu" + number + b"tQ"
    view = b"K\0" + b"J" + (count // strides).to_bytes(4, "little") + b"\x85K"
    rest = bytes([strides]) + b"\x85\x89ccollections\nOrderedDict\n)Rt"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + view + rest + b"R"


def extra_state(inner: bytes, **how: int) -> bytes:
    """An item whose tensor has bytes that a layer of FP8 would unpickle."""
    return archive(b"\x80\2" + bytes_tensor(len(inner), **how) + b".", inner)


def torch_class(module: str, name: str) -> Any:
    """A class that pickles by the name of one of torch's, which need not be installed."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:end]), ModuleType(".".join(parts[:end])))
    inner = sys.modules[module]
    kind = getattr(inner, name, None) or type(name, (), {"__module__": module})
    setattr(inner, name, kind)
    return kind


def metadata(places: dict[str, tuple[str, int, int]]) -> bytes:
    """The list of tensors, pointing at items by file, offset and length."""
    before = {name for name in sys.modules if name.startswith("torch")}
    try:
        whole = torch_class(f"{_CHECKPOINT}.metadata", "Metadata")()
        whole.state_dict_metadata, whole.storage_data = {}, {}
        for name, (file, offset, length) in places.items():
            index = torch_class(f"{_CHECKPOINT}.metadata", "MetadataIndex")()
            index.fqn, index.index = name, None
            at = torch_class(f"{_CHECKPOINT}.filesystem", "_StorageInfo")()
            at.relative_path, at.offset, at.length = file, offset, length
            whole.storage_data[index] = at
        return pickle.dumps(whole)
    finally:
        for name in [name for name in sys.modules if name.startswith("torch")]:
            if name not in before:
                del sys.modules[name]


@contextmanager
def crafted_list(data: bytes) -> Iterator[None]:
    """Someone who may write there puts a list of tensors, and makes a record for it all the same.

    The files that are made meanwhile have that list; a commit would refuse it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.metadata", lambda places: data)
        patch.setattr("seatrial.checkpoints.commit._refuse_unlisted", lambda *given: None)
        yield


def write_files(
    directory: Path,
    ranks: int = 2,
    size: int = 9000,
    incarnation: int = 1,
    item: bytes | None = None,
    seed: int = 0,
) -> list[ShardFile]:
    """The engine's files of one checkpoint, and the digests of its shards."""
    directory.mkdir(parents=True, exist_ok=True)
    draw = random.Random(f"{directory} {seed}")  # noqa: S311
    shards, places = [], {}
    for rank in range(ranks):
        name = f"__{rank}_i{incarnation}_0.distcp"
        data = b""
        for number in range(2):
            one = item or archive({"a": number}, draw.randbytes(size))
            places[f"layer.{rank}.{number}"] = (name, len(data), len(one))
            data += one
        (directory / name).write_bytes(data)
        shards.append(ShardFile(name, len(data), hashlib.sha256(data).hexdigest()))
    (directory / METADATA).write_bytes(metadata(places))
    note = {"sharded_backend": "torch_dist", "sharded_backend_version": 1}
    (directory / FORMAT_FILE).write_text(json.dumps(note))
    return shards


def make_checkpoint(root: Path, step: int, **values: Any) -> Record:
    """A committed checkpoint, with the tracker on it."""
    place = LocalPlace(root)
    wanted = {name: values.pop(name) for name in ("setup", "validation_loss") if name in values}
    incarnation = values.get("incarnation", 1)
    shards = write_files(root / NAMING.directory_name(step), **values)
    if not list(place.names("seatrial/starts")):
        claim(place, "1", 0)
    done = commit(place, shards, record(step, incarnation, **wanted))
    write_tracker(place, TRACKER, str(step))
    return done.record


def crafted_whole(root: Path, step: int, data: bytes, setup: Setup) -> Path:
    """A checkpoint of Composer's that is one file, made by someone who can write the record too."""
    place, directory = LocalPlace(root), root / f"ba{step}"
    directory.mkdir(parents=True)
    (directory / WHOLE_FILE).write_bytes(data)
    claim(place, "1", 0)
    commit(place, [read_back(directory / WHOLE_FILE)], record(step, setup=setup))
    return directory


def flip(file: Path) -> None:
    """Damage one bit of a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
