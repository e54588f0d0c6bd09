# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What memory and time of a step depend on: one layout of one model on one kind of machine.

The search makes thousands of them and the back-test makes one of each published row, so that what
is tested is what is used.
"""

from dataclasses import dataclass

from seatrial.planning.layout import Layout
from seatrial.planning.stages import Stage
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.training import Precision


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs and what joins them."""

    accelerator: str
    """Name of the GPU in the catalog."""
    memory_bytes: int
    """Device memory that a process sees."""
    peak_flops: float
    """Dense peak rate in the precision of the matrix products, FLOP/s."""
    peak_flops_bf16: float
    """Dense peak rate in bfloat16, for what stays in it (attention, logits), FLOP/s."""
    memory_bandwidth: float
    """Device memory bandwidth, bytes/s."""
    link_bandwidth: float
    """GPU-to-GPU link of one GPU, one direction, bytes/s."""
    link_domain_gpus: int
    """GPUs that reach each other over that link."""
    gpus_per_node: int
    network_bandwidth: float
    """A GPU's share of its node's network, one direction, bytes/s."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One layout of one model on one kind of machine."""

    model: Architecture
    """Every dimension of the model."""
    sequence_length: int
    """Tokens of one sequence."""
    padded_vocab_size: int
    """Vocabulary with the entries that make it divide evenly."""
    layout: Layout
    """The parallel degrees."""
    stages: tuple[Stage, ...]
    """Which layers each pipeline stage holds."""
    sequence_parallel: bool
    """Whether norms and dropout are split along the sequence."""
    sharding: Sharding
    """What data-parallel ranks share out."""
    recompute: Recompute
    """Activations that are computed again."""
    micro_batch_size: int
    """Sequences that one data-parallel rank processes at a time."""
    micro_batches: int
    """Micro batches that each data-parallel rank processes per step."""
    precision: Precision
    """Number format of the matrix products."""
    hardware: Hardware
    """The GPUs and what joins them."""
    stack: str
    """The software whose constants hold, such as `megatron-core`."""
    flash_attention: bool = True
    """Whether attention is computed without keeping its square of scores."""
    gradient_bytes: int = 4
    """Bytes of a gradient; Megatron accumulates in fp32, older fp16 runs kept 2."""
    hidden_dropout: bool = False
    """Whether there is dropout on the residual stream, whose masks are kept."""
    attention_weights: int = 0
    """Weights of a layer's attention where they are not those of grouped queries (MLA); 0: are."""
    attention_share: float = 1.0
    """Share of the whole sequence that a token attends to, mean of layers; less with windows."""
    shard_size: int = 0
    """Ranks that share out what `sharding` says, next to each other; 0: all model copies do."""
    moe_every: int = 1
    """Every how many layers one has experts, after the leading dense ones."""
    recompute_modules: frozenset[RecomputeModule] = frozenset()
    """What selective recomputing covers; empty: the attention's inner part."""
    narrow_weights: bool = False
    """Whether weights are kept only in the products' own 8 or 4 bits (`--fp8-param-gather`)."""

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one optimizer step."""
        samples = self.micro_batch_size * self.micro_batches * self.layout.dp_size
        return samples * self.sequence_length
