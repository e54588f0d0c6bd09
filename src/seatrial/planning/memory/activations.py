# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the forward pass keeps for the backward pass.

The tensors of a layer are those of arXiv 2205.05198, section 4; how many bytes of each a stack
keeps is in the constants. The number of micro batches in flight is that of Megatron's schedules
(`megatron/core/pipeline_parallel/schedules.py`).
"""

from typing import NamedTuple

from seatrial.planning.memory.constants import StackConstants
from seatrial.planning.workload import Workload
from seatrial.spec.architecture import Activation
from seatrial.spec.parallelism import Recompute


class LayerActivations(NamedTuple):
    """Bytes of one layer for one micro batch on one rank."""

    kept: float
    """Kept until the backward pass of a dense layer."""
    kept_expert: float
    """The same for a layer with experts; equal in a dense model."""
    working: float
    """Live on top while one layer is differentiated."""
    width: float
    """Bytes of the residual stream itself, in 16 bits."""


def layer_activations(workload: Workload, constants: StackConstants) -> LayerActivations:
    """What one layer keeps, and what it takes to differentiate it."""
    model, layout = workload.model, workload.layout
    tp = layout.tp_size
    tokens = workload.micro_batch_size * workload.sequence_length / layout.cp_size
    split = tp if workload.sequence_parallel else 1
    hidden = tokens * model.hidden_size / split
    attention, whole = _attention(workload, constants, tokens)
    masks = constants.dropout_bytes if workload.hidden_dropout else 0.0
    residual = hidden * (constants.residual_bytes + masks)
    residual += tokens * model.hidden_size * constants.gathered_bytes
    swiglu = model.activation is Activation.SWIGLU
    per_unit = constants.swiglu_bytes if swiglu else constants.gelu_bytes
    dense = residual + attention + tokens * model.ffn_hidden_size * per_unit / tp
    full = residual + whole + tokens * model.ffn_hidden_size * per_unit / tp
    expert = dense
    if model.moe is not None:
        experts = _experts(workload, constants, tokens / split, per_unit)
        shared = tokens * model.moe.shared_expert_ffn_hidden_size * per_unit / tp
        expert = residual + attention + shared + experts
        full = max(full, residual + whole + shared + experts)
    if workload.recompute is Recompute.FULL:
        dense = expert = hidden * constants.input_bytes
    return LayerActivations(dense, expert, full * constants.working_layers, 2 * hidden)


def _attention(workload: Workload, constants: StackConstants, tokens: float) -> tuple[float, float]:
    """What attention keeps, and what it holds while it is computed again."""
    model, tp = workload.model, workload.layout.tp_size
    heads = max(1.0, model.heads / tp)
    elements = (2 * model.heads + 2 * model.kv_heads) * model.head_dim / tp
    projections = tokens * elements * constants.attention_bytes
    if workload.flash_attention:
        # The logarithm of each row's sum, in fp32.
        projections += tokens * heads * 4
        return projections, projections
    scores = tokens * workload.sequence_length * heads * constants.score_bytes
    kept = projections if workload.recompute is Recompute.SELECTIVE else projections + scores
    return kept, projections + scores


def _experts(
    workload: Workload, constants: StackConstants, tokens: float, per_unit: float
) -> float:
    """What the routed experts keep: permuted inputs, inner activations, outputs to be weighted."""
    model, layout = workload.model, workload.layout
    moe = model.moe
    if moe is None:
        return 0.0
    routed = tokens * moe.top_k * constants.expert_imbalance
    inner = moe.expert_ffn_hidden_size * per_unit
    # With etp the tokens of its ranks are gathered, and each holds its share of the inner width.
    return routed * (layout.etp_size * 4 * model.hidden_size + inner)


def in_flight(workload: Workload, stage: int) -> float:
    """How many micro batches a stage keeps the activations of, at its peak.

    The plain schedule keeps one more than there are stages behind. The interleaved one counts
    chunks: 2 (p - i - 1) + (v - 1) p of the warm-up and the one that runs.
    """
    stages, chunks = workload.layout.pp_size, workload.layout.vp_size
    if stages == 1:
        return 1.0
    behind = stages - stage - 1
    if chunks == 1:
        return float(min(workload.micro_batches, behind + 1))
    warm_up = 2 * behind + (chunks - 1) * stages + 1
    return min(workload.micro_batches * chunks, warm_up) / chunks
