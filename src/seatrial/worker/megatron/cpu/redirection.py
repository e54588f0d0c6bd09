# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""torch.cuda on CPU: redirects the calls from the engine's loop, and rejects all other calls.

Megatron calls torch.cuda for devices, streams, random states and memory statistics everywhere. On a
host without a GPU, these calls return the CPU, a no-op stream, or zero. A call that is not in the
table raises an error with its name: a rehearsal must not pass because it skips an unknown call.
"""

import contextlib
import os
import sys
import types
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")


class Stream:
    """A no-op stream: everything on it is already complete."""

    device = CPU

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Accept the arguments of a CUDA stream."""

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *args: object) -> None:
        """Do nothing."""

    def wait_stream(self, *args: Any) -> None:
        """Do nothing."""

    def wait_event(self, *args: Any) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""

    def record_event(self, *args: Any) -> "CpuEvent":
        return CpuEvent()


class CpuEvent:
    """An event that has already happened."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Accept the arguments of a CUDA event."""

    def record(self, *args: Any) -> None:
        """Do nothing."""

    def wait(self, *args: Any) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: "CpuEvent") -> float:
        """Return 0: there is no clock."""
        return 0.0


class Generator:
    """The CPU's random state in place of a GPU's."""

    def get_state(self) -> torch.Tensor:
        return torch.get_rng_state()

    def set_state(self, state: torch.Tensor) -> None:
        torch.set_rng_state(state)


class Generators:
    """The same generator for every device."""

    def __getitem__(self, index: int) -> Generator:
        return Generator()


_STREAM = Stream()
_PROPERTIES = types.SimpleNamespace(
    # The engine selects code paths based on these values; Hopper's select the common paths.
    major=9,
    minor=0,
    name="cpu",
    total_memory=80 << 30,
    multi_processor_count=132,
)


# Each name needs a separate function: torch's compiler rejects one object under two names.
def _nothing() -> Callable[..., None]:
    """Return a no-op."""
    return lambda *args, **kwargs: None


def _zero() -> Callable[..., int]:
    """Return a function that reports no memory."""
    return lambda *args, **kwargs: 0


ANSWERED: dict[str, Any] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: CPU,
    "set_device": _nothing(),
    "synchronize": _nothing(),
    "_lazy_init": _nothing(),
    "_lazy_call": lambda call, **kwargs: call(),
    "Stream": Stream,
    "Event": CpuEvent,
    "current_stream": lambda *args, **kwargs: _STREAM,
    "stream": lambda stream: contextlib.nullcontext(),
    "get_rng_state": lambda *args, **kwargs: torch.get_rng_state(),
    "set_rng_state": lambda state, *args, **kwargs: torch.set_rng_state(state),
    "manual_seed": torch.manual_seed,
    "default_generators": Generators(),
    "empty_cache": _nothing(),
    "memory_allocated": _zero(),
    "max_memory_allocated": _zero(),
    "memory_reserved": _zero(),
    "max_memory_reserved": _zero(),
    "get_device_capability": lambda *args, **kwargs: (_PROPERTIES.major, _PROPERTIES.minor),
    "get_device_properties": lambda *args, **kwargs: _PROPERTIES,
}
"""Replacements in torch.cuda for the engine."""

PASSED_THROUGH = frozenset(
    {"FloatTensor", "HalfTensor", "BFloat16Tensor", "ExternalStream", "device", "random"}
)
"""Names that the engine only compares with, or uses in annotations; they are not replaced."""


class UnknownCudaCallError(NotImplementedError):
    """The engine called a function in torch.cuda that the CPU runtime does not support."""


@cache
def _engine_directories() -> tuple[str, ...]:
    engine = find_spec("megatron")
    places = engine.submodule_search_locations if engine else None
    return tuple(f"{place}{os.sep}" for place in places or ())


class _Guarded(types.ModuleType):
    """torch.cuda, which rejects unsupported names if the engine uses them."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        caller = sys._getframe(1)
        file = caller.f_code.co_filename
        unknown = name not in ANSWERED and name not in PASSED_THROUGH
        if unknown and not name.startswith("__") and file.startswith(_engine_directories()):
            raise UnknownCudaCallError(
                f"The engine calls torch.cuda.{name} ({file.rpartition('/megatron/')[2]}, line "
                f"{caller.f_lineno}), which the CPU runtime does not support. This part of the "
                "plan cannot be rehearsed on CPU."
            )
        return value


class OnCpu(TorchFunctionMode):
    """Creates every GPU tensor on the CPU, and does not pin memory."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the function with the CPU in place of a GPU."""
        kwargs = kwargs or {}
        if _is_gpu(kwargs.get("device")):
            kwargs = kwargs | {"device": CPU}
        if kwargs.get("pin_memory"):
            kwargs = kwargs | {"pin_memory": False}
        if any(_is_gpu(argument) for argument in args):
            args = tuple(CPU if _is_gpu(argument) else argument for argument in args)
        return func(*args, **kwargs)


def _is_gpu(device: Any) -> bool:
    """True if a value names a GPU."""
    if isinstance(device, str):
        return device.startswith("cuda")
    return isinstance(device, torch.device) and device.type == "cuda"


def redirect() -> None:
    """Replace torch.cuda's functions, and create all further tensors on the CPU."""
    for name, answer in ANSWERED.items():
        setattr(torch.cuda, name, answer)
    torch.cuda.__class__ = _Guarded
    OnCpu().__enter__()
