# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Routing without data: every expert receives its share of the tokens.

The engine reads the sizes of the exchange from the GPU; they are computed here from the number of
tokens. Without dropped tokens, the number of selected tokens does not depend on the data.
"""

from typing import Any

import numpy
import torch
from megatron.core.transformer.moe.token_dispatcher import MoEAlltoAllTokenDispatcher

from seatrial.worker.megatron.full_size.counter import StepCounter


def route_evenly(counter: StepCounter, experts_per_token: int, imbalance: float) -> None:
    """Replace what depends on the routing.

    Args:
        counter: Answers operators whose output size depends on the routing.
        experts_per_token: The number of experts that each token is sent to.
        imbalance: How many times its even share this rank receives.
    """

    def select(func: Any, operands: tuple[Any, ...]) -> torch.Tensor:
        source, mask = operands[0], operands[-1]
        mask = mask[0] if isinstance(mask, list | tuple) else mask
        selected: torch.Tensor = source.new_empty(mask.shape[-1] * experts_per_token)
        return selected

    counter.select = select
    original = MoEAlltoAllTokenDispatcher.preprocess

    def preprocess(self: Any, routing_map: torch.Tensor) -> Any:
        original(self, routing_map)  # For its collective.
        each = routing_map.size(0) * self.config.moe_router_topk // self.num_experts
        own = int(each * imbalance)
        local, ep, tp = self.num_local_experts, self.ep_size, self.tp_size
        self.input_splits = [each * local] * ep
        self.output_splits = [own * local] * ep
        self.output_splits_tp = [own * local * ep] * tp
        self.num_global_tokens_per_local_expert = numpy.full((tp * ep, local), own)
        return self.num_global_tokens_per_local_expert.sum(axis=0)

    MoEAlltoAllTokenDispatcher.preprocess = preprocess
    MoEAlltoAllTokenDispatcher._maybe_dtoh_and_synchronize = (
        lambda self, point, tokens_per_expert=None: tokens_per_expert
    )
