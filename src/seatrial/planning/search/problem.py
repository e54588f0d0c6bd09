# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the search is asked: a model, machines, and the fields that a spec has fixed."""

from dataclasses import dataclass

from seatrial.planning.parameters import VOCAB_MULTIPLE, active_parameters, padded_vocab_size
from seatrial.planning.rank_layout import RankLayout
from seatrial.planning.search.candidate import Candidate
from seatrial.planning.workload import Hardware, Workload
from seatrial.spec.architecture import Architecture
from seatrial.spec.engine import EngineName
from seatrial.spec.parallelism import ParallelismSpec
from seatrial.spec.scalars import Auto
from seatrial.spec.training import Precision

STACKS = {EngineName.MEGATRON: "megatron-core", EngineName.LLM_FOUNDRY: "llm-foundry"}
"""The software under which the constants of an engine are filed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One question to the search; fields that are not `auto` are kept as they are."""

    model: Architecture
    """Every dimension of the model."""
    sequence_length: int
    """Tokens of one sequence."""
    world_size: int
    """All ranks."""
    per_node: int
    """Ranks of a node."""
    given: ParallelismSpec
    """The parallelism section: numbers are kept, `auto` is searched."""
    micro_batch_size: int | Auto
    """The micro batch, or `auto`."""
    global_batch_size: int | Auto
    """The global batch, or `auto`."""
    target_batch: int
    """The global batch that an `auto` should come near to."""
    precision: Precision
    """Number format of the matrix products."""
    engine: EngineName
    """The training engine."""
    hardware: Hardware | None
    """The GPUs and what joins them; nothing on a host without any."""
    hidden_dropout: bool = False
    """Whether there is dropout on the residual stream."""
    gradient_bytes: int = 4
    """Bytes of a gradient while it is accumulated."""
    narrow_weights: bool = False
    """Whether weights are kept only in the products' own 8 or 4 bits."""

    @property
    def output_layers(self) -> float:
        """How many layers cost as much as the logits, by their products."""
        model = self.model
        layer = active_parameters(model, 0) / model.layers
        attention = self.sequence_length * model.heads * model.head_dim
        return model.hidden_size * model.vocab_size / (layer + attention)

    def padded_vocab(self, tp_size: int) -> int:
        """The vocabulary as the engine pads it; LLM Foundry takes it as it is."""
        multiple = VOCAB_MULTIPLE if self.engine is EngineName.MEGATRON else 1
        return padded_vocab_size(self.model.vocab_size, tp_size, multiple)

    def workload(self, candidate: Candidate, hardware: Hardware) -> Workload:
        """A candidate as the models of memory and time take it."""
        layout = candidate.shape.layout
        return Workload(
            model=self.model,
            sequence_length=self.sequence_length,
            padded_vocab_size=self.padded_vocab(layout.tp_size),
            layout=layout,
            stages=candidate.shape.stages,
            sequence_parallel=candidate.shape.sequence_parallel,
            sharding=candidate.shape.sharding,
            recompute=candidate.recompute,
            micro_batch_size=candidate.micro_batch_size,
            micro_batches=_micro_batches(candidate, layout),
            precision=self.precision,
            hardware=hardware,
            stack=STACKS[self.engine],
            hidden_dropout=self.hidden_dropout,
            gradient_bytes=self.gradient_bytes,
            recompute_modules=frozenset(self.given.recompute_modules),
            narrow_weights=self.narrow_weights,
            # Fused attention kernels take half formats only.
            flash_attention=self.precision is not Precision.FP32,
        )


def _micro_batches(candidate: Candidate, layout: RankLayout) -> int:
    """Micro batches that each data-parallel rank processes per step."""
    return candidate.global_batch_size // (candidate.micro_batch_size * layout.dp_size)
