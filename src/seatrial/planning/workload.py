# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The input of the memory and time models: one layout of one model on one kind of machine.

The search creates thousands of workloads, and the back-test creates one for each published row, so
both use the same models.
"""

from dataclasses import dataclass

from seatrial.planning.layout import Layout
from seatrial.planning.options import Options
from seatrial.planning.stages import Stage
from seatrial.spec.model import Architecture
from seatrial.spec.model_parts import LatentAttention
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.training import Precision


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs and their interconnect."""

    accelerator: str
    """Name of the GPU in the catalog."""
    memory_bytes: int
    """Device memory that a process can use."""
    peak_flops: float
    """Dense peak rate in the precision of the GEMMs, FLOP/s."""
    peak_flops_bf16: float
    """Dense peak rate in bfloat16, which attention and logits use, FLOP/s."""
    memory_bandwidth: float
    """Device memory bandwidth, bytes/s."""
    link_bandwidth: float
    """Link bandwidth of one GPU in one direction, bytes/s."""
    link_domain_gpus: int
    """Number of GPUs that the link connects."""
    gpus_per_node: int
    network_bandwidth: float
    """Network bandwidth of a node per GPU in one direction, bytes/s."""


PUBLISHED_LATENT = LatentAttention(
    kv_rank=512, q_rank=1536, qk_head_dim=128, rope_head_dim=64, value_head_dim=128
)
"""Latent attention of DeepSeek V3 and Kimi K2 (arXiv 2412.19437, section 4.2)."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One layout of one model on one kind of machine."""

    model: Architecture
    """Every dimension of the model."""
    sequence_length: int
    """Tokens per sequence."""
    padded_vocab_size: int
    """Vocabulary size with padding."""
    layout: Layout
    """The parallel degrees."""
    stages: tuple[Stage, ...]
    """The layers of each pipeline stage."""
    sequence_parallel: bool
    """True if norms and dropout are split along the sequence."""
    sharding: Sharding
    """Which state is sharded over the data-parallel ranks."""
    recompute: Recompute
    """Which activations are recomputed."""
    micro_batch_size: int
    """Sequences that one data-parallel rank processes at a time."""
    micro_batches: int
    """Micro-batches that each data-parallel rank processes per step."""
    precision: Precision
    """Number format of the GEMMs."""
    hardware: Hardware
    stack: str
    """The software that selects the constants, such as `megatron-core`."""
    flash_attention: bool = True
    """True if attention does not store its matrix of scores."""
    gradient_bytes: int = 4
    """Bytes per gradient element: Megatron accumulates in fp32; older fp16 runs used 2."""
    hidden_dropout: bool = False
    """True if there is dropout on the residual stream, whose masks are stored."""
    attention_weights: int = 0
    """Attention parameters per layer of a published run with latent attention that was fitted
    without its dimensions; otherwise 0."""
    attention_share: float = 1.0
    """Work of core attention in such a run, relative to that of the model's heads."""
    shard_size: int = 0
    """Number of adjacent ranks that shard the state; 0 for all model replicas."""
    moe_every: int = 1
    """Interval between layers with experts in such a run; others have it in their model."""
    recompute_modules: frozenset[RecomputeModule] = frozenset()
    """Modules that selective recomputation covers; if empty, core attention."""
    narrow_weights: bool = False
    """True if weights are stored only in the 8 or 4 bits of the products (`--fp8-param-gather`)."""
    muon_steps: int = 0
    """Newton-Schulz iterations of Muon, which updates the layers' matrices; 0 for AdamW alone."""
    options: Options | None = None
    """The performance options; None for those of the runs that were fitted."""

    @property
    def latent_attention(self) -> LatentAttention | None:
        """The dimensions of latent attention; None for grouped queries.

        A published run that states only `attention_weights` has those of DeepSeek V3.
        """
        return PUBLISHED_LATENT if self.attention_weights else self.model.latent_attention

    @property
    def expert_interval(self) -> int:
        """Interval between layers with experts, after the leading dense layers."""
        moe = self.model.moe
        return self.moe_every if moe is None else max(self.moe_every, moe.layer_interval)

    @property
    def tokens_per_step(self) -> int:
        """Tokens per optimizer step."""
        samples = self.micro_batch_size * self.micro_batches * self.layout.dp_size
        return samples * self.sequence_length
