# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The CPU runtime: everything that is replaced so that the engine's own loop trains on a CPU.

Each replacement is listed with its reason; a test fails when the engine no longer has what it
replaces. The layers come on top, through the engine's own `--spec` (`cpu/layers.py`).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from seatrial.worker.cpu.adam import offer_as_apex
from seatrial.worker.cpu.redirection import redirect

ENVIRONMENT = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
"""What must be set before torch is loaded: one thread a process, no compilation, and the
engine's own demand for tensor and context parallelism."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """One thing that is replaced while the process runs."""

    module: str
    """The module that holds it."""
    name: str
    """Its name there, with dots for what is inside a class."""
    reason: str
    """Why."""
    make: Callable[[Any], Any]
    """From the original, what takes its place."""


def _keeping_random_state(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, leaving the random state as it found it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        state = torch.get_rng_state()
        result = original(*args, **kwargs)
        torch.set_rng_state(state)
        return result

    return call


def _doing_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does nothing."""
    return lambda *args, **kwargs: None


REPLACEMENTS = (
    Replacement(
        "torch.utils.data.dataloader",
        "_BaseDataLoaderIter.__init__",
        "It draws a seed from the CPU's generator, which here is also the one of dropout: "
        "after a resume, dropout would differ.",
        _keeping_random_state,
    ),
    Replacement(
        "megatron.training.training",
        "set_jit_fusion_options",
        "Its warm-up draws random numbers whose count depends on tp and cp, from the generator "
        "that the weights are then drawn from.",
        _keeping_random_state,
    ),
    Replacement(
        "megatron.core.datasets.utils",
        "compile_helpers",
        "The wheel brings the compiled helper but not the Makefile that would compile it again.",
        _doing_nothing,
    ),
)
"""What is replaced beside torch.cuda and the layers."""


def install() -> None:
    """Make this process ready for the engine on a CPU; before the engine is imported."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    redirect()
    offer_as_apex()
    for replacement in REPLACEMENTS:
        owner: Any = import_module(replacement.module)
        *inside, name = replacement.name.split(".")
        for part in inside:
            owner = getattr(owner, part)
        setattr(owner, name, replacement.make(getattr(owner, name)))
