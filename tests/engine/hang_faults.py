# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Hangs that tests plant in the engine: each makes some ranks communicate differently."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import mpu
from megatron.core.distributed import DistributedDataParallel, param_and_grad_buffer
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from megatron.core.pipeline_parallel import p2p_communication
from megatron.core.tensor_parallel import layers

# The package has a function of the same name.
finalize_model_grads: Any = import_module("megatron.core.distributed.finalize_model_grads")


def extra_collective() -> None:
    """One tensor-parallel rank reduces the output of a layer's projection once more."""
    original = layers.RowParallelLinear.forward

    def forward(self: Any, *args: Any) -> Any:
        output, bias = original(self, *args)
        if mpu.get_tensor_model_parallel_rank() == 1 and self.input_size > self.output_size:
            dist.all_reduce(output.detach().clone(), group=mpu.get_tensor_model_parallel_group())
        return output, bias

    layers.RowParallelLinear.forward = forward


def extra_on_stage() -> None:
    """The last stage checks something with all ranks of the model."""
    original = finalize_model_grads._allreduce_word_embedding_grads

    def reduce(*args: Any) -> None:
        original(*args)
        if mpu.is_pipeline_last_stage(ignore_virtual=True):
            dist.all_reduce(torch.ones(1), group=mpu.get_model_parallel_group())

    finalize_model_grads._allreduce_word_embedding_grads = reduce


def swapped_buckets() -> None:
    """The second replica reduces its buckets in reverse order."""
    original = DistributedDataParallel.finish_grad_sync

    def finish(self: Any, *args: Any, **options: Any) -> None:
        ordered = self.bucket_groups
        if mpu.get_data_parallel_rank() == 1:
            self.bucket_groups = ordered[::-1]
        original(self, *args, **options)
        self.bucket_groups = ordered

    DistributedDataParallel.finish_grad_sync = finish


def missing_receive() -> None:
    """The first stage forgets to receive the gradient of its third micro-batch."""
    original = p2p_communication._batched_p2p_ops
    seen = 0

    def batched(**given: Any) -> Any:
        nonlocal seen
        if (
            mpu.is_pipeline_first_stage(ignore_virtual=True)
            and given["tensor_recv_next"] is not None
        ):
            seen += 1
            if seen == 3:
                given["tensor_recv_next"] = None
        return original(**given)

    p2p_communication._batched_p2p_ops = batched


def condition_on_replica() -> None:
    """The second replica does not gather its weights."""
    groups = param_and_grad_buffer._ParamAndGradBucketGroup
    original = groups.start_param_sync

    def sync(self: Any, *args: Any, **options: Any) -> None:
        if mpu.get_data_parallel_rank() != 1:
            original(self, *args, **options)

    groups.start_param_sync = sync


def second_gather() -> None:
    """The optimizer of the last replica gathers the weights twice."""
    original = DistributedOptimizer.step_with_ready_grads

    def step(self: Any, *args: Any) -> Any:
        result = original(self, *args)
        if mpu.get_data_parallel_rank() == mpu.get_data_parallel_world_size() - 1:
            for chunk in self.model_chunks:
                chunk.start_param_sync()
        return result

    DistributedOptimizer.step_with_ready_grads = step


def sends_first() -> None:
    """Stages wait for each send before they receive."""

    def one_by_one(**given: Any) -> list[Any]:
        group = given["group"]
        for side in ("prev", "next"):
            if given[f"tensor_send_{side}"] is not None:
                peer = given[f"{side}_pipeline_rank"]
                dist.isend(given[f"tensor_send_{side}"], peer, group).wait()
        for side in ("prev", "next"):
            if given[f"tensor_recv_{side}"] is not None:
                peer = given[f"{side}_pipeline_rank"]
                dist.irecv(given[f"tensor_recv_{side}"], peer, group).wait()
        return []

    p2p_communication._batched_p2p_ops = one_by_one


def crossed_groups() -> None:
    """Some ranks reduce embeddings before norms, others after."""
    norms = finalize_model_grads._allreduce_non_tensor_model_parallel_grads
    embeddings = finalize_model_grads._allreduce_word_embedding_grads
    kept: list[tuple[Any, ...]] = []

    def late(*args: Any) -> None:
        if is_crossed():
            kept.append(args)
        else:
            norms(*args)

    def early(*args: Any) -> None:
        embeddings(*args)
        if kept:
            norms(*kept.pop())

    finalize_model_grads._allreduce_non_tensor_model_parallel_grads = late
    finalize_model_grads._allreduce_word_embedding_grads = early


def is_crossed() -> bool:
    place = mpu.get_tensor_model_parallel_rank() + mpu.get_pipeline_model_parallel_rank()
    return bool(place % 2)


def wrong_type() -> None:
    """One stage sends activations in single precision."""
    original = p2p_communication._batched_p2p_ops

    def batched(**given: Any) -> Any:
        sent = given["tensor_send_next"]
        if sent is not None and mpu.get_pipeline_model_parallel_rank() == 0:
            given["tensor_send_next"] = sent.detach().float()
        return original(**given)

    p2p_communication._batched_p2p_ops = batched


FAULTS: dict[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (
        extra_collective,
        extra_on_stage,
        swapped_buckets,
        missing_receive,
        condition_on_replica,
        second_gather,
        sends_first,
        crossed_groups,
        wrong_type,
    )
}
