# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Functions in torch and the engine that the worker replaces, each with the reason.

A test fails if one of them no longer exists. Other code for CPU is in `cpu/`: torch.cuda
(`redirection.py`), the layers (`layers.py`) and the optimizer (`adam.py`). This module also lists
the parts of the engine that these modules rely on.
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
    """One replacement."""

    module: str
    name: str
    """The name in the module, with a dot for a class attribute."""
    reason: str
    make: Callable[[Any], Any]
    """Creates the replacement from the original."""


def _keeping_random_state(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it does not change the random state."""

    def call(*args: Any, **kwargs: Any) -> Any:
        state = torch.get_rng_state()
        result = original(*args, **kwargs)
        torch.set_rng_state(state)
        return result

    return call


def _unless_compiled(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a no-op if the compiled helper exists without its Makefile, otherwise the original."""
    package = find_spec("megatron.core.datasets")
    places = (
        [Path(place) for place in (package.submodule_search_locations or ())] if package else []
    )
    makefile = any((place / "Makefile").exists() for place in places)
    if find_spec("megatron.core.datasets.helpers_cpp") is None or makefile:
        return original
    return lambda *args, **kwargs: None


def _itself(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the tensor or module itself."""
    return lambda self, *args, **kwargs: self


def _never(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda: False


def _cpu_state(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: torch.get_rng_state()


def _set_cpu_state(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda state, *args, **kwargs: torch.set_rng_state(state)


def _as_gpu_type(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a tensor's type name as on a GPU, and accept such names."""

    def type_of(self: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None:
            name = original(self)
            return name if "cuda" in name else name.replace("torch.", "torch.cuda.")
        if isinstance(dtype, str):
            dtype = dtype.replace("torch.cuda.", "torch.")
        return original(self, dtype, *args, **kwargs)

    return type_of


def _duplicated_linear(original: Any) -> Any:
    """Return the projection that every tensor-parallel rank has whole."""
    return _cpu_layers().DuplicatedLinear


def _prediction_spec(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that builds multi-token prediction from the layers for CPU."""
    return lambda *args, **kwargs: _cpu_layers().prediction_spec(*args, **kwargs)


def _with_empty_states(original: Callable[..., Any]) -> Callable[..., Any]:
    """Add the moments of parameters of which this rank holds no part, in the same order."""

    def states(self: Any, is_loading: bool = False) -> Any:
        result = original(self, is_loading)
        held, every = result["state"], {}
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                name = self._param_name(parameter)
                moments = ("exp_avg", "exp_avg_sq")
                empty = {each: torch.zeros_like(parameter) for each in moments}
                every[name] = held.get(name, empty)
        return result | {"state": every | held}

    return states


def _cpu_layers() -> Any:
    # Import late: this loads the engine.
    return import_module("seatrial.worker.megatron.cpu.layers")


ON_ANY_DEVICE = (
    Patch(
        "megatron.core.datasets.utils",
        "compile_helpers",
        "The wheel contains the compiled helper but not its Makefile. The engine runs make at "
        "every start and exits if make fails.",
        _unless_compiled,
    ),
    Patch(
        "megatron.core.optimizer.distrib_optimizer",
        "DistributedOptimizer.sharded_param_state_fsdp_dtensor",
        "With FSDP, a rank that holds no part of a parameter has no moments for it. To save or "
        "load, the ranks of a group exchange the sizes of one tensor after another. With "
        "different tensors, they wait for each other forever (NVIDIA/Megatron-LM issue 4910).",
        _with_empty_states,
    ),
)
"""Patches for the wheel on any device."""

ON_CPU = (
    Patch(
        "torch.utils.data.dataloader",
        "_BaseDataLoaderIter.__init__",
        "The data loader draws a seed from the CPU's generator, which dropout also uses here: "
        "after a resume, dropout would differ.",
        _keeping_random_state,
    ),
    Patch(
        "megatron.training.training",
        "set_jit_fusion_options",
        "The warm-up draws random numbers from the generator that initialises the weights. How "
        "many it draws depends on tp and cp.",
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
        "The data loader calls it before it pins memory.",
        _never,
    ),
    Patch(
        "megatron.core.transformer.multi_latent_attention",
        "Linear",
        "Latent attention accepts only the projections that it knows. Without Transformer Engine, "
        "this name is None.",
        _duplicated_linear,
    ),
    Patch(
        "megatron.training.models.gpt",
        "mtp_block_spec",
        "The engine's --spec does not apply to the layers for multi-token prediction.",
        _prediction_spec,
    ),
    Patch("torch.cuda.random", "get_rng_state", "The CPU's state is used.", _cpu_state),
    Patch("torch.cuda.random", "set_rng_state", "The CPU's state is used.", _set_cpu_state),
)
"""Patches for a host without a GPU, which has only one generator."""

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
    ("megatron.core.models.gpt.gpt_layer_specs", "get_gpt_decoder_layer_specs"),
    ("megatron.core.models.gpt.gpt_layer_specs", "get_gpt_mtp_block_spec"),
    (
        "megatron.core.transformer.multi_latent_attention",
        "MLASelfAttention._resolve_qk_norm_config",
    ),
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
    *(
        ("megatron.training.training", name)
        for name in ("train_step", "finalize_model_grads", "get_num_microbatches")
    ),
    ("megatron.core.pipeline_parallel.schedules", "forward_step"),
    ("megatron.core.pipeline_parallel.schedules", "backward_step"),
    ("megatron.core.pipeline_parallel.p2p_communication", "_batched_p2p_ops"),
    ("megatron.core.pipeline_parallel.p2p_communication", "_p2p_ops"),
    ("megatron.core.models.common.embeddings.rope_utils", "fused_apply_rotary_pos_emb"),
    ("megatron.core.tensor_parallel.layers", "HAVE_TE"),
    (
        "megatron.core.transformer.moe.token_dispatcher",
        "MoEAlltoAllTokenDispatcher.preprocess",
    ),
    (
        "megatron.core.transformer.moe.token_dispatcher",
        "MoEAllGatherTokenDispatcher.dispatch_postprocess",
    ),
    (
        "megatron.core.tensor_parallel.layers",
        "LinearWithGradAccumulationAndAsyncCommunication.forward",
    ),
)
"""Parts of the engine that the CPU layers extend, override or call by name, and parts that the
commit protocol and the full-size count wrap."""


def find(module: str, name: str) -> tuple[Any, str]:
    """Return the owner of a name, and its last component. Raise an error if it does not exist."""
    owner: Any = import_module(module)
    *inside, last = name.split(".")
    for part in inside:
        owner = getattr(owner, part)
    getattr(owner, last)
    return owner, last


def apply_patches(patches: Iterable[Patch]) -> None:
    for patch in patches:
        owner, name = find(patch.module, patch.name)
        setattr(owner, name, patch.make(getattr(owner, name)))
