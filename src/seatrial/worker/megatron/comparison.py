# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a drill needs in order to compare two layouts of one model.

Both layouts start from the same strong weights, and report how many tokens each expert processed.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import torch
from megatron.core import mpu
from megatron.core.dist_checkpointing.dict_utils import nested_values
from megatron.core.dist_checkpointing.mapping import ShardedTensor, apply_factories
from megatron.core.transformer.moe.router import TopKRouter
from megatron.training import get_args
from megatron.training.models.gpt import GPTModelConfig


def start_from_strong_weights(config: GPTModelConfig, deviation: float) -> None:
    """Replace the initial weights before the engine shards them or builds its optimizer."""

    def replace_weights(chunks: list[Any]) -> list[Any]:
        set_weights(chunks, deviation)
        return chunks

    config.pre_wrap_hooks.append(replace_weights)


@torch.no_grad()
def set_weights(chunks: Sequence[torch.nn.Module], deviation: float) -> None:
    """Draw each weight by its name in a checkpoint, so that the layout makes no difference.

    Matrices are drawn around 0. Norms and biases are drawn around the value that the engine starts
    them with, which is 1 or 0.
    """
    for chunk in chunks:
        mine = {parameter.untyped_storage().data_ptr() for parameter in chunk.parameters()}
        for tensor in _sharded_tensors(chunk):
            if tensor.data.untyped_storage().data_ptr() in mine:
                values = _drawn(tensor) * deviation
                is_vector = len(tensor.local_shape) == 1
                tensor.data.copy_(values + tensor.data.round() if is_vector else values)


def _sharded_tensors(chunk: Any) -> Iterator[ShardedTensor]:
    states = chunk.sharded_state_dict()
    apply_factories(states)
    return (value for value in nested_values(states) if isinstance(value, ShardedTensor))


def _drawn(tensor: ShardedTensor) -> torch.Tensor:
    """Return this rank's part of a tensor of normally distributed numbers."""
    seed = int.from_bytes(hashlib.sha256(tensor.key.encode()).digest()[:8], "big")
    # numpy draws in order, so that rows which only pad the vocabulary do not change the others.
    draw = numpy.random.default_rng(seed)
    whole = torch.from_numpy(draw.standard_normal(tensor.global_shape, dtype=numpy.float32))
    extent = (1,) * tensor.prepend_axis_num + tuple(tensor.local_shape)
    part = tuple(slice(at, at + n) for at, n in zip(tensor.global_offset, extent, strict=True))
    return whole[part].reshape(tensor.local_shape)


class ExpertCounts:
    """Counts the tokens that each expert processes in a step."""

    def __init__(self) -> None:
        """Start without counts."""
        self._counts: dict[int, torch.Tensor] = {}

    def install(self) -> None:
        """Count in every router of the engine."""
        TopKRouter.routing = self._counting(TopKRouter.routing)

    def _counting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def routing(router: Any, *args: Any, **kwargs: Any) -> Any:
            probabilities, chosen = original(router, *args, **kwargs)
            # Without gradients, this is an evaluation, or the first pass of a recomputed layer.
            if router.training and torch.is_grad_enabled():
                layer, tokens = router.layer_number, chosen.detach().sum(dim=0).cpu()
                self._counts[layer] = self._counts.get(layer, 0) + tokens
            return probabilities, chosen

        return routing

    def share(self) -> dict[str, dict[str, list[int]]]:
        """Return the step's counts by layer, over all ranks, and start again. A collective."""
        # Without sequence parallelism, the tensor-parallel ranks route the same tokens.
        repeats = mpu.get_tensor_model_parallel_rank() > 0 and not get_args().sequence_parallel
        mine = {} if repeats else {layer: part.tolist() for layer, part in self._counts.items()}
        self._counts = {}
        gathered: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(gathered, mine)
        totals: dict[str, list[int]] = {}
        for layer, counts in (pair for part in gathered for pair in sorted(part.items())):
            before = totals.get(str(layer), [0] * len(counts))
            totals[str(layer)] = [one + other for one, other in zip(before, counts, strict=True)]
        return {"experts": totals}
