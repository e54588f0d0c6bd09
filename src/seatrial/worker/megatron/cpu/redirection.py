# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""torch.cuda on a CPU: the calls that the engine's loop makes, answered; anything else refused.

Megatron asks torch.cuda for devices, streams, random states and memory figures throughout. On a
host without a GPU these go to the CPU, to a stream that does nothing, or to zero. A call that is
not in the table stops with its name: a rehearsal must not pass by skipping what it does not know.
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
    """A stream on which everything has happened already."""

    device = CPU

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what a CUDA stream takes."""

    def __enter__(self) -> "Stream":
        """Be the current stream."""
        return self

    def __exit__(self, *args: object) -> None:
        """Be it no more."""

    def wait_stream(self, *args: Any) -> None:
        """Nothing to wait for."""

    def wait_event(self, *args: Any) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def record_event(self, *args: Any) -> "CpuEvent":
        """An event that has happened."""
        return CpuEvent()


class CpuEvent:
    """An event that has happened already."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what a CUDA event takes."""

    def record(self, *args: Any) -> None:
        """It is recorded."""

    def wait(self, *args: Any) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: "CpuEvent") -> float:
        """There is no clock behind it."""
        return 0.0


class Generator:
    """The CPU's random state in place of a GPU's."""

    def get_state(self) -> torch.Tensor:
        return torch.get_rng_state()

    def set_state(self, state: torch.Tensor) -> None:
        torch.set_rng_state(state)


class Generators:
    """One generator for every device that is asked for."""

    def __getitem__(self, index: int) -> Generator:
        return Generator()


_STREAM = Stream()
_PROPERTIES = types.SimpleNamespace(
    # The engine chooses code paths by these; Hopper's numbers choose the common ones.
    major=9,
    minor=0,
    name="cpu",
    total_memory=80 << 30,
    multi_processor_count=132,
)


# Each name gets a function of its own: torch's compiler refuses one object under two names.
def _nothing() -> Callable[..., None]:
    """A function that does nothing."""
    return lambda *args, **kwargs: None


def _zero() -> Callable[..., int]:
    """A function that counts no memory."""
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
"""What torch.cuda answers to the engine."""

PASSED_THROUGH = frozenset(
    {"FloatTensor", "HalfTensor", "BFloat16Tensor", "ExternalStream", "device", "random"}
)
"""Names that the engine only compares with or mentions in annotations; torch's own serve."""


class UnknownCudaCallError(NotImplementedError):
    """The engine asked torch.cuda for something that the CPU runtime does not know."""


@cache
def _engine_directories() -> tuple[str, ...]:
    """Where the engine's own files are."""
    engine = find_spec("megatron")
    places = engine.submodule_search_locations if engine else None
    return tuple(f"{place}{os.sep}" for place in places or ())


class _Guarded(types.ModuleType):
    """torch.cuda, refusing names that the engine asks for and nobody answers."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        caller = sys._getframe(1)
        file = caller.f_code.co_filename
        unknown = name not in ANSWERED and name not in PASSED_THROUGH
        if unknown and not name.startswith("__") and file.startswith(_engine_directories()):
            raise UnknownCudaCallError(
                f"The engine calls torch.cuda.{name} ({file.rpartition('/megatron/')[2]}, line "
                f"{caller.f_lineno}), which the CPU runtime does not know. This part of the plan "
                "cannot be rehearsed on a CPU."
            )
        return value


class OnCpu(TorchFunctionMode):
    """Every tensor that is asked for on a GPU is made on the CPU; none is pinned."""

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
    """Whether a value names a GPU."""
    if isinstance(device, str):
        return device.startswith("cuda")
    return isinstance(device, torch.device) and device.type == "cuda"


def redirect() -> None:
    """Answer torch.cuda from the table, and keep tensors on the CPU, from now on."""
    for name, answer in ANSWERED.items():
        setattr(torch.cuda, name, answer)
    torch.cuda.__class__ = _Guarded
    OnCpu().__enter__()
