# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The loader: the only module that calls the unpicklers of torch and Python.

It loads only what the scanner accepted (`seatrial.checkpoints.scan`): the bytes that the scanner
read, and tensors from the same file descriptor. torch then loads them as weights only, with the
same allow-list. `install` replaces torch's loading functions, and `safe_load` in an engine's folder
replaces the engine's.
"""

import functools
import io
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, BinaryIO

import numpy
import torch
import torch.distributed.checkpoint.filesystem

from seatrial.checkpoints.fp8_rules import EXTRA_STATE_RULES, STORAGE_LOADERS
from seatrial.checkpoints.pickle_rules import (
    METADATA_RULES,
    Name,
    Rules,
    UnsafeFileError,
)
from seatrial.checkpoints.pickle_scan import scan_pickle
from seatrial.checkpoints.scan import scan_archive
from seatrial.worker.environment import WEIGHTS_ONLY

TENSOR_LIST_READER = "torch.distributed.checkpoint.filesystem"
"""The torch module that unpickles the tensor metadata."""

_torch_load: Callable[..., Any] = torch.load
"""torch's original function, which `install` replaces."""

Source = str | os.PathLike[str] | BinaryIO


class SafetyError(UnsafeFileError, pickle.UnpicklingError):
    """The file was rejected. The engines see this as an unpickling error."""


def load_archive(source: Source, map_location: Any = "cpu") -> Any:
    """Scan a torch archive and load it from the same descriptor.

    Raises SafetyError (an UnsafeFileError) unless it is a torch archive whose pickle uses only
    names in the allow-list. A stream is read from its current position to its end.
    """
    with _opened(source) as stream:
        try:
            scanned = scan_archive(stream, offset=stream.tell())
        except UnsafeFileError as error:
            name = getattr(stream, "name", None) or type(stream).__name__
            raise SafetyError(f"{name}: {error}. No code from it was executed.") from error
        _allow(scanned.content.names)
        return _torch_load(scanned.open(), map_location=map_location, weights_only=True)


def load_pickle(data: bytes, allowed: Rules) -> Any:
    """Scan a pickle and load the scanned bytes. Raises SafetyError if it uses a forbidden name."""
    try:
        scanned = scan_pickle(data, allowed)
    except UnsafeFileError as error:
        raise SafetyError(f"{error}. No code from it was executed.") from error
    return _AllowedUnpickler(io.BytesIO(scanned.data), allowed).load()


def install(readers: Mapping[str, Rules] | None = None) -> None:
    """Route all checkpoint loading in this process through this module.

    Call this after importing the engine, which may replace torch's loader with its own. A program
    with an engine calls `safe_load` in the engine's folder, which calls this function. The engine's
    child processes do not inherit the replacement; their environment variables control loading.

    Args:
        readers: The engine's modules that unpickle files themselves, and the names that those files
            may contain.
    """
    if os.environ.get(WEIGHTS_ONLY) != "1":
        raise RuntimeError(f"{WEIGHTS_ONLY} is not set: call environment.set_variables first.")
    torch.load = torch.serialization.load = _load_scanned
    torch.storage._load_from_bytes = load_from_bytes
    for name, allowed in {TENSOR_LIST_READER: METADATA_RULES, **(readers or {})}.items():
        if name in sys.modules:
            sys.modules[name].pickle = _Pickle(allowed)  # type: ignore[attr-defined]
    for name, module in list(sys.modules.items()):
        if name.startswith("transformer_engine.") and getattr(module, "pickle", None) is pickle:
            module.pickle = _Pickle(EXTRA_STATE_RULES)  # type: ignore[attr-defined]


@functools.wraps(torch.load)
def _load_scanned(f: Source, map_location: Any = None, *_: Any, **__: Any) -> Any:
    """Replaces torch.load. Always loads weights only, whatever the caller requests."""
    return load_archive(f, map_location)


def load_from_bytes(b: bytes) -> Any:
    """Load a separately pickled storage, which torch writes in its legacy format.

    The storage comes from another process in this run, or from scanned FP8 state.
    """
    return _torch_load(io.BytesIO(b), weights_only=True)


# Pickles contain this name, and other processes resolve it.
load_from_bytes.__module__ = torch.storage.__name__
load_from_bytes.__name__ = load_from_bytes.__qualname__ = "_load_from_bytes"


class _AllowedUnpickler(pickle.Unpickler):
    """Python's unpickler, for scanned bytes; checks the allow-list a second time."""

    def __init__(self, file: BinaryIO, allowed: Rules) -> None:
        super().__init__(file)
        self._allowed = allowed

    def find_class(self, module: str, name: str, /) -> Any:
        known = Name({"__builtin__": "builtins"}.get(module, module), name)
        if known not in self._allowed:
            raise SafetyError(f"it uses {module}.{name}, which no checkpoint needs")
        if known in STORAGE_LOADERS:
            # Without `install`, torch's own function would unpickle anything.
            return load_from_bytes
        return super().find_class(known.module, name)


class _Pickle:
    """Replaces the module `pickle` in modules with which an engine reads files."""

    def __init__(self, allowed: Rules) -> None:
        self._allowed = allowed

    def __getattr__(self, name: str) -> Any:
        if name in ("Unpickler", "_Unpickler"):
            raise SafetyError(f"pickle.{name} is disabled because it could execute code")
        return getattr(pickle, name)

    def load(self, file: BinaryIO, **_: Any) -> Any:
        return load_pickle(file.read(), self._allowed)

    def loads(self, data: bytes, /, **_: Any) -> Any:
        return load_pickle(bytes(data), self._allowed)


def load_numbers(path: Source, mmap_mode: Any = None, **_: Any) -> Any:
    """Load one of the engine's indices as plain numbers, which need no pickle."""
    try:
        return numpy.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except (ValueError, EOFError) as error:
        rule = f"{path} is not an array of numbers ({error}). No code from it was executed."
        raise SafetyError(f"{rule} Delete the file; the engine rebuilds its indices.") from error


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as stream:
            yield stream
    else:
        yield source


def _allow(names: Iterable[Name]) -> None:
    """Add the scanned names to torch's allow-list, which by default allows little but tensors."""
    for name in names:
        if name.module not in ("torch", "torch._utils", "torch.storage"):
            _allow_one(name)


@functools.cache
def _allow_one(name: Name) -> None:
    value = getattr(import_module(name.module), name.name)
    torch.serialization.add_safe_globals([(value, f"{name.module}.{name.name}")])
    if value is numpy.dtype:
        # Each dtype has a separate class, which no pickle names.
        kinds = {type(numpy.dtype(code)) for code in numpy.typecodes["AllInteger"] + "?efdFD"}
        torch.serialization.add_safe_globals(list(kinds))
