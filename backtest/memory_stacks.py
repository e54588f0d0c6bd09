# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What each training stack keeps in memory by its own source code, and what of that is fitted.

Counts of bytes come from reading the code that ran; only what no code tells is fitted, with a
width for what reading can miss. Rows never choose what is fitted.
"""

from dataclasses import dataclass, replace

from backtest.memory_fit import Free
from backtest.memory_sources import FIRST_FLASH, FUSED_NORM, PLAIN_NORM
from seatrial.planning.memory.constants import StackConstants

GIB = float(1 << 30)
MIB = float(1 << 20)

TEXTBOOK = StackConstants(
    residual_bytes=8,
    gathered_bytes=0,
    dropout_bytes=2,
    attention_bytes=2,
    score_bytes=5,
    gelu_bytes=4,
    swiglu_bytes=6,
    input_bytes=2,
    working_layers=0.5,
    logit_bytes=6,
    whole_logit_bytes=0,
    state_bytes=0,
    shared_state_bytes=0,
    expert_imbalance=1.2,
    allocated_bytes=0,
    context_bytes=1.0 * GIB,
    communicator_bytes=0.1 * GIB,
    fragmentation=0.05,
    logit_fragmentation=0.05,
    error=0.1,
    expert_error=0.1,
)
"""arXiv 2205.05198, section 4: two norms' inputs and outputs 8, masks 2, attention 8, GELU 16."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A training stack as the back-test knows it."""

    name: str
    base: StackConstants
    free: tuple[Free, ...]
    source: str


MEGATRON_CORE = Stack(
    "megatron-core",
    # Logits in 16 bits (2) and their softmax in fp32, made in place (4).
    replace(TEXTBOOK, logit_bytes=6),
    (
        Free("attention_bytes", 2, 0.5),
        # cuBLAS workspaces (CUBLAS_WORKSPACE_CONFIG=:4096:8) and those of Transformer Engine.
        Free("allocated_bytes", 64 * MIB, 64 * MIB),
    ),
    "arXiv 2205.05198, section 4; NVIDIA/Megatron-LM@d98e8a6 "
    "megatron/core/tensor_parallel/cross_entropy.py",
)

NANOTRON = Stack(
    "nanotron",
    replace(
        TEXTBOOK,
        # The inputs of both norms; their outputs stay as they are gathered for the products.
        residual_bytes=4,
        gathered_bytes=4,
        dropout_bytes=0,
        # gate_up 4, SiLU 2, product 2.
        swiglu_bytes=8,
        # bf16 2, fp32 4, minus the maximum 4.
        logit_bytes=10,
        context_bytes=0,
        communicator_bytes=0,
    ),
    (Free("fragmentation", 0.1, 0.1), Free("logit_fragmentation", 0.1, 0.1)),
    "huggingface/nanotron@2411b022 src/nanotron/models/llama.py, "
    "src/nanotron/parallel/tensor_parallel/functional.py",
)

_DEEPSPEED = replace(
    TEXTBOOK,
    dropout_bytes=0,
    # bf16 or fp16 2, fp32 4, exponentials 4.
    logit_bytes=10,
    working_layers=1.5,
)
_DEEPSPEED_FREE = (
    # fp32 gradients of the shard, made for the step.
    Free("shared_state_bytes", 4, 2),
    Free("state_bytes", 0, 1),
    # Context, and buckets of 500 M elements for reducing and gathering.
    Free("context_bytes", 3 * GIB, 2 * GIB),
    Free("fragmentation", 0.1, 0.1),
    Free("working_layers", 1.5, 1.0),
)
DEEPSPEED_FP16 = Stack(
    "megatron-deepspeed-fp16",
    _DEEPSPEED,
    _DEEPSPEED_FREE,
    "bigscience-workshop/Megatron-DeepSpeed with DeepSpeed ZeRO-1, fp16",
)
DEEPSPEED_BF16 = Stack(
    "megatron-deepspeed-bf16",
    _DEEPSPEED,
    # BF16_Optimizer keeps bf16 gradients beside the fp32 ones.
    tuple(replace(one, start=2.0) if one.name == "state_bytes" else one for one in _DEEPSPEED_FREE),
    "bigscience-workshop/Megatron-DeepSpeed with DeepSpeed's BF16_Optimizer",
)

SCALING = Stack(
    FUSED_NORM,
    replace(
        TEXTBOOK,
        # Inputs of both norms; their outputs are gathered with sequence parallelism.
        residual_bytes=4,
        gathered_bytes=4,
        # Here: what the norms of plain torch operations keep more, in fp32.
        dropout_bytes=12,
        # Projections 6, rotated halves 4, rotated 4, output 2: 16 for four.
        attention_bytes=4,
        # Here: what flash-attention 1 keeps more.
        score_bytes=0.5,
        # dense 2, gate 2, SiLU 2, product 2.
        swiglu_bytes=8,
        # bf16 2, fp32 4, log-softmax 4, its gradient 4, that of the fp32 logits 4.
        logit_bytes=0,
        whole_logit_bytes=18,
        working_layers=1.5,
    ),
    (
        Free("residual_bytes", 4, 2),
        Free("dropout_bytes", 12, 4),
        Free("attention_bytes", 4, 1),
        Free("score_bytes", 0.5, 0.5),
        Free("swiglu_bytes", 8, 1),
        Free("whole_logit_bytes", 18, 4),
        Free("working_layers", 1.5, 1),
        Free("context_bytes", 1.5 * GIB, 1 * GIB),
        Free("fragmentation", 0.05, 0.05),
    ),
    "Aleph-Alpha/scaling@01b9d21 src/scaling/core and src/scaling/transformer/model",
)


def scaling_variants(fitted: StackConstants) -> dict[str, StackConstants]:
    """The constants of each set of kernels; none has dropout or keeps scores."""
    fused = replace(fitted, dropout_bytes=0.0, score_bytes=TEXTBOOK.score_bytes)
    plain = replace(fused, residual_bytes=fitted.residual_bytes + fitted.dropout_bytes)
    first = replace(plain, attention_bytes=fitted.attention_bytes + fitted.score_bytes)
    return {FUSED_NORM: fused, PLAIN_NORM: plain, FIRST_FLASH: first}
