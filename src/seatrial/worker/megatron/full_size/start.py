# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Prepare a process that counts: torch.cuda answered, kernels provided, no generators."""

import sys
from collections.abc import Callable
from typing import Any

import torch

from seatrial.worker.megatron.cpu import redirection
from seatrial.worker.megatron.engine_patches import ON_ANY_DEVICE, ON_CPU, Patch, apply_patches
from seatrial.worker.megatron.full_size.counter import StepCounter
from seatrial.worker.megatron.full_size.kernels import Attention, offer_kernels


def prepare(attention: str, block: int) -> StepCounter:
    """Install everything that must be there before the engine is imported.

    Args:
        attention: What the attention kernel keeps, as in `Attention`.
        block: Bytes to which the allocator rounds a tensor up.
    """
    for unused in ("wandb", "transformers"):
        # The engine handles a failed import of both, and importing them takes seconds.
        sys.modules.setdefault(unused, None)  # type: ignore[arg-type]
    _ignore_generators()
    redirection.redirect()
    counter = StepCounter(block)
    offer_kernels(counter, Attention(attention))
    apply_patches(patch for patch in ON_CPU if "rng_state" not in patch.name)
    apply_patches((*ON_ANY_DEVICE, *FOR_COUNTING))
    return counter


def _ignore_generators() -> None:
    """No random number is drawn, and a fake tensor cannot hold a generator's state."""
    state = torch.zeros(16, dtype=torch.uint8)
    answers: dict[str, Callable[..., Any]] = {
        "get_rng_state": lambda *_, **__: state,
        "set_rng_state": lambda *_, **__: None,
    }
    redirection.ANSWERED |= {**answers, "manual_seed": lambda *_, **__: None}
    for owner in (torch, torch.random, torch.cuda.random):
        for name, answer in answers.items():
            setattr(owner, name, answer)


def _converted(dtype: torch.dtype) -> Callable[..., Any]:
    def make(original: Any) -> Any:
        def convert(self: torch.nn.Module) -> torch.nn.Module:
            for tensor in [*self.parameters(), *self.buffers()]:
                if tensor.is_floating_point() and tensor.dtype != dtype:
                    tensor.data = tensor.data.to(dtype)
            return self

        return convert

    return make


def _same_answer(original: Any) -> Any:
    def gather(found: list[Any], own: Any, group: Any = None) -> None:
        found[:] = [own] * len(found)

    return gather


def _prediction_spec(original: Any) -> Any:
    def spec(*args: Any, **kwargs: Any) -> Any:
        # Import late: this loads the engine.
        from seatrial.worker.megatron.full_size.layers import prediction_spec  # noqa: PLC0415

        return prediction_spec(*args, **kwargs)

    return spec


def _without_overflow(original: Any) -> Any:
    def unscale(self: Any) -> bool:
        original(self)
        return False

    return unscale


def _not_in_place(original: Any) -> Any:
    def calculate(logits: torch.Tensor, *rest: Any) -> Any:
        return original(logits.clone(), *rest)

    return calculate


FOR_COUNTING = (
    Patch(
        "megatron.core.optimizer.optimizer",
        "MixedPrecisionOptimizer._unscale_main_grads_and_check_for_nan",
        "Without data, an fp16 run would find an overflow in every step and skip the update.",
        _without_overflow,
    ),
    Patch(
        "megatron.core.fusions.fused_cross_entropy",
        "calculate_predicted_logits",
        "On a GPU it is compiled, and then it does not overwrite its fp32 logits.",
        _not_in_place,
    ),
    *(
        Patch(
            "torch",
            f"nn.Module.{name}",
            "torch swaps fake parameters, which fails while anything refers to them.",
            _converted(dtype),
        )
        for name, dtype in (("bfloat16", torch.bfloat16), ("half", torch.float16))
    ),
    Patch(
        "torch.distributed",
        "all_gather_object",
        "There is one process. The other ranks would send what this one sends.",
        _same_answer,
    ),
    Patch(
        "megatron.training.models.gpt",
        "mtp_block_spec",
        "The engine's --spec does not apply to the layers for multi-token prediction.",
        _prediction_spec,
    ),
)
"""Patches for a process that counts without data."""
