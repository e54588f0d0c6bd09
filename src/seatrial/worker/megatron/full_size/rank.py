# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run the engine's own `pretrain` for one rank of the full-size run, and count.

The engine trains two steps. The first creates what later steps find: the optimizer's moments, and
the order in which gradients become complete. The second step is counted.
"""

import os
import resource
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from megatron.core import mpu
from megatron.core.enums import ModelType
from megatron.core.pipeline_parallel import p2p_communication, schedules
from megatron.training import get_args, pretrain, training
from megatron.training.argument_utils import pretrain_cfg_container_from_args
from megatron.training.arguments import parse_and_validate_args
from torch._subclasses.fake_tensor import FakeTensorMode

from seatrial.planning.counted import Pass, RankCount
from seatrial.worker.megatron.arguments import hand_over
from seatrial.worker.megatron.full_size.counter import StepCounter
from seatrial.worker.megatron.full_size.formats import QuantizedFormat
from seatrial.worker.megatron.full_size.kernels import replace_engine_kernels
from seatrial.worker.megatron.full_size.quantized import quantize_products
from seatrial.worker.megatron.full_size.routing import route_evenly
from seatrial.worker.megatron.full_size.storages import (
    largest_of,
    memory_of,
    watch_resizes,
)
from seatrial.worker.megatron.gpt import embedding_ranks, forward_step
from seatrial.worker.megatron.model_config import model_config

STEPS = 2
PASSES, UPDATE = "passes", "update"
"""The parts of a step whose peaks are kept."""
SHARDS = ("shard_fp32_from_float16_groups", "fp32_from_float16_groups", "shard_fp32_groups")
"""The optimizer's lists of fp32 weights."""


@dataclass(frozen=True, slots=True)
class CountOptions:
    """What a count assumes, besides the engine's arguments."""

    imbalance: float = 1.0
    """How many times its even share of tokens the experts of this rank receive."""
    is_fake: bool = True
    """False for real tensors, to compare both."""
    narrow: str | None = None
    """The format of 8-bit or 4-bit products."""
    has_native_transpose: bool = False
    """True if the GPU reads 8-bit data by rows and by columns, as Blackwell does."""
    has_narrow_weights: bool = False
    """True if the parameters are in the format, without a bf16 copy."""


def count_rank(arguments: Sequence[str], counter: StepCounter, options: CountOptions) -> RankCount:
    """Run two steps of one rank, and return what the second one needs."""
    replace_engine_kernels()
    if options.narrow is not None:
        quantize_products(
            QuantizedFormat(options.narrow),
            has_native_transpose=options.has_native_transpose,
            has_narrow_weights=options.has_narrow_weights,
        )
    watch_resizes(counter.storages, lambda: len(counter.recorder.events))
    counter.position.follow_modules()
    step = _CountedStep(counter)
    step.install()
    fake: AbstractContextManager[Any] = (
        FakeTensorMode(allow_non_fake_inputs=True) if options.is_fake else nullcontext()
    )
    with fake, counter:
        args = parse_and_validate_args(hand_over(arguments))
        if args.num_experts:
            route_evenly(counter, args.moe_router_topk, options.imbalance)
        container = pretrain_cfg_container_from_args(args, model_config(args))
        pretrain(
            container,
            _provider(args),
            ModelType.encoder_or_decoder,
            forward_step,
            get_embedding_ranks=embedding_ranks,
        )
        return step.result(args, options)


def _provider(args: Namespace) -> Any:
    """Return the engine's provider of data sets: batches of zeros."""

    def batches() -> Iterator[dict[str, torch.Tensor]]:
        shape = (args.micro_batch_size, args.seq_length)
        square = (args.micro_batch_size, 1, args.seq_length, args.seq_length)
        while True:
            batch = {
                "tokens": torch.zeros(shape, dtype=torch.int64),
                "labels": torch.zeros(shape, dtype=torch.int64),
                "loss_mask": torch.ones(shape, dtype=torch.float32),
                "position_ids": torch.zeros(shape, dtype=torch.int64),
            }
            if args.create_attention_mask_in_dataloader:
                batch["attention_mask"] = torch.zeros(square, dtype=torch.bool)
            yield batch

    def provide(sizes: Any, vp_stage: int | None = None) -> Any:
        return batches(), None, None

    provide.is_distributed = True  # type: ignore[attr-defined]
    return provide


class _CountedStep:
    """Follows the engine's loop, and collects what is counted."""

    def __init__(self, counter: StepCounter) -> None:
        self.counter = counter
        self.steps = 0
        self.parameters = 0

    def install(self) -> None:
        """Replace the functions that the engine's loop calls for each part of a step."""
        self._train_step, training.train_step = training.train_step, self.train_step
        self._forward, schedules.forward_step = schedules.forward_step, self.forward
        self._backward, schedules.backward_step = schedules.backward_step, self.backward
        self._finalize, training.finalize_model_grads = (
            training.finalize_model_grads,
            self.finalize,
        )
        self._batches = training.get_num_microbatches
        training.get_num_microbatches = self.micro_batches
        for name in ("_batched_p2p_ops", "_p2p_ops"):
            original = getattr(p2p_communication, name)
            setattr(p2p_communication, name, self._between_stages(original))
        batched = torch.distributed.batch_isend_irecv
        torch.distributed.batch_isend_irecv = self._in_batch(batched)

    @property
    def _is_counted(self) -> bool:
        return self.steps == STEPS

    def micro_batches(self) -> int:
        """Return fewer micro-batches for the step that is not counted."""
        if self._is_counted:
            return int(self._batches())
        if mpu.get_virtual_pipeline_model_parallel_world_size() is None:
            return 1
        stages: int = mpu.get_pipeline_model_parallel_world_size()
        group = getattr(get_args(), "microbatch_group_size_per_vp_stage", None)
        return max(stages, group or 0)

    def train_step(
        self, forward: Any, data: Any, model: Any, optimizer: Any, *rest: Any, **options: Any
    ) -> Any:
        """Count the last step from its beginning to its end."""
        self.steps += 1
        counter = self.counter
        if not self._is_counted:
            counter.position.name_modules(model)
            counter.recorder.is_on = False
            return self._train_step(forward, data, model, optimizer, *rest, **options)
        counter.recorder.is_on = True
        counter.imitated.clear()
        counter.storages.assign_roles(_states(model, optimizer))
        self.parameters = sum(p.numel() for chunk in model for p in chunk.parameters())
        counter.position.begin(Pass.FORWARD)
        counter.storages.begin_part(PASSES, len(counter.recorder.events))
        result = self._train_step(forward, data, model, optimizer, *rest, **options)
        counter.recorder.flush()
        counter.recorder.is_on = False
        counter.storages.begin_part("", 0)
        return result

    def forward(
        self,
        step: Any,
        data: Any,
        model: Any,
        batches: int,
        inputs: Any,
        *rest: Any,
        current_microbatch: int | None = None,
        vp_stage: int | None = None,
        **options: Any,
    ) -> Any:
        """Attribute the forward pass of a micro-batch."""
        counter = self.counter
        options |= {"current_microbatch": current_microbatch, "vp_stage": vp_stage}
        if self._is_counted:
            counter.position.begin(Pass.FORWARD, current_microbatch or 0, vp_stage or 0)
            counter.recorder.consumed(inputs)
        result = self._forward(step, data, model, batches, inputs, *rest, **options)
        if self._is_counted:
            counter.recorder.produced(result[0])
            counter.recorder.flush()
            counter.position.in_flight += 1
            counter.position.begin(Pass.FORWARD)
        return result

    def backward(self, inputs: Any, output: Any, gradient: Any, config: Any) -> Any:
        """Attribute the backward pass of a micro-batch, which follows from its output."""
        counter = self.counter
        if not self._is_counted:
            return self._backward(inputs, output, gradient, config)
        first = output[0] if isinstance(output, list) else output
        owner = counter.position.owner_of(first.grad_fn) if first.grad_fn is not None else None
        _, micro_batch, chunk = owner or ("", -1, 0)
        counter.position.begin(Pass.BACKWARD, micro_batch, chunk)
        counter.recorder.consumed(gradient)
        result = self._backward(inputs, output, gradient, config)
        counter.recorder.produced(result)
        counter.recorder.flush()
        counter.position.in_flight -= 1
        counter.position.begin(Pass.BACKWARD)
        return result

    def finalize(self, *args: Any, **kwargs: Any) -> Any:
        """Begin the update."""
        if self._is_counted:
            self.counter.recorder.flush()
            self.counter.position.begin(Pass.UPDATE)
            self.counter.storages.begin_part(UPDATE, len(self.counter.recorder.events))
        return self._finalize(*args, **kwargs)

    def _between_stages(self, original: Any) -> Any:
        """Note the direction of what the stages send."""

        def communicate(**tensors: Any) -> Any:
            if self._is_counted:
                named = {name: each for name, each in tensors.items() if name[:7] == "tensor_"}
                self.counter.recorder.send_and_receive(**named)
            return original(**tensors)

        return communicate

    def _in_batch(self, original: Any) -> Any:
        """Number the sends and receives that are started together."""

        def start(operations: Any) -> Any:
            self.counter.recorder.begin_batch()
            try:
                return original(operations)
            finally:
                self.counter.recorder.end_batch()

        return start

    def result(self, args: Namespace, options: CountOptions) -> RankCount:
        """Return the record."""
        counter, recorder = self.counter, self.counter.recorder
        passes, update = counter.storages.peak(PASSES), counter.storages.peak(UPDATE)
        peak = max(passes, update, key=lambda each: each.live)
        return RankCount(
            rank=args.rank,
            represents=1,
            tp_rank=mpu.get_tensor_model_parallel_rank(),
            cp_rank=mpu.get_context_parallel_rank(),
            dp_rank=mpu.get_data_parallel_rank(),
            pp_rank=mpu.get_pipeline_model_parallel_rank(),
            ep_rank=mpu.get_expert_model_parallel_rank(),
            micro_batches=int(self._batches()),
            parameters=self.parameters,
            at_peak=memory_of(peak),
            peak_event=peak.event,
            update_peak=update.live,
            largest=largest_of(peak),
            timeline=tuple(recorder.timeline),
            flops=dict(recorder.flops),
            groups=recorder.groups,
            places=recorder.places,
            events=tuple(recorder.events),
            imitated=tuple(sorted(counter.imitated)),
            assumed=_assumptions(counter, args, options),
            cpu_seconds=sum(os.times()[:2]),
            resident=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        )


def _assumptions(counter: StepCounter, args: Namespace, options: CountOptions) -> tuple[str, ...]:
    """Say what was assumed because no data was computed."""
    found = []
    if args.num_experts:
        found.append(
            "every expert receives the same number of tokens"
            if options.imbalance == 1
            else f"the experts of this rank receive {options.imbalance:g} times their even share"
        )
    if counter.assumed and options.is_fake:
        found.append("values that the host reads from the GPU: no flag is set, numbers are 1")
    return tuple(found)


def _states(model: Any, optimizer: Any) -> dict[str, list[torch.Tensor]]:
    """Return the tensors of weights, gradients and optimizer state."""
    weights = [parameter.data for chunk in model for parameter in chunk.parameters()]
    gradients, states = [], []
    for chunk in model:
        for buffer in [*chunk.buffers, *chunk.expert_parallel_buffers]:
            gradients.append(buffer.grad_data)
            if buffer.param_data is not None:
                weights.append(buffer.param_data)
    for one in getattr(optimizer, "chained_optimizers", [optimizer]):
        for group in one.optimizer.param_groups:
            states += [parameter.data for parameter in group["params"]]
        for state in one.optimizer.state.values():
            states += [each for each in state.values() if isinstance(each, torch.Tensor)]
        for name in SHARDS:
            for group in getattr(one, name, None) or ():
                states += [parameter.data for parameter in group if parameter is not None]
    # A weight that is not kept in another format is its own master copy.
    return {"optimizer": states, "weights": weights, "gradients": gradients}
