# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Pickles of a checkpoint, looked at without running anything of them.

A pickle is a program: it may name any function of any module and call it. The pickles of a
checkpoint need a few classes, listed here with their modules; one that names anything else is
refused. The engine's list of tensors is read with stand-ins for those classes, so that torch need
not be installed for it.
"""

import io
import pickle
import pickletools
from dataclasses import dataclass
from typing import Any

Global = tuple[str, str]
"""A module and a name in it."""

_CHECKPOINT = "torch.distributed.checkpoint"
_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"),
)
METADATA_GLOBALS: frozenset[Global] = frozenset(
    {
        *((f"{_CHECKPOINT}.metadata", name) for name in (
            "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex",
            "StorageMeta", "TensorProperties", "TensorStorageMetadata", "_MEM_FORMAT_ENCODING",
        )),
        *((f"{_CHECKPOINT}.planner", name) for name in (
            "BytesIOWriteData", "SavePlan", "TensorWriteData", "WriteItem", "WriteItemType",
        )),
        (f"{_CHECKPOINT}.filesystem", "_StorageInfo"),
        (f"{_CHECKPOINT}.filesystem", "_StoragePrefix"),
        ("torch.serialization", "_get_layout"),
        ("torch", "Size"),
        ("torch", "device"),
        ("collections", "OrderedDict"),
        ("builtins", "set"),
        ("pathlib", "PosixPath"),
        ("pathlib._local", "PosixPath"),
        *(("torch", name) for name in _DTYPES),
    }
)  # fmt: skip
"""What an engine's list of tensors is made of (torch 2.13.0, metadata.py, planner.py); Composer
names its directory by a path."""

ITEM_GLOBALS: frozenset[Global] = frozenset(
    {
        *(("torch", name) for name in _DTYPES),
        *(("torch", f"{kind}Storage") for kind in (
            "Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double", "BFloat16", "Bool",
        )),
        ("torch", "Size"),
        ("torch", "device"),
        ("torch._C", "Generator"),
        ("torch._utils", "_rebuild_tensor"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_parameter"),
        ("torch._tensor", "_rebuild_from_type_v2"),
        ("torch.serialization", "_get_layout"),
        ("torch.storage", "UntypedStorage"),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("builtins", "set"),
        ("builtins", "bytearray"),
        ("builtins", "complex"),
        ("_codecs", "encode"),
        ("argparse", "Namespace"),
        ("types", "SimpleNamespace"),
        ("pathlib", "PosixPath"),
        ("pathlib._local", "PosixPath"),
        ("signal", "Signals"),
        ("io", "BytesIO"),
        ("_io", "BytesIO"),
        *((module, name) for module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
          for name in ("_reconstruct", "dtype", "ndarray", "scalar")),
        ("numpy.dtypes", "UInt32DType"),
        ("datetime", "timedelta"),
        ("torch.torch_version", "TorchVersion"),
        ("megatron.core.enums", "ModelType"),
        ("megatron.core.optimizer.optimizer_config", "OptimizerConfig"),
        ("megatron.core.optimizer", "OptimizerConfig"),
        *(("megatron.core.rerun_state_machine", name)
          for name in ("RerunDiagnostic", "RerunMode", "RerunState")),
        *(("megatron.core.transformer.enums", name) for name in (
            "AttnBackend", "CudaGraphModule", "CudaGraphScope", "InferenceCudaGraphScope",
        )),
    }
)  # fmt: skip
"""What tensors and the engine's other objects are made of: torch's own rules for loading weights
only, what Megatron allows beside (megatron-core 0.19.2, safe_globals.py), and the clocks and the
version that Composer keeps (composer 0.32.1, core/time.py, core/state.py)."""

_REFUSED = ("STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4")
"""Instructions that ask for something in a way that only running them would tell."""


class PickleError(ValueError):
    """A pickle that is not what a checkpoint holds; the text says why."""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """One tensor or object, and where it lies."""

    name: str
    """Its name."""
    file: str
    """The checkpoint shard."""
    offset: int
    """Where it begins in there."""
    length: int
    """Bytes."""


class _StandIn:
    """Takes the place of a class of torch: holds what it was made of."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments

    def __setstate__(self, state: object) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)
        else:
            self.state = state

    def __setitem__(self, key: object, value: object) -> None:
        """Nothing: a dictionary of another class holds nothing that is asked for."""


class _Ordered(dict[Any, Any]):
    """Takes the place of an ordered dictionary; what torch notes beside its keys is passed by."""

    def __setstate__(self, state: object) -> None:
        """Nothing: the versions of modules decide nothing here."""


class _Reader(pickle.Unpickler):
    """Makes stand-ins, and only for what is known."""

    known = METADATA_GLOBALS

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise PickleError(f"it asks for {module}.{name}")
        if (module, name) == ("builtins", "set"):
            return set
        if (module, name) == ("collections", "OrderedDict"):
            return _Ordered
        return _kind(module, name)

    def persistent_load(self, identifier: object) -> Any:
        raise PickleError("it refers to something outside of itself")


class _ItemReader(_Reader):
    """Makes stand-ins for what an item may hold; of a tensor, nothing but that there is one."""

    known = ITEM_GLOBALS

    def persistent_load(self, identifier: object) -> Any:
        return _StandIn(identifier)


def _kind(module: str, name: str) -> type[_StandIn]:
    return type(name, (_StandIn,), {"__module__": module})


def read_metadata(metadata: bytes) -> Any:
    """The engine's list of tensors, made of stand-ins; PickleError where it asks for more."""
    return _read(_Reader(io.BytesIO(metadata)))


def read_item(code: bytes) -> Any:
    """What an item holds beside tensors, made of stand-ins; PickleError where it asks for more."""
    refuse_unknown(code)
    return _read(_ItemReader(io.BytesIO(code)))


def _read(reader: _Reader) -> Any:
    try:
        return reader.load()
    except PickleError:
        raise
    except Exception as error:
        # A damaged pickle fails in as many ways as there are.
        raise PickleError(f"it cannot be read ({type(error).__name__})") from error


def stored_items(metadata: bytes) -> list[StoredItem]:
    """Everything that the engine's list of tensors points at, in order of place."""
    try:
        read = read_metadata(metadata)
        places = dict(read.storage_data)
        items = [
            StoredItem(str(index.fqn), str(at.relative_path), int(at.offset), int(at.length))
            for index, at in places.items()
        ]
    except PickleError:
        raise
    except Exception as error:
        raise PickleError(f"it cannot be read ({type(error).__name__})") from error
    return sorted(items, key=lambda item: (item.file, item.offset))


def refuse_unknown(data: bytes, known: frozenset[Global] = ITEM_GLOBALS) -> None:
    """Raise PickleError where a pickle asks for something that is not known.

    torch writes objects by the second protocol of pickles, in which whatever is asked for stands
    in the instruction itself; the instructions of other protocols are refused.
    """
    try:
        for instruction, argument, _ in pickletools.genops(data):
            if instruction.name in _REFUSED:
                raise PickleError(f"it uses the instruction {instruction.name}")
            if instruction.name == "GLOBAL":
                module, _, name = str(argument).partition(" ")
                if (module, name) not in known:
                    raise PickleError(f"it asks for {module}.{name}")
    except PickleError:
        raise
    except Exception as error:
        # A damaged pickle fails in as many ways as there are.
        raise PickleError(f"it cannot be read ({type(error).__name__})") from error
