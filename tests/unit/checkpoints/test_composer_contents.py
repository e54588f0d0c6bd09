# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint of Composer's holds is found without torch, and without running anything."""

import io
import pickle
import struct
import sys
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seatrial.checkpoints.pickle_rules import UnsafeFileError
from seatrial.checkpoints.stopping import StopError
from seatrial.engines.llm_foundry.checkpoints import WHOLE_FILE, refuse_foreign, whole_contents
from seatrial.storage.location import LocalPlace
from tests.unit.checkpoints.made import archive, torch_class, write_files
from tests.unit.checkpoints.test_pickles import Trap

WEIGHT, PLACE = "model.transformer.wte.weight", "ba9"
CONFIG = {"model_type": "mpt", "d_model": 2, "attn_config": {"alibi": True}}


@dataclass
class Storage:
    """Numbers that torch keeps beside the pickle."""

    key: str
    kind: str = "FloatStorage"


@dataclass
class Tensor:
    """Pickles as a tensor does."""

    storage: Storage
    size: tuple[int, ...] = (3, 2)
    strides: tuple[int, ...] = (2, 1)
    offset: int = 2

    def __reduce__(self) -> Any:
        made = torch_class("torch._utils", "_rebuild_tensor_v2")
        return made, (self.storage, self.offset, self.size, self.strides, False, OrderedDict())


class _Pickler(pickle.Pickler):
    """Keeps storages outside, as torch does."""

    def persistent_id(self, thing: Any) -> Any:
        if isinstance(thing, Storage):
            return ("storage", torch_class("torch", thing.kind), thing.key, "cpu", 8)
        return None


def whole(root: Path, tensor: object, config: object = CONFIG, order: bytes = b"little") -> None:
    """A checkpoint of one file, as Composer writes it."""
    before = {name for name in sys.modules if name.startswith("torch")}
    integrations = {"huggingface": {"model": {"config": {"content": config}}}}
    # A module's own dictionary, which has notes beside its keys.
    weights = OrderedDict({WEIGHT: tensor})
    weights._metadata = {"": {"version": 1}}  # type: ignore[attr-defined]
    state = {"state": {"model": weights, "integrations": integrations}, "rng": []}
    held, code = io.BytesIO(), io.BytesIO()
    try:
        _Pickler(code, protocol=2).dump(state)
    finally:
        for name in [name for name in sys.modules if name.startswith("torch")]:
            if name not in before:
                del sys.modules[name]
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as file:
        file.writestr("rank0/data.pkl", code.getvalue())
        file.writestr("rank0/byteorder", order)
        file.writestr("rank0/data/0", struct.pack("<8f", *range(8)))
    (root / PLACE).mkdir()
    (root / PLACE / WHOLE_FILE).write_bytes(held.getvalue())


def test_the_numbers_of_a_tensor_are_found(tmp_path: Path) -> None:
    whole(tmp_path, Tensor(Storage("0")))
    there = whole_contents(LocalPlace(tmp_path), PLACE)
    assert there.arguments == {"model_type": "mpt", "d_model": 2, "attn_config.alibi": True}
    (chunk,) = there.tensors[WEIGHT].chunks
    assert (there.tensors[WEIGHT].shape, there.tensors[WEIGHT].dtype) == ((3, 2), "float32")
    assert chunk.plain
    data = (tmp_path / PLACE / WHOLE_FILE).read_bytes()
    held = data[chunk.item.offset : chunk.item.offset + chunk.item.length]
    assert struct.unpack("<6f", held) == (2, 3, 4, 5, 6, 7)


@pytest.mark.parametrize(
    ("tensor", "config", "order", "said"),
    [
        (Tensor(Storage("0"), strides=(1, 3)), CONFIG, b"little", "not contiguous"),
        (Tensor(Storage("0"), offset=3), CONFIG, b"little", "no checkpoint passes"),
        (Tensor(Storage("7")), CONFIG, b"little", "not in its archive"),
        (Tensor(Storage("0", "IntStorage")), CONFIG, b"little", "not a Composer checkpoint"),
        (Tensor(Storage("0", "LongStorage")), CONFIG, b"little", "storage 0 has 32 bytes"),
        (Tensor(Storage("0")), CONFIG, b"big", "a different byte order"),
        (Tensor(Storage("0")), {}, b"little", "no model configuration"),
        (7, CONFIG, b"little", "not a Composer checkpoint"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_composer_does_not_write_is_refused(
    tmp_path: Path, tensor: object, config: object, order: bytes, said: str
) -> None:
    whole(tmp_path, tensor, config, order)
    with pytest.raises(UnsafeFileError, match=said):
        whole_contents(LocalPlace(tmp_path), PLACE)


def test_code_beside_the_weights_is_not_run(tmp_path: Path) -> None:
    whole(tmp_path, Tensor(Storage("0")), {"a": Trap(tmp_path / "sprung")})
    with pytest.raises(UnsafeFileError, match="mkdir"):
        whole_contents(LocalPlace(tmp_path), PLACE)
    with pytest.raises(StopError, match="ST-CHECKPOINT-009"):
        refuse_foreign(str(tmp_path / PLACE / WHOLE_FILE))
    assert not (tmp_path / "sprung").exists()


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / PLACE).mkdir()
    (tmp_path / PLACE / WHOLE_FILE).write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(UnsafeFileError, match="not a torch archive"):
        whole_contents(LocalPlace(tmp_path), PLACE)
    with pytest.raises(StopError, match="not a torch archive"):
        refuse_foreign(str(tmp_path / PLACE / WHOLE_FILE))
    assert not (tmp_path / "sprung").exists()


def test_weights_without_a_record_are_looked_through(tmp_path: Path) -> None:
    whole(tmp_path, Tensor(Storage("0")))
    refuse_foreign(str(tmp_path / PLACE / WHOLE_FILE))
    write_files(tmp_path / "shards")
    refuse_foreign(str(tmp_path / "shards"))
    trap = archive(pickle.dumps(Trap(tmp_path / "sprung"), protocol=2))
    write_files(tmp_path / "trap", item=trap)
    with pytest.raises(StopError, match="mkdir"):
        refuse_foreign(str(tmp_path / "trap"))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("load", "said"), [("s3://bucket/ba9", "without being scanned"), ("/not/there", "read")]
)
def test_what_cannot_be_looked_at_is_not_loaded(load: str, said: str) -> None:
    with pytest.raises(StopError, match=said) as stopped:
        refuse_foreign(load)
    assert stopped.value.code == 82
