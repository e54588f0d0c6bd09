# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Routing without data: every expert receives its share of the tokens.

The engine reads the sizes of the exchange from the GPU; they are computed here from the number of
tokens. Without dropped tokens, the number of selected tokens does not depend on the data.
"""

from typing import Any

import numpy
import torch
from megatron.core.transformer.moe.moe_utils import permute
from megatron.core.transformer.moe.token_dispatcher import (
    MoEAllGatherTokenDispatcher,
    MoEAlltoAllTokenDispatcher,
)

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
        self.output_splits_tp = numpy.full(tp, own * local * ep)
        self.num_global_tokens_per_local_expert = numpy.full((tp * ep, local), own)
        return self.num_global_tokens_per_local_expert.sum(axis=0)

    MoEAlltoAllTokenDispatcher.preprocess = preprocess
    MoEAlltoAllTokenDispatcher._maybe_dtoh_and_synchronize = (
        lambda self, point, tokens_per_expert=None: tokens_per_expert
    )
    _route_gathered(counter, experts_per_token, imbalance)


def _route_gathered(counter: StepCounter, experts_per_token: int, imbalance: float) -> None:
    """Do the same where every rank gathers all tokens and takes those of its own experts.

    Args:
        counter: Answers operators whose output size depends on the routing.
        experts_per_token: The number of experts that each token is sent to.
        imbalance: How many times its even share this rank receives.
    """

    def postprocess(self: Any, states: torch.Tensor, probs: torch.Tensor) -> Any:
        local, experts = self.num_local_experts, self.config.num_moe_experts
        own = int(states.shape[0] * experts_per_token // experts * imbalance)
        first = self.local_expert_indices[0]
        self.hidden_shape_before_permute = states.shape
        self.local_map = self.routing_map[:, first : first + local].contiguous()
        mine = probs[:, first : first + local].contiguous()
        permuted, _, self.reversed_local_input_permutation_mapping, _, _ = permute(
            states, self.local_map, num_out_tokens=own * local
        )
        usual, counter.select = (
            counter.select,
            lambda _, operands: operands[0].new_empty(own * local),
        )
        self.local_probs = mine.T.contiguous().masked_select(self.local_map.T.contiguous())
        counter.select = usual
        self.routing_map = None
        return permuted, numpy.full(local, own), self.local_probs

    MoEAllGatherTokenDispatcher.dispatch_postprocess = postprocess
