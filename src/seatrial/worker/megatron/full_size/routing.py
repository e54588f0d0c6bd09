# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Routing without data: every expert receives its share of the tokens.

The engine reads the sizes of the exchange from the GPU; they are computed here from the number of
tokens. Without dropped tokens, the number of selected tokens does not depend on the data.
"""

from dataclasses import dataclass
from typing import Any

import numpy
import torch
from megatron.core.transformer.moe.token_dispatcher import (
    MoEAllGatherTokenDispatcher,
    MoEAlltoAllTokenDispatcher,
)

from seatrial.worker.megatron.full_size.counter import StepCounter


@dataclass(frozen=True, slots=True)
class Routing:
    """How tokens are distributed over the experts."""

    experts: int
    """Number of experts of a layer."""
    experts_per_token: int
    imbalance: float
    """How many times its even share this rank receives, with the all-to-all dispatcher."""

    @property
    def assumption(self) -> str:
        """What the count assumes, in words."""
        if self.imbalance == 1:
            return "every expert receives the same number of tokens"
        return f"the experts of this rank receive {self.imbalance:g} times their even share"


def route(counter: StepCounter, routing: Routing) -> None:
    """Replace what depends on the routing: sizes of selections, and of the exchange."""

    def select(func: Any, operands: tuple[Any, ...]) -> torch.Tensor:
        """Return as many elements as a map of tokens to experts selects."""
        source, mask = operands[0], operands[-1]
        mask = mask[0] if isinstance(mask, list | tuple) else mask
        selected = mask.numel() * routing.experts_per_token // routing.experts
        result: torch.Tensor = source.new_empty(selected)
        return result

    counter.select = select
    _exchange_evenly(routing)
    _gather_evenly()


def _exchange_evenly(routing: Routing) -> None:
    """Set the sizes of the all-to-all, which the engine would read from the GPU."""
    original = MoEAlltoAllTokenDispatcher.preprocess

    def preprocess(self: Any, routing_map: torch.Tensor) -> Any:
        original(self, routing_map)  # For its collective.
        each = routing_map.size(0) * routing.experts_per_token // self.num_experts
        own = int(each * routing.imbalance)
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


def _gather_evenly() -> None:
    """Set the tokens of each local expert, which the engine would count."""
    original = MoEAllGatherTokenDispatcher.dispatch_postprocess

    def dispatch_postprocess(self: Any, hidden_states: torch.Tensor, probs: torch.Tensor) -> Any:
        permuted, _, local_probs = original(self, hidden_states, probs)
        each = permuted.size(0) // self.num_local_experts
        return permuted, numpy.full(self.num_local_experts, each), local_probs

    MoEAllGatherTokenDispatcher.dispatch_postprocess = dispatch_postprocess
