# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of torch and the engine that are replaced while a worker runs, each with its reason.

A test fails when one of them is no longer there. What else a CPU needs is in `cpu/`: the answers of
torch.cuda (`redirection.py`), the layers (`layers.py`) and the optimizer (`adam.py`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch


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


def _unless_compiled(original: Callable[..., Any]) -> Callable[..., Any]:
    """Nothing where the compiled helper is there and the Makefile is not, else the original."""
    package = find_spec("megatron.core.datasets")
    places = (
        [Path(place) for place in (package.submodule_search_locations or ())] if package else []
    )
    makefile = any((place / "Makefile").exists() for place in places)
    if find_spec("megatron.core.datasets.helpers_cpp") is None or makefile:
        return original
    return lambda *args, **kwargs: None


ON_ANY_DEVICE = (
    Replacement(
        "megatron.core.datasets.utils",
        "compile_helpers",
        "The wheel brings the compiled helper but not the Makefile that would compile it again; "
        "the engine calls make at every start and ends the process when it fails.",
        _unless_compiled,
    ),
)
"""What the wheel needs wherever it runs."""

ON_CPU = (
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
)
"""What one generator for everything needs."""


def replace(replacements: Iterable[Replacement]) -> None:
    """Put each replacement in its place."""
    for replacement in replacements:
        owner: Any = import_module(replacement.module)
        *inside, name = replacement.name.split(".")
        for part in inside:
            owner = getattr(owner, part)
        setattr(owner, name, replacement.make(getattr(owner, name)))
