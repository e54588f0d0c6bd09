# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The activations that the forward pass of a layer stores for the backward pass.

The tensors of a layer are those in arXiv 2205.05198, section 4. The constants are the bytes of each
tensor for a stack with 16-bit elements. In fp32, every element is twice as wide, except dropout
masks. Selective recomputation drops the tensors that its modules discard in megatron-core 0.19.2:
`core/transformer/transformer_layer.py` (layernorm, mlp), `moe/experts.py` (moe_act),
`moe/moe_layer.py` (moe, shared_experts), `multi_latent_attention.py` (mla_up_proj).

Without fused layers, a SwiGLU also stores both factors of its product, and routed experts store
its result before it is weighted (`mlp.py` and `moe/experts.py`). Rotary embeddings, dropout and
residuals store the same tensors as fused. The gradient of a weight then exists in 16 bits before it
is added to the accumulated one.
"""

from typing import NamedTuple

from seatrial.planning.attention import compressed_width
from seatrial.planning.memory.constants import StackConstants
from seatrial.planning.memory.formats import HALF_BYTES, element_bytes, narrow_format
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, RecomputeModule

MASK_BYTES = 1
"""Bytes per element of a dropout mask, part of the bytes that attention stores per score."""
NORMS = 2
"""Number of norms per layer, whose outputs are inputs of products."""


class LayerActivations(NamedTuple):
    """Bytes of one layer for one micro-batch on one rank."""

    kept: float
    """Stored until the backward pass of a dense layer."""
    kept_expert: float
    """Stored until the backward pass of a layer with experts; same as `kept` in a dense model."""
    working: float
    """Additional memory during the backward pass of one layer."""
    width: float
    """Bytes of the residual stream."""


class _Part(NamedTuple):
    """Bytes of one part of a layer."""

    kept: float
    """Bytes that are stored until the backward pass."""
    whole: float
    """Bytes that exist during the backward pass of the part."""


class _Sizes(NamedTuple):
    """The sizes from which every part is computed."""

    tokens: float
    """Tokens per micro-batch on one rank, before sequence parallelism."""
    hidden: float
    """Elements of the residual stream on one rank."""
    split: int
    """Ranks that split the residual stream."""
    element_bytes: float
    """Bytes per element that is not an input of a narrow product."""
    wider: float
    """Factor for the bytes in the constants, which are for 16 bits."""
    input_bytes: float
    """Bytes per stored element of a product's input."""
    per_unit: float
    """Bytes stored per token and unit of the feed-forward width."""
    again: frozenset[RecomputeModule]
    """The modules that are recomputed."""
    factors: float
    """The part of `per_unit` that only a SwiGLU without a fused kernel stores."""


def layer_activations(workload: Workload, constants: StackConstants) -> LayerActivations:
    """Return the bytes that one layer stores, and the bytes that its backward pass adds."""
    sizes = _sizes(workload, constants)
    attention = _attention(workload, constants, sizes)
    residual = _residual(workload, constants, sizes, experts=False)
    feed = _feed_forward(workload, sizes)
    dense = expert = residual.kept + attention.kept + feed.kept
    full = residual.whole + attention.whole + feed.whole
    if workload.model.moe is not None:
        residual = _residual(workload, constants, sizes, experts=True)
        feed = _experts(workload, constants, sizes)
        expert = residual.kept + attention.kept + feed.kept
        full = max(full, residual.whole + attention.whole + feed.whole)
    if workload.recompute is Recompute.FULL:
        dense = expert = sizes.hidden * constants.input_bytes * sizes.wider
    width = sizes.element_bytes * sizes.hidden
    working = full * constants.working_layers + _weight_gradient(workload)
    return LayerActivations(dense, expert, working, width)


def is_unfused(workload: Workload) -> bool:
    """Return True if the options switch the fused kernels of layers off."""
    return workload.options is not None and not workload.options.fused_layers


def _weight_gradient(workload: Workload) -> float:
    """Return the bytes of the largest gradient that waits to be added; 0 with fused layers."""
    if not is_unfused(workload):
        return 0.0
    model, layout, moe = workload.model, workload.layout, workload.model.moe
    columns = model.ffn_hidden_size / layout.tp_size
    if moe is not None:
        # The experts of a rank are one module.
        own = moe.experts / layout.ep_size * moe.expert_ffn_hidden_size / layout.etp_size
        columns = max(columns, own)
    gates = 2 if model.activation.gated else 1
    return element_bytes(workload) * model.hidden_size * columns * gates


def _sizes(workload: Workload, constants: StackConstants) -> _Sizes:
    """Return the sizes from which every part is computed."""
    model, layout = workload.model, workload.layout
    tokens = workload.micro_batch_size * workload.sequence_length / layout.cp_size
    split = layout.tp_size if workload.sequence_parallel else 1
    narrow = narrow_format(workload)
    element = element_bytes(workload)
    wider = element / HALF_BYTES
    input_bytes = narrow.input_bytes if narrow else element
    per_unit = constants.swiglu_bytes if model.activation.gated else constants.gelu_bytes
    again = workload.recompute_modules if workload.recompute is Recompute.SELECTIVE else frozenset()
    factors = 2 * element if is_unfused(workload) and model.activation.gated else 0.0
    return _Sizes(
        tokens,
        tokens * model.hidden_size / split,
        split,
        element,
        wider,
        input_bytes,
        # The input of the second product is one of the tensors around the activation.
        per_unit * wider - element + input_bytes + factors,
        again,
        factors,
    )


def _residual(
    workload: Workload, constants: StackConstants, sizes: _Sizes, *, experts: bool
) -> _Part:
    """Return the bytes of norms, their outputs, and dropout masks."""
    masks = constants.dropout_bytes if workload.hidden_dropout else 0.0
    whole = sizes.hidden * (constants.residual_bytes * sizes.wider + masks)
    gathered = sizes.tokens * workload.model.hidden_size * constants.gathered_bytes
    whole += gathered * sizes.wider
    # The router reads the output of the second norm, which therefore is not narrow.
    narrowed = NORMS - experts
    whole -= sizes.hidden * narrowed * (sizes.element_bytes - sizes.input_bytes)
    kept = whole
    if RecomputeModule.LAYERNORM in sizes.again:
        # A norm that is fused with the next product is not a separate module.
        latent = workload.latent_attention is not None
        kept -= sizes.hidden * (experts * sizes.element_bytes + latent * sizes.input_bytes)
    if RecomputeModule.MLP in sizes.again and not experts:
        kept -= sizes.hidden * sizes.input_bytes
    return _Part(kept, whole)


def _attention(workload: Workload, constants: StackConstants, sizes: _Sizes) -> _Part:
    """Return the bytes of attention."""
    model, tp, tokens = workload.model, workload.layout.tp_size, sizes.tokens
    heads = max(1.0, model.heads / tp)
    output = model.heads * model.head_dim / tp
    projected = (model.heads + 2 * model.kv_heads) * model.head_dim / tp
    latents = 0.0
    latent = workload.latent_attention
    if latent is not None:
        query = key = latent.qk_head_dim + latent.rope_head_dim
        output = model.heads * latent.value_head_dim / tp
        projected = model.heads * (query + key + latent.value_head_dim) / tp
        latents = compressed_width(latent) / sizes.split
    attention_bytes = constants.attention_bytes * sizes.wider
    whole = tokens * (projected + output) * attention_bytes
    whole += tokens * latents * sizes.element_bytes
    if sizes.input_bytes < HALF_BYTES:
        # The kernel stores its output in 16 bits, and the next product stores a narrow copy.
        whole += tokens * output * sizes.input_bytes
    kept = whole
    if RecomputeModule.MLA_UP_PROJ in sizes.again:
        kept -= tokens * projected * attention_bytes
    if workload.flash_attention:
        # The kernel stores the logarithm of each row's sum in fp32.
        sums = tokens * heads * 4
        return _Part(kept + sums, whole + sums)
    score_bytes = (constants.score_bytes - MASK_BYTES) * sizes.wider + MASK_BYTES
    scores = tokens * workload.sequence_length * heads * score_bytes
    modules = sizes.again or {RecomputeModule.CORE_ATTENTION}
    selective = workload.recompute is Recompute.SELECTIVE
    if not (selective and RecomputeModule.CORE_ATTENTION in modules):
        kept += scores
    return _Part(kept, whole + scores)


def _feed_forward(workload: Workload, sizes: _Sizes) -> _Part:
    """Return the bytes of the feed-forward block of a layer without experts."""
    whole = sizes.tokens * workload.model.ffn_hidden_size * sizes.per_unit / workload.layout.tp_size
    return _Part(0.0 if RecomputeModule.MLP in sizes.again else whole, whole)


def _experts(workload: Workload, constants: StackConstants, sizes: _Sizes) -> _Part:
    """Return the bytes of experts: permuted inputs and weighted inner activations."""
    model, layout = workload.model, workload.layout
    moe = model.moe
    if moe is None:
        return _Part(0.0, 0.0)
    routed = sizes.tokens / sizes.split * moe.top_k * constants.expert_imbalance
    inner = routed * moe.expert_ffn_hidden_size
    # With etp, the tokens of its ranks are gathered, and each rank has a part of the inner width.
    routed_bytes = routed * layout.etp_size * sizes.input_bytes * model.hidden_size
    # A separate operation applies the router's weights and stores its input. Only a fused kernel
    # for a gated activation applies them itself.
    weighs = model.activation.gated and not is_unfused(workload)
    activated = 0.0 if weighs else sizes.element_bytes
    routed_bytes += inner * (sizes.per_unit + activated)
    shared = sizes.tokens * moe.shared_expert_ffn_hidden_size * sizes.per_unit / layout.tp_size
    if moe.shared_expert_ffn_hidden_size and sizes.input_bytes < HALF_BYTES:
        shared += sizes.hidden * sizes.input_bytes
    whole = routed_bytes + shared
    if RecomputeModule.MOE in sizes.again:
        return _Part(0.0, whole)
    kept = whole
    if RecomputeModule.MOE_ACT in sizes.again:
        kept -= inner * (sizes.input_bytes + activated + sizes.factors)
    if RecomputeModule.SHARED_EXPERTS in sizes.again:
        kept -= shared
    return _Part(kept, whole)
