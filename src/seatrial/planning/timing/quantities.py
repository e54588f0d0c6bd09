# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The work and the traffic of a step, before any fitted constant is applied.

Everything here follows from the workload and data sheets. The volumes of collectives are from
arXiv 2104.04473 and 2205.05198: four all-reduces per layer, six with full recomputation.
"""

from dataclasses import dataclass

from seatrial.planning.attention import (
    attended_share,
    core_width,
    expanded_weights,
    key_value_width,
    projected_width,
)
from seatrial.planning.memory.formats import element_bytes
from seatrial.planning.parameters import attention_parameters
from seatrial.planning.timing.matrix_products import Products, layer_products
from seatrial.planning.timing.optimizer_update import update_bytes, update_flops
from seatrial.planning.timing.placement import Placement, Route
from seatrial.planning.timing.traffic import (
    StageCount,
    StageCounts,
    per_micro_batch,
    per_step,
    rank_parameters,
    stage_counts,
)
from seatrial.planning.workload import Workload
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Recompute, RecomputeModule
from seatrial.spec.training import Precision

LATENT_UP = 0.29
"""Fraction of up projections in the projections of latent attention if its dimensions are not
stated: 54.5 of 187 million weights in a DeepSeek V3 layer (arXiv 2412.19437, section 4.2)."""


@dataclass(slots=True)
class Recomputed:
    """The fractions of a layer's forward pass that are recomputed."""

    attention: float
    """Core attention."""
    exchange: float
    """The exchange of tokens with experts."""
    projections: float
    """The projections around attention, in addition to the pass that full recomputation adds."""
    feed: float
    """The feed-forward block of a layer without experts."""
    shared: float
    """The shared experts."""
    experts: float


def recomputed(workload: Workload) -> Recomputed:
    """Return the fractions that the layers of a workload recompute."""
    if workload.recompute is not Recompute.SELECTIVE:
        full = float(workload.recompute is Recompute.FULL)
        return Recomputed(full, full, 0.0, 0.0, 0.0, 0.0)
    modules = workload.recompute_modules or {RecomputeModule.CORE_ATTENTION}
    experts = RecomputeModule.MOE in modules
    return Recomputed(
        attention=float(RecomputeModule.CORE_ATTENTION in modules),
        exchange=float(experts),
        projections=_expanded(workload.model) * (RecomputeModule.MLA_UP_PROJ in modules),
        feed=float(RecomputeModule.MLP in modules),
        shared=float(experts or RecomputeModule.SHARED_EXPERTS in modules),
        experts=float(experts),
    )


def _expanded(model: Architecture) -> float:
    """Return the fraction of up projections in the projections of latent attention."""
    latent = model.latent_attention
    if latent is None:
        return LATENT_UP
    return expanded_weights(model, latent) / attention_parameters(model, 1)


FLASH_BACKWARD = 2.5
"""Ratio of the products of flash attention's backward to its forward pass (arXiv 2307.08691)."""
SOFTMAX_WIDTH = 43
"""Width of a head whose products take as long as its softmax. With this value, heads of 64 reach
four fifths of the rate of heads of 128 (arXiv 2407.08608, figure 5)."""
SCORE_TOUCHES = 6
"""Number of reads and writes of the scores per pass without fusion: mask, softmax, dropout."""
LOGIT_BYTES = 16
"""Bytes that the loss reads and writes per logit: four times in single precision."""
ROUTING_TOUCHES = 4
"""Number of reads and writes of tokens per pass, to sort them by expert and back."""
RESIDUAL_TOUCHES = 6
"""Number of reads and writes of the width per pass by norms, dropout and residuals."""


@dataclass(slots=True)
class Work:
    """Products of one kind for one layer and micro-batch, mean of all passes."""

    flops: float
    """Multiplications and additions."""
    rounded: float
    """As `flops`, in whole waves."""
    elements: float
    """Number of elements in inputs and outputs."""
    weights: float
    """Number of elements in weights."""


@dataclass(slots=True)
class LayerTraffic:
    """Traffic of a layer for one micro-batch, all passes."""

    tensor: Route
    """Collectives inside a layer."""
    tensor_count: float
    """Number of collectives, times the number of hops of each."""
    moe_tensor: float
    """Fraction of these collectives in a layer with experts: half if experts are not split."""
    context: Route
    """Exchange of keys and values."""
    exchange: Route
    """Exchange of tokens with experts."""
    exchange_count: float


@dataclass(slots=True)
class Pipeline:
    """The pipeline stages, and the micro-batches that pass through them."""

    first: StageCount
    """Content of the first stage."""
    middle: StageCount
    """Content of the fullest stage in between."""
    last: StageCount
    """Content of the last stage."""
    whole: StageCount
    """Content of all stages together."""
    pp_size: float
    """Pipeline stages."""
    vp_size: float
    """Chunks per stage."""
    micro_batches: float
    """Micro-batches per step."""
    transfer: Route
    """Activations to the next stage and gradients to the previous stage, for all chunks."""
    transfer_count: float
    interleaved: float
    """1 if stages have several chunks, so that compute hides transfers; otherwise 0."""


@dataclass(slots=True)
class LayerQuantities:
    """Work and traffic of one layer for one micro-batch.

    These do not depend on stages and model replicas: layouts that differ only in those share them.
    """

    peak: float
    """FLOP/s of matrix multiplications."""
    peak_attention: float
    """FLOP/s of attention and logits, which use at least 16 bits."""
    element_bytes: float
    """Bytes per element of activations and weights."""
    bandwidth: float
    """Bandwidth of device memory, bytes/s."""
    dense: Work
    """Products of a dense layer."""
    moe: Work
    """Products of a layer with experts, without the experts."""
    experts: Work
    """Products of the experts on a rank."""
    head: Work
    """Products of the logits."""
    head_bytes: float
    """Bytes of logits that the loss reads and writes."""
    passes: float
    """Cost of a layer in forward passes: 1 forward, 2 backward, and 1 for full recomputation."""
    attention_flops: float
    """Products of attention, all passes."""
    score_bytes: float
    """Bytes of scores that unfused attention reads and writes, all passes."""
    elementwise_bytes: float
    """Bytes that norms, activations and residuals of a dense layer move, forward pass."""
    moe_bytes: float
    """As `elementwise_bytes`, for a layer with experts."""
    routed_bytes: float
    """Bytes moved within a rank to sort tokens by expert and back, forward pass."""
    local_experts: float
    """Number of experts per layer on one rank."""
    traffic: LayerTraffic
    model_flops: StageCount
    """Products that the model needs for a dense layer, a layer with experts and the logits: one
    forward pass with causal attention, inside its windows."""


@dataclass(slots=True)
class Quantities:
    """Work and traffic of one step."""

    layer: LayerQuantities
    """Quantities for one layer and micro-batch."""
    pipeline: Pipeline
    gathered: Route
    """Weights and gradients of fully sharded layers, per micro-batch."""
    gradients: Route
    """Gradients between model replicas, per step."""
    weights: Route
    """Updated weights between model replicas, per step."""
    nodes: float
    """Number of domains beyond the first, which congest the network."""
    optimizer_bytes: float
    """Bytes that the update reads and writes, per step."""
    optimizer_flops: float
    """Products of the update, per step."""
    model_flops: float
    """Products per step over all GPUs, without recomputation, with causal attention."""


def quantities(workload: Workload) -> Quantities:
    """Return the work and the traffic of a step."""
    return step_quantities(workload, layer_quantities(workload), stage_counts(workload))


def layer_quantities(workload: Workload) -> LayerQuantities:
    """Return the work and the traffic of one layer for one micro-batch."""
    model, layout, hardware = workload.model, workload.layout, workload.hardware
    tp, hidden, sequence = layout.tp_size, model.hidden_size, workload.sequence_length
    tokens = workload.micro_batch_size * sequence / layout.cp_size
    products = layer_products(workload, tokens)
    attention, dense = products.attention, products.dense
    shared, experts = products.shared, products.experts
    width = core_width(model)
    square = 4.0 * tokens * sequence * model.heads * width / tp * workload.attention_share
    needed = square * attended_share(model, sequence)
    again = recomputed(workload)
    # Only a fused kernel skips the pairs of tokens outside a window.
    computed = needed if workload.flash_attention else square
    attention_flops, score_bytes = _attention(workload, again, computed, tokens)
    vocab = workload.padded_vocab_size / tp
    logits = 2.0 * tokens * hidden * vocab
    elementwise, moe_bytes = _elementwise(workload, tokens)
    element, single = element_bytes(workload), workload.precision is Precision.FP32
    sorted_width = model.moe.top_k * hidden if model.moe else 0
    routed = ROUTING_TOUCHES * element * tokens / tp * sorted_width
    return LayerQuantities(
        peak=hardware.peak_flops,
        peak_attention=hardware.peak_flops if single else hardware.peak_flops_bf16,
        element_bytes=element,
        bandwidth=hardware.memory_bandwidth,
        dense=_together(attention, again.projections, dense, again.feed),
        moe=_together(attention, again.projections, shared, again.shared),
        experts=_together(experts, again.experts, Products(), 0.0),
        head=Work(logits, logits, tokens * (hidden + vocab), hidden * vocab),
        head_bytes=LOGIT_BYTES * tokens * vocab,
        passes=4.0 if workload.recompute is Recompute.FULL else 3.0,
        attention_flops=attention_flops,
        score_bytes=score_bytes,
        elementwise_bytes=elementwise,
        moe_bytes=moe_bytes,
        routed_bytes=routed * (1 + again.experts / 3),
        local_experts=model.moe.experts / layout.ep_size if model.moe else 0.0,
        traffic=_layer_traffic(workload, again, tokens),
        model_flops=(
            attention.flops + dense.flops + needed / 2,
            attention.flops + shared.flops + experts.flops + needed / 2,
            logits,
        ),
    )


def step_quantities(workload: Workload, layer: LayerQuantities, counts: StageCounts) -> Quantities:
    """Return the work and the traffic of a step, computed from its layers and stages."""
    layout = workload.layout
    place = Placement(layout, workload.hardware)
    pipeline = _pipeline(workload, place, counts)
    own = rank_parameters(workload, counts)
    copies = per_step(workload, place, own)
    dense, moe, head = pipeline.whole
    forward = layer.model_flops[2] * head
    forward += dense * layer.model_flops[0] + moe * layer.model_flops[1]
    ranks = layout.world_size
    return Quantities(
        layer=layer,
        pipeline=pipeline,
        gathered=per_micro_batch(workload, place, own),
        gradients=copies.gradients,
        weights=copies.weights,
        nodes=max(0.0, ranks / place.domain - 1),
        optimizer_bytes=update_bytes(workload, own),
        optimizer_flops=update_flops(workload, counts),
        model_flops=3.0 * forward * (ranks // layout.pp_size) * workload.micro_batches,
    )


def _together(one: Products, again: float, other: Products, other_again: float) -> Work:
    """Return the sum of two kinds of products, including the recomputed fraction of each."""
    # The recomputed fraction of one pass is spread over the three passes.
    own, others = 1 + again / 3, 1 + other_again / 3
    return Work(
        own * one.flops + others * other.flops,
        own * one.rounded + others * other.rounded,
        own * one.elements + others * other.elements,
        own * one.weights + others * other.weights,
    )


def _layer_traffic(workload: Workload, again: Recomputed, tokens: float) -> LayerTraffic:
    """Return the traffic of a layer for one micro-batch."""
    model, layout = workload.model, workload.layout
    place = Placement(layout, workload.hardware)
    tp, moe, element = layout.tp_size, model.moe, element_bytes(workload)
    collectives = (6.0 if workload.recompute is Recompute.FULL else 4.0) if tp > 1 else 0.0
    ring = 2.0 * (tp - 1) / tp * tokens * model.hidden_size * element
    keys = element * tokens * key_value_width(model) / tp
    exchanges = 4.0 + 2.0 * again.exchange if moe is not None and layout.ep_size > 1 else 0.0
    routed = tokens / tp * (moe.top_k if moe is not None else 0) * model.hidden_size * element
    return LayerTraffic(
        tensor=place.ring(ring * collectives, tp, 1),
        tensor_count=collectives * (tp - 1),
        moe_tensor=1.0 if layout.etp_size > 1 else 0.5,
        context=place.ring(3.0 * (layout.cp_size - 1) * keys, layout.cp_size, tp),
        exchange=place.exchange(exchanges * routed, layout.ep_size, layout.etp_size),
        exchange_count=exchanges,
    )


def _pipeline(workload: Workload, place: Placement, counts: StageCounts) -> Pipeline:
    """Return the stages and the micro-batches that pass through them."""
    layout = workload.layout
    hops = 2.0 * layout.vp_size if layout.pp_size > 1 else 0.0
    tokens = workload.micro_batch_size * workload.sequence_length / layout.cp_size
    passed = tokens / layout.tp_size * workload.model.hidden_size * element_bytes(workload)
    stride = layout.tp_size * layout.cp_size * layout.dp_size
    return Pipeline(
        first=counts.each[0],
        middle=counts.fullest,
        last=counts.each[-1],
        whole=counts.whole,
        pp_size=layout.pp_size,
        vp_size=layout.vp_size,
        micro_batches=workload.micro_batches,
        transfer=place.neighbour(hops * passed, stride, layout.pp_size),
        transfer_count=hops,
        interleaved=1.0 if layout.vp_size > 1 else 0.0,
    )


def _attention(
    workload: Workload, again: Recomputed, square: float, tokens: float
) -> tuple[float, float]:
    """Return the products of attention in all passes, and the bytes of stored scores."""
    if workload.flash_attention:
        # A fused kernel skips the half of the square that the causal mask hides.
        softmax = 1 + SOFTMAX_WIDTH / core_width(workload.model)
        return square / 2 * softmax * (1 + FLASH_BACKWARD + again.attention), 0.0
    heads = workload.model.heads / workload.layout.tp_size
    scores = tokens * workload.sequence_length * heads
    passes = 3 + again.attention
    return square * passes, SCORE_TOUCHES * element_bytes(workload) * scores * passes


def _elementwise(workload: Workload, tokens: float) -> tuple[float, float]:
    """Return the bytes that elementwise operations move, without and with experts."""
    model, tp = workload.model, workload.layout.tp_size
    share = tp if workload.sequence_parallel else 1
    wide = 3 if model.activation.gated else 2
    inner = projected_width(model)
    element = element_bytes(workload)
    residual = element * tokens * (RESIDUAL_TOUCHES * model.hidden_size / share + inner / tp)
    dense = residual + element * tokens * wide * model.ffn_hidden_size / tp
    if model.moe is None:
        return dense, 0.0
    width = model.moe.expert_ffn_hidden_size * model.moe.top_k
    width += model.moe.shared_expert_ffn_hidden_size
    return dense, residual + element * tokens * wide * width / tp
