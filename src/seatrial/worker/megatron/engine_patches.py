# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of torch and the engine that are replaced while a worker runs, each with its reason.

A test fails when one of them is no longer there. What else a CPU needs is in `cpu/`: the answers of
torch.cuda (`redirection.py`), the layers (`layers.py`) and the optimizer (`adam.py`); what those
rely on in the engine is listed here as well.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Patch:
    """One thing that is replaced while the process runs."""

    module: str
    """The module that holds it."""
    name: str
    """Its name there, with dots for what is inside a class."""
    reason: str
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


def _itself(original: Callable[..., Any]) -> Callable[..., Any]:
    """Leave a tensor or a module where it is."""
    return lambda self, *args, **kwargs: self


def _never(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda: False


def _cpu_state(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: torch.get_rng_state()


def _set_cpu_state(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda state, *args, **kwargs: torch.set_rng_state(state)


def _as_gpu_type(original: Callable[..., Any]) -> Callable[..., Any]:
    """Name a tensor's type as a GPU would, and take such names."""

    def type_of(self: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None:
            name = original(self)
            return name if "cuda" in name else name.replace("torch.", "torch.cuda.")
        if isinstance(dtype, str):
            dtype = dtype.replace("torch.cuda.", "torch.")
        return original(self, dtype, *args, **kwargs)

    return type_of


ON_ANY_DEVICE = (
    Patch(
        "megatron.core.datasets.utils",
        "compile_helpers",
        "The wheel brings the compiled helper but not the Makefile that would compile it again; "
        "the engine calls make at every start and ends the process when it fails.",
        _unless_compiled,
    ),
)
"""What the wheel needs wherever it runs."""

ON_CPU = (
    Patch(
        "torch.utils.data.dataloader",
        "_BaseDataLoaderIter.__init__",
        "It draws a seed from the CPU's generator, which here is also the one of dropout: "
        "after a resume, dropout would differ.",
        _keeping_random_state,
    ),
    Patch(
        "megatron.training.training",
        "set_jit_fusion_options",
        "Its warm-up draws random numbers whose count depends on tp and cp, from the generator "
        "that the weights are then drawn from.",
        _keeping_random_state,
    ),
    Patch("torch", "Tensor.cuda", "There is no GPU to move to.", _itself),
    Patch("torch", "Tensor.pin_memory", "Only a GPU's driver can pin memory.", _itself),
    Patch("torch", "Tensor.record_stream", "There are no streams.", _itself),
    Patch("torch", "nn.Module.cuda", "There is no GPU to move to.", _itself),
    Patch(
        "torch",
        "Tensor.type",
        "The engine recognises half precision by the name of the GPU's tensor type.",
        _as_gpu_type,
    ),
    Patch(
        "torch",
        "accelerator.is_available",
        "The data loader asks it before it pins memory.",
        _never,
    ),
    Patch("torch.cuda.random", "get_rng_state", "The CPU's state serves.", _cpu_state),
    Patch("torch.cuda.random", "set_rng_state", "The CPU's state serves.", _set_cpu_state),
)
"""What a host without a GPU, and one generator for everything, need."""

RELIED_ON = (
    ("megatron.core.transformer.moe.token_dispatcher", "MoEAlltoAllTokenDispatcher"),
    (
        "megatron.core.transformer.moe.token_dispatcher",
        "MoEAlltoAllTokenDispatcher._maybe_dtoh_and_synchronize",
    ),
    ("megatron.core.transformer.moe.moe_layer", "MoELayer"),
    ("megatron.core.transformer.torch_norm", "WrappedTorchNorm"),
    ("megatron.core.transformer.dot_product_attention", "DotProductAttention.forward"),
    ("megatron.core.models.gpt.gpt_layer_specs", "get_gpt_decoder_block_spec"),
    *(
        (
            "megatron.core.dist_checkpointing.strategies.filesystem_async",
            f"FileSystemWriterAsync.{name}",
        )
        for name in ("prepare_write_data", "write_preloaded_data", "retrieve_write_results")
    ),
    (
        "megatron.core.dist_checkpointing.strategies.async_utils",
        "PersistentAsyncCaller.async_loop",
    ),
    ("megatron.core.dist_checkpointing", "save"),
    ("megatron.training.checkpointing", "maybe_msc.open"),
    ("megatron.training.training", "setup_model_and_optimizer"),
    ("megatron.training.training", "evaluate"),
    ("torch.distributed.checkpoint.filesystem", "pickle"),
)
"""Parts of the engine that the CPU's layers extend, overriding or calling them by name, and those
that the commit protocol is put around."""


def find(module: str, name: str) -> tuple[Any, str]:
    """What holds a thing, and the thing's last name there; fails when it is not there."""
    owner: Any = import_module(module)
    *inside, last = name.split(".")
    for part in inside:
        owner = getattr(owner, part)
    getattr(owner, last)
    return owner, last


def apply_patches(patches: Iterable[Patch]) -> None:
    """Put each patch in its place."""
    for patch in patches:
        owner, name = find(patch.module, patch.name)
        setattr(owner, name, patch.make(getattr(owner, name)))
