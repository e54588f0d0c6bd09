# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Interpret a pickle without running it: nothing is imported or called.

The interpreter supports only the instructions that torch and Python's pickler write for
checkpoints. Whatever a pickle calls, creates or changes must be a name in the allow-list, not a
value that the pickle computed. The rule for that name checks the arguments (`pickle_rules.py`).
"""

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from seatrial.checkpoints.pickle_rules import (
    STORAGE_BYTES,
    Made,
    Mapped,
    Name,
    Rules,
    Storage,
    UnsafeFileError,
    hashable,
)

LARGEST_PICKLE = 1 << 30
"""In bytes."""
MOST_NESTED = 1000
"""Maximum nesting depth of containers and objects. Deeper values overflow the stack of code that
walks them: C code, such as the hash of a tuple, has no recursion limit."""
_OLDEST, _NEWEST = 2, 5
"""Protocols."""
_PYTHON_2 = {"__builtin__": "builtins"}
"""Module names as written by protocol 2."""

_DEVICE = re.compile(r"[a-z]{1,20}(:[0-9]{1,4})?")

StorageSizes = dict[str, int]
"""Size in bytes of each storage in an archive, by key."""


@dataclass(frozen=True, slots=True)
class ScannedPickle:
    """A pickle that passed the scan, and its content."""

    data: bytes
    """The scanned bytes. Only these bytes may be loaded."""
    value: Any
    """Plain values, and stand-ins for all other objects."""
    names: frozenset[Name]
    """The names that the pickle uses."""


def scan_pickle(
    data: bytes, allowed: Rules, storages: StorageSizes | None = None, newest: int = _NEWEST
) -> ScannedPickle:
    """Check a pickle against the allow-list. Raises UnsafeFileError if it uses anything else.

    `storages` are those in the archive around the pickle. `newest` is the newest protocol allowed.
    """
    if len(data) > LARGEST_PICKLE:
        raise UnsafeFileError(f"the pickle has {len(data):,} bytes, more than {LARGEST_PICKLE:,}")
    machine = _Machine(data, allowed, storages or {}, newest)
    try:
        value = machine.run()
        _refuse_deep(value)
        return ScannedPickle(data, value, frozenset(machine.names))
    except UnsafeFileError:
        raise
    except (IndexError, KeyError, TypeError, ValueError, struct.error, OverflowError) as error:
        rule = f"it is not a valid pickle: parsing failed at byte {machine.at:,} of {len(data):,}"
        raise UnsafeFileError(f"{rule} ({type(error).__name__})") from error


def _refuse_deep(value: Any) -> None:
    """Reject a value that is nested too deeply or contains itself.

    Checks the finished value, because a list can grow after it was added to another list.
    """
    levels: dict[int, int] = {}
    path = [(value, _parts(value))]
    while path:
        here, parts = path[-1]
        for part in parts:
            if id(part) not in levels:
                path.append((part, _parts(part)))
                levels[id(part)] = MOST_NESTED
                break
        else:
            path.pop()
            below = (levels[id(part)] for part in _parts(here))
            levels[id(here)] = 1 + max(below, default=0)
        if len(path) > MOST_NESTED or levels.get(id(here), 0) > MOST_NESTED:
            rule = f"it nests values more than {MOST_NESTED:,} levels deep, or inside themselves"
            raise UnsafeFileError(rule)


def _parts(value: Any) -> Iterator[Any]:
    """Return the parts of a value that have parts themselves."""
    kind = type(value)
    if kind is Made:
        found: Iterable[Any] = (value.arguments, value.state)
    elif kind in (dict, Mapped):
        found = chain(value, value.values(), [getattr(value, "state", None)])
    else:
        found = value if kind in _HOLDERS else ()
    return iter([part for part in found if type(part) in _HOLDERS])


class _Machine:
    """The stack, the memo and the instructions of a pickle machine."""

    def __init__(self, data: bytes, allowed: Rules, storages: StorageSizes, newest: int) -> None:
        self.at = 0
        self.names: set[Name] = set()
        self._data = data
        self._allowed = allowed
        self._storages = storages
        self._newest = newest
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        data, steps = self._data, _INSTRUCTIONS
        if len(data) < 3 or data[0] != 0x80 or not _OLDEST <= data[1] <= self._newest:
            protocols = f"{_OLDEST}" if self._newest == _OLDEST else f"{_OLDEST} to {self._newest}"
            raise UnsafeFileError(f"it is not a pickle of protocol {protocols}")
        if data[1] == _OLDEST:
            steps = _PROTOCOL_2
        self.at = 2
        while (code := data[self.at]) != _STOP:
            if code not in steps:
                shown = chr(code) if 32 < code < 127 else f"0x{code:02x}"
                rule = f"it uses the pickle instruction {shown!r}, which no checkpoint needs"
                raise UnsafeFileError(f"{rule} (byte {self.at:,})")
            self.at += 1
            steps[code](self)
        if self.at + 1 != len(data):
            raise UnsafeFileError(f"{len(data) - self.at - 1:,} bytes follow the pickle")
        if len(self._stack) != 1 or self._below:
            raise UnsafeFileError("the pickle leaves more than one value")
        return self._stack[0]

    # ------------------------------------------------------------------ reading

    def _bytes(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self._data):
            raise IndexError(end)
        found = self._data[self.at : end]
        self.at = end
        return found

    def _number(self, form: struct.Struct) -> Any:
        (value,) = form.unpack_from(self._data, self.at)
        self.at += form.size
        return value

    def _line(self) -> str:
        end = self._data.index(b"\n", self.at)
        text = self._data[self.at : end].decode("ascii")
        self.at = end + 1
        return text

    # ------------------------------------------------------------------ values

    def text(self, form: struct.Struct) -> None:
        """Push a string."""
        data = self._bytes(self._number(form))
        self._stack.append(data.decode("utf-8", "surrogatepass"))

    def binary(self, form: struct.Struct) -> None:
        """Push bytes."""
        self._stack.append(self._bytes(self._number(form)))

    def number(self, form: struct.Struct) -> None:
        """Push a number of fixed width."""
        self._stack.append(self._number(form))

    def small_number(self) -> None:
        """Push a one-byte number. This and the next three make up most of a large metadata file."""
        self._stack.append(self._data[self.at])
        self.at += 1

    def short_text(self) -> None:
        """Push a string of up to 255 bytes."""
        begin = self.at + 1
        self.at = end = begin + self._data[self.at]
        if end > len(self._data):
            raise IndexError(end)
        self._stack.append(self._data[begin:end].decode("utf-8", "surrogatepass"))

    def near_get(self) -> None:
        """Push one of the first 256 memoized values."""
        self._stack.append(self._memo[self._data[self.at]])
        self.at += 1

    def memoize(self) -> None:
        """Memoize the last value under the next number."""
        self._memo[len(self._memo)] = self._stack[-1]

    def long(self) -> None:
        """Push an integer of up to 255 bytes."""
        data = self._bytes(self._number(_U1))
        self._stack.append(int.from_bytes(data, "little", signed=True))

    def frame(self) -> None:
        """Skip the length of a frame, which only groups instructions."""
        if self._number(_U8) > len(self._data) - self.at:
            raise IndexError(self.at)

    # ------------------------------------------------------------------ containers

    def mark(self) -> None:
        """Start a group of values."""
        self._below.append(self._stack)
        self._stack = []

    def _marked(self) -> list[Any]:
        found, self._stack = self._stack, self._below.pop()
        return found

    def tuple_of(self, count: int | None) -> None:
        """Push a tuple of the last values, or of the last group."""
        if count is None:
            found = self._marked()
        else:
            if len(self._stack) < count:
                raise IndexError(count)
            found = self._stack[-count:]
            del self._stack[-count:]
        self._stack.append(tuple(found))

    def append(self, items: list[Any]) -> None:
        """Add values to a list."""
        target = self._stack[-1]
        if type(target) is not list:
            raise UnsafeFileError("it appends to a value that is not a list")
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        """Set entries of a dictionary."""
        target = self._stack[-1]
        if type(target) not in (dict, Mapped) or len(items) % 2:
            raise UnsafeFileError("it sets items on a value that is not a dictionary")
        if type(target) is Mapped and target.sealed:
            raise UnsafeFileError("it adds hooks to a tensor")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) is not str:
                self._refuse_key(key)
            target[key] = value

    def add_items(self) -> None:
        """Add members to a set."""
        members = self._marked()
        target = self._stack[-1]
        if type(target) is not set:
            raise UnsafeFileError("it adds members to a value that is not a set")
        for member in members:
            self._refuse_key(member)
            target.add(member)

    @staticmethod
    def _refuse_key(key: Any) -> None:
        if not hashable(key):
            raise UnsafeFileError(f"it uses a {type(key).__name__} as a key")

    # ------------------------------------------------------------------ memo

    def put(self, form: struct.Struct) -> None:
        """Memoize the last value."""
        self._memo[self._number(form)] = self._stack[-1]

    def get(self, form: struct.Struct) -> None:
        """Push a memoized value."""
        self._stack.append(self._memo[self._number(form)])

    # ------------------------------------------------------------------ names and objects

    def named(self) -> None:
        """Push a class or function that is named in the instruction."""
        module, name = self._line(), self._line()
        self._push_name(module, name)

    def stack_named(self) -> None:
        """Push a class or function whose name is on the stack."""
        name, module = self._stack.pop(), self._stack.pop()
        if type(module) is not str or type(name) is not str:
            raise UnsafeFileError("it names a class or function with values that are not strings")
        self._push_name(module, name)

    def _push_name(self, module: str, name: str) -> None:
        found = Name(_PYTHON_2.get(module, module), name)
        if found not in self._allowed:
            raise UnsafeFileError(f"it uses {module}.{name}, which no checkpoint needs")
        self.names.add(found)
        self._stack.append(found)

    def reduce(self) -> None:
        """Call a function or class with arguments."""
        self._create("call")

    def new_object(self) -> None:
        """Create an instance without calling its constructor."""
        self._create("new")

    def _create(self, use: str) -> None:
        arguments, kind = self._stack.pop(), self._stack.pop()
        if type(kind) is not Name:
            raise UnsafeFileError("it calls a value that it computed")
        rule = self._allowed[kind]
        check = rule.call if use == "call" else rule.new
        if check is None:
            what = "calls" if use == "call" else "creates an instance of"
            raise UnsafeFileError(f"it {what} {kind.module}.{kind.name}, which no checkpoint does")
        if type(arguments) is not tuple or not check(arguments):
            raise UnsafeFileError(
                f"it passes arguments to {kind.module}.{kind.name} that no checkpoint passes"
            )
        self._stack.append(rule.make(kind, arguments))

    def build(self) -> None:
        """Set the state of an object."""
        state, target = self._stack.pop(), self._stack[-1]
        kind = _ORDERED if type(target) is Mapped else getattr(target, "kind", None)
        if type(target) not in (Mapped, Made) or type(kind) is not Name:
            raise UnsafeFileError("it sets the state of a value that has no state")
        check = self._allowed[kind].build
        if check is None or not check(state):
            rule = f"it sets a state on {kind.module}.{kind.name} that no checkpoint sets"
            raise UnsafeFileError(rule)
        target.state = state

    def stored(self) -> None:
        """Push the storage of a tensor, which is an entry in the archive."""
        identity = self._stack.pop()
        if type(identity) is not tuple or len(identity) != 5:
            raise UnsafeFileError("it contains a persistent ID that is not a tensor storage")
        what, kind, key, place, count = identity
        if (
            what != "storage"
            or type(kind) is not Name
            or kind.name not in STORAGE_BYTES
            or kind.module not in ("torch", "torch.storage")
            or (type(key), type(place), type(count)) != (str, str, int)
            or key not in self._storages
            or _DEVICE.fullmatch(place) is None
        ):
            raise UnsafeFileError("it refers to a storage that is not in its archive")
        if count * STORAGE_BYTES[kind.name] != self._storages[key]:
            rule = (
                f"storage {key} has {self._storages[key]:,} bytes, but the pickle states {count:,}"
            )
            raise UnsafeFileError(f"{rule} elements of {kind.name}")
        self._stack.append(Storage(kind.name, key, count))


_HOLDERS = frozenset({tuple, list, dict, set, Mapped, Made})
_ORDERED = Name("collections", "OrderedDict")
_STOP = 0x2E
_U1, _U2, _U4, _U8 = (struct.Struct(form) for form in ("<B", "<H", "<I", "<Q"))
_I4, _F8 = struct.Struct("<i"), struct.Struct(">d")

_Step = Callable[[_Machine], None]


def _constant(make: Callable[[], Any]) -> _Step:
    return lambda machine: machine._stack.append(make())


_PROTOCOL_2: dict[int, _Step] = {
    ord("("): _Machine.mark,
    ord("N"): _constant(lambda: None),
    0x88: _constant(lambda: True),
    0x89: _constant(lambda: False),
    ord("]"): _constant(list),
    ord("}"): _constant(dict),
    ord(")"): _constant(tuple),
    ord("K"): _Machine.small_number,
    ord("M"): lambda machine: machine.number(_U2),
    ord("J"): lambda machine: machine.number(_I4),
    ord("G"): lambda machine: machine.number(_F8),
    0x8A: _Machine.long,
    ord("X"): lambda machine: machine.text(_U4),
    ord("t"): lambda machine: machine.tuple_of(None),
    0x85: lambda machine: machine.tuple_of(1),
    0x86: lambda machine: machine.tuple_of(2),
    0x87: lambda machine: machine.tuple_of(3),
    ord("a"): lambda machine: machine.append([machine._stack.pop()]),
    ord("e"): lambda machine: machine.append(machine._marked()),
    ord("s"): lambda machine: machine.set_items([machine._stack.pop(-2), machine._stack.pop()]),
    ord("u"): lambda machine: machine.set_items(machine._marked()),
    ord("q"): lambda machine: machine.put(_U1),
    ord("r"): lambda machine: machine.put(_U4),
    ord("h"): _Machine.near_get,
    ord("j"): lambda machine: machine.get(_U4),
    ord("c"): _Machine.named,
    ord("R"): _Machine.reduce,
    0x81: _Machine.new_object,
    ord("b"): _Machine.build,
    ord("Q"): _Machine.stored,
}
"""Instructions of torch and of Python's protocol 2, by opcode."""
_INSTRUCTIONS: dict[int, _Step] = _PROTOCOL_2 | {
    0x95: _Machine.frame,
    0x94: _Machine.memoize,
    0x93: _Machine.stack_named,
    0x8C: _Machine.short_text,
    0x8D: lambda machine: machine.text(_U8),
    ord("C"): lambda machine: machine.binary(_U1),
    ord("B"): lambda machine: machine.binary(_U4),
    0x8E: lambda machine: machine.binary(_U8),
    0x8F: _constant(set),
    0x90: _Machine.add_items,
}
"""Additional instructions of Python's protocols 3 to 5."""
