# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The allow-list: the classes and functions that a pickle may use, and their arguments.

A pickle is a program, so a list of names alone is not safe: `_rebuild_from_type_v2` calls its
argument, numpy's `scalar` unpickles bytes for some dtypes, and BUILD overwrites an object's
attributes. Therefore each name has a rule that states if a pickle may call it, create an instance
of it or set its state, and which values the pickle may pass.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Check = Callable[[Any], bool]
"""True if the arguments of a call, or the state of an object, can occur in a checkpoint."""


class UnsafeFileError(ValueError):
    """The file is not loaded because it could execute code. The message is the reason."""


@dataclass(frozen=True, slots=True)
class Name:
    """A class, function or constant that a pickle names. It is never imported."""

    module: str
    """The module as in the pickle, with Python 2 names translated."""
    name: str
    """The name inside the module."""


class Made:
    """A stand-in for an object that the pickle would create."""

    __slots__ = ("arguments", "kind", "state")

    def __init__(self, kind: Name, arguments: tuple[Any, ...]) -> None:
        self.kind = kind
        self.arguments = arguments
        self.state: Any = None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that the pickle sets."""
        if isinstance(self.state, dict) and name in self.state:
            return self.state[name]
        raise AttributeError(name)


class Mapped(dict[Any, Any]):
    """A stand-in for OrderedDict and defaultdict."""

    sealed = False
    """True after the dictionary was passed as an argument that must stay empty."""
    state: Any = None
    """State that the pickle stores in addition to the entries."""


@dataclass(frozen=True, slots=True)
class Storage:
    """A stand-in for the storage of a tensor, which is an entry in the archive."""

    kind: str
    """The storage class, such as FloatStorage."""
    key: str
    """The name of the archive entry."""
    count: int
    """Number of elements."""


@dataclass(frozen=True, slots=True)
class PickleRule:
    """How a pickle may use a name. `None` forbids a use."""

    call: Check | None = None
    """REDUCE: checks the arguments."""
    new: Check | None = None
    """NEWOBJ: checks the arguments."""
    build: Check | None = None
    """BUILD: checks the state of an instance."""
    make: Callable[[Name, tuple[Any, ...]], Any] = Made
    """Creates the stand-in."""


Rules = Mapping[Name, PickleRule]


def _all(kinds: type | tuple[type, ...], least: int = 0, most: int = 9) -> Check:
    def check(values: Any) -> bool:
        return least <= len(values) <= most and all(isinstance(value, kinds) for value in values)

    return check


def plain_attributes(state: Any) -> bool:
    """Accept the attributes of a plain object, except attributes that Python itself reads."""
    return isinstance(state, dict) and all(
        type(key) is str and key.isidentifier() and not key.startswith("__") for key in state
    )


def no_arguments(arguments: Any) -> bool:
    """Accept a call without arguments."""
    return type(arguments) is tuple and not arguments


def _numbers(value: Any) -> Any:
    return value.arguments[0] if isinstance(value, Made) and value.kind == _SIZE else value


def _shape(value: Any) -> bool:
    numbers = _numbers(value)
    return type(numbers) is tuple and all(type(one) is int and one >= 0 for one in numbers)


def _no_hooks(value: Any) -> bool:
    """Accept an empty dictionary of hooks. It must stay empty: torch calls its values."""
    if value is None:
        return True
    if type(value) is Mapped and not value:
        value.sealed = True
        return True
    return False


def _view_of_storage(arguments: Any, width: int = 1) -> bool:
    """Accept a storage and a view inside that storage. `width` is the number of units per element.

    torch before 2.10 checks neither (CVE-2026-24747), and LLM Foundry uses torch 2.7.
    """
    if len(arguments) < 4 or not isinstance(arguments[0], Storage):
        return False
    storage, begin, size, strides = arguments[:4]
    if type(begin) is not int or begin < 0 or not _shape(size) or not _shape(strides):
        return False
    sizes, steps = _numbers(size), _numbers(strides)
    if len(sizes) != len(steps):
        return False
    if 0 in sizes:
        return True
    last = begin + sum((count - 1) * step for count, step in zip(sizes, steps, strict=True))
    return bool((last + 1) * width <= storage.count)


def _rebuild_tensor(arguments: Any) -> bool:
    return len(arguments) == 4 and _view_of_storage(arguments)


def _rebuild_tensor_v2(arguments: Any) -> bool:
    return (
        len(arguments) in (6, 7)
        and _view_of_storage(arguments)
        and type(arguments[4]) is bool
        and _no_hooks(arguments[5])
        and (len(arguments) == 6 or _bits(arguments[6]))
    )


def _rebuild_tensor_v3(arguments: Any) -> bool:
    return (
        len(arguments) in (7, 8)
        and isinstance(arguments[6], Name)
        and arguments[6] in _DTYPE_NAMES
        and _view_of_storage(arguments, _dtype_bytes(arguments[6]))
        and type(arguments[4]) is bool
        and _no_hooks(arguments[5])
        and (len(arguments) == 7 or _bits(arguments[7]))
    )


def _bits(value: Any) -> bool:
    """Accept the flags that torch stores with a tensor, such as `conj`."""
    return value is None or (
        type(value) is dict
        and all(type(key) is str and type(one) is bool for key, one in value.items())
    )


def _rebuild_parameter(arguments: Any) -> bool:
    return (
        len(arguments) == 3
        and isinstance(arguments[0], Made)
        and arguments[0].kind in _TENSOR_FUNCTIONS
        and type(arguments[1]) is bool
        and _no_hooks(arguments[2])
    )


_PLAIN_DTYPE = re.compile(r"[<>|=]?[biufc][1-9][0-9]?")
"""Numeric dtypes. Not O (objects, which numpy unpickles) or V (records, which may contain O)."""


def _dtype(arguments: Any) -> bool:
    return (
        len(arguments) == 3
        and type(arguments[0]) is str
        and _PLAIN_DTYPE.fullmatch(arguments[0]) is not None
        and all(type(one) in (bool, int) for one in arguments[1:])
    )


def _dtype_state(state: Any) -> bool:
    return (
        type(state) is tuple
        and len(state) == 8
        and state[1] in ("<", ">", "|", "=")
        and state[2:5] == (None, None, None)
        and type(state[0]) is int
        # The kind implies size and alignment. A flag could turn numbers into object references.
        and state[5:] == (-1, -1, 0)
    )


def _is_dtype(value: Any) -> bool:
    return isinstance(value, Made) and value.kind == _NUMPY_DTYPE


def _array(arguments: Any) -> bool:
    return bool(arguments == (_NDARRAY, (0,), b"b"))


def _array_state(state: Any) -> bool:
    return (
        type(state) is tuple
        and len(state) == 5
        and state[0] == 1
        and _shape(state[1])
        and _is_dtype(state[2])
        and type(state[3]) in (bool, int)
        and type(state[4]) is bytes
    )


def _scalar(arguments: Any) -> bool:
    return len(arguments) == 2 and _is_dtype(arguments[0]) and type(arguments[1]) is bytes


def _latin1(arguments: Any) -> bool:
    return (
        len(arguments) == 2
        and type(arguments[0]) is str
        and arguments[1] in ("latin1", "latin-1")
        and arguments[0].isascii() | (max(arguments[0], default="") <= "\xff")
    )


def _encode(_: Name, arguments: tuple[Any, ...]) -> bytes:
    text: str = arguments[0]
    return text.encode("latin-1")


def _members(arguments: Any) -> bool:
    return len(arguments) == 1 and type(arguments[0]) is list and all(map(hashable, arguments[0]))


def hashable(value: Any) -> bool:
    """True if a value may be a key. Limits nesting, so that hashing does not recurse deeply."""
    if type(value) is tuple:
        return all(isinstance(one, _KEYS) for one in value)
    return isinstance(value, _KEYS)


_KEYS = (str, int, float, bytes, Name, Made, type(None))


def _factory(arguments: Any) -> bool:
    if len(arguments) != 1:
        return False
    # Check the type first: the hash of a deeply nested tuple overflows the C stack.
    return arguments[0] is None or (type(arguments[0]) is Name and arguments[0] in _FACTORIES)


def _buffer_state(state: Any) -> bool:
    return (
        type(state) is tuple
        and len(state) == 3
        and type(state[0]) is bytes
        and type(state[1]) is int
        and state[2] is None
    )


def _notes(state: Any) -> bool:
    """Accept the versions of submodules, which torch stores with the state of a module."""
    return type(state) is dict and set(state) <= {"_metadata"}


def _generator_state(state: Any) -> bool:
    return (
        type(state) is tuple
        and len(state) == 3
        and type(state[0]) is int
        and type(state[1]) in (int, type(None))
        and isinstance(state[2], Made)
        and state[2].kind in _TENSOR_FUNCTIONS
    )


def _generator(arguments: Any) -> bool:
    return len(arguments) <= 1 and all(
        isinstance(one, Made) and one.kind == _DEVICE for one in arguments
    )


def _sizes(arguments: Any) -> bool:
    return len(arguments) == 1 and _shape(arguments[0])


def _device(arguments: Any) -> bool:
    return 1 <= len(arguments) <= 2 and all(type(one) in (str, int) for one in arguments)


def _caller(arguments: Any) -> bool:
    """Accept where a result was validated: a message and a rank."""
    return len(arguments) == 2 and type(arguments[0]) is str and type(arguments[1]) is int


def _validation(arguments: Any) -> bool:
    """Accept a validation that failed: where, and how often that place was reached."""
    return (
        len(arguments) == 2
        and isinstance(arguments[0], Made)
        and arguments[0].kind == _CALLER
        and type(arguments[1]) is int
    )


def _dtype_bytes(dtype: Name) -> int:
    bits = re.search(r"[0-9]+", dtype.name)
    return int(bits[0]) // 8 if bits else 1


STORAGE_BYTES = {
    **dict.fromkeys(("ByteStorage", "CharStorage", "BoolStorage", "UntypedStorage"), 1),
    **dict.fromkeys(("ShortStorage", "HalfStorage", "BFloat16Storage"), 2),
    **dict.fromkeys(("IntStorage", "FloatStorage"), 4),
    **dict.fromkeys(("LongStorage", "DoubleStorage", "ComplexFloatStorage"), 8),
    "ComplexDoubleStorage": 16,
}
"""Size of an element in bytes, by storage class."""
_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"),
)
_DTYPE_NAMES = frozenset(Name("torch", name) for name in _DTYPES)
_SIZE = Name("torch", "Size")
_DEVICE = Name("torch", "device")
_RERUN = "megatron.core.rerun_state_machine"
_CALLER = Name(_RERUN, "Caller")
_NDARRAY = Name("numpy", "ndarray")
_NUMPY_DTYPE = Name("numpy", "dtype")
_TENSOR_FUNCTIONS = frozenset(
    Name("torch._utils", f"_rebuild_{what}")
    for what in ("tensor", "tensor_v2", "tensor_v3", "parameter")
)
_FACTORIES = frozenset(
    {
        *(Name("builtins", name) for name in ("dict", "list", "set", "int", "float")),
        Name("collections", "OrderedDict"),
    }
)
_VALUE = PickleRule()
"""A name that a pickle may only mention."""
_OBJECT = PickleRule(new=no_arguments, build=plain_attributes)
"""A class whose objects have plain attributes."""
_MEMBER = PickleRule(call=_all((int, str), 1, 1))
"""An enum class."""
_PATH = PickleRule(call=_all(str, most=4096))
"""A path, by its directories. Linux limits a path to 4,096 characters."""

_COMMON: dict[Name, PickleRule] = {
    **dict.fromkeys(_DTYPE_NAMES, _VALUE),
    _SIZE: PickleRule(call=_sizes),
    _DEVICE: PickleRule(call=_device),
    Name("torch.serialization", "_get_layout"): PickleRule(call=_all(str, 1, 1)),
    Name("collections", "OrderedDict"): PickleRule(
        call=no_arguments, build=_notes, make=lambda _name, _arguments: Mapped()
    ),
    Name("builtins", "set"): PickleRule(call=_members, make=lambda _, arguments: set(arguments[0])),
    Name("pathlib", "PosixPath"): _PATH,
    Name("pathlib._local", "PosixPath"): _PATH,
}

_DCP = "torch.distributed.checkpoint"
METADATA_RULES: Rules = _COMMON | {
    **dict.fromkeys(
        (
            *(
                Name(f"{_DCP}.metadata", name)
                for name in (
                    *("BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex"),
                    *("StorageMeta", "TensorStorageMetadata"),
                )
            ),
            *(
                Name(f"{_DCP}.planner", name)
                for name in ("BytesIOWriteData", "SavePlan", "TensorWriteData", "WriteItem")
            ),
            Name(f"{_DCP}.filesystem", "_StorageInfo"),
            Name(f"{_DCP}.filesystem", "_StoragePrefix"),
        ),
        _OBJECT,
    ),
    Name(f"{_DCP}.metadata", "TensorProperties"): PickleRule(
        new=no_arguments, build=lambda state: type(state) is tuple or plain_attributes(state)
    ),
    Name(f"{_DCP}.metadata", "_MEM_FORMAT_ENCODING"): _MEMBER,
    Name(f"{_DCP}.planner", "WriteItemType"): _MEMBER,
}
"""torch's tensor metadata in a sharded checkpoint (torch 2.13.0, metadata.py, planner.py).
Composer stores its directory as a path."""

_NUMPY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
ARCHIVE_RULES: Rules = _COMMON | {
    **dict.fromkeys((Name("torch", kind) for kind in STORAGE_BYTES), _VALUE),
    Name("torch.storage", "UntypedStorage"): _VALUE,
    Name("torch._C", "Generator"): PickleRule(call=_generator, build=_generator_state),
    Name("torch._utils", "_rebuild_tensor"): PickleRule(call=_rebuild_tensor),
    Name("torch._utils", "_rebuild_tensor_v2"): PickleRule(call=_rebuild_tensor_v2),
    Name("torch._utils", "_rebuild_tensor_v3"): PickleRule(call=_rebuild_tensor_v3),
    Name("torch._utils", "_rebuild_parameter"): PickleRule(call=_rebuild_parameter),
    Name("collections", "defaultdict"): PickleRule(
        call=_factory, make=lambda _name, _arguments: Mapped()
    ),
    **dict.fromkeys(_FACTORIES - set(_COMMON), _VALUE),
    Name("builtins", "bytearray"): PickleRule(
        call=_all(bytes, 0, 1), make=lambda _, arguments: b"".join(arguments)
    ),
    Name("builtins", "bytes"): PickleRule(call=no_arguments, make=lambda _name, _arguments: b""),
    Name("builtins", "complex"): PickleRule(call=_all(float, 2, 2)),
    Name("_codecs", "encode"): PickleRule(call=_latin1, make=_encode),
    Name("argparse", "Namespace"): _OBJECT,
    Name("types", "SimpleNamespace"): PickleRule(call=no_arguments, build=plain_attributes),
    Name("signal", "Signals"): _MEMBER,
    Name("_io", "BytesIO"): PickleRule(new=no_arguments, build=_buffer_state),
    _NDARRAY: _VALUE,
    _NUMPY_DTYPE: PickleRule(call=_dtype, build=_dtype_state),
    **{
        Name(module, name): rule
        for module in _NUMPY_MODULES
        for name, rule in {
            "_reconstruct": PickleRule(call=_array, build=_array_state),
            "scalar": PickleRule(call=_scalar),
        }.items()
    },
    Name("datetime", "timedelta"): PickleRule(call=_all(int, 3, 3)),
    Name("torch.torch_version", "TorchVersion"): PickleRule(
        new=_all(str, 1, 1), build=plain_attributes
    ),
    Name("megatron.core.enums", "ModelType"): _MEMBER,
    Name("megatron.core.optimizer.optimizer_config", "OptimizerConfig"): _OBJECT,
    Name("megatron.core.optimizer", "OptimizerConfig"): _OBJECT,
    # A save between the two runs of a step with a NaN contains where that was found. The engine's
    # own list lacks these two.
    _CALLER: PickleRule(new=_caller),
    Name(_RERUN, "Call"): PickleRule(new=_validation),
    **dict.fromkeys(
        (
            *(Name(_RERUN, name) for name in ("RerunDiagnostic", "RerunMode", "RerunState")),
            *(
                Name("megatron.core.transformer.enums", name)
                for name in (
                    *("AttnBackend", "CudaGraphModule", "CudaGraphScope"),
                    "InferenceCudaGraphScope",
                )
            ),
        ),
        _MEMBER,
    ),
}
"""torch archives: the names that torch accepts in weights, those that Megatron also allows
(megatron-core 0.19.2, safe_globals.py), and those for the timestamps and the version that Composer
stores (composer 0.32.1, core/time.py, core/state.py)."""

PLAIN_RULES: Rules = {}
"""Numbers, strings and containers, as in a dump of torch's flight recorder."""
