# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The matrix multiplications of a layer on one rank: operations, elements, and unfilled waves."""

from dataclasses import dataclass
from math import ceil

from seatrial.planning.workload import Workload
from seatrial.spec.model import Architecture
from seatrial.spec.model_parts import LatentAttention

TILE = 128
"""Edge of the output tile that one multiprocessor computes at a time."""
MULTIPROCESSORS = {"a100": 108, "a800": 108, "h100": 132, "h200": 132, "b300": 160, "gb300": 160}
"""Multiprocessors by prefix of the accelerator's name (vendors' architecture papers)."""
OTHER_MULTIPROCESSORS = 148
"""Multiprocessors of a B200 and of accelerators that are not listed."""


def multiprocessors(accelerator: str) -> int:
    """Return the number of output tiles that are computed in parallel."""
    return MULTIPROCESSORS.get(accelerator.split("-")[0], OTHER_MULTIPROCESSORS)


class Products:
    """Matrix multiplications in the forward pass, on one rank, for one micro-batch."""

    __slots__ = ("elements", "flops", "rounded", "weights")

    def __init__(self) -> None:
        self.flops = 0.0
        """Multiplications and additions."""
        self.rounded = 0.0
        """As `flops`, with outputs rounded up to whole waves; mean of the three passes."""
        self.elements = 0.0
        """Number of elements in inputs and outputs."""
        self.weights = 0.0
        """Number of elements in weights."""

    def add(self, rows: float, inner: float, columns: float, units: int, count: int = 1) -> None:
        """Add `count` products of a rows × inner matrix with an inner × columns matrix."""
        flops = 2.0 * rows * inner * columns * count
        self.flops += flops
        down, across, deep = ceil(rows / TILE), ceil(columns / TILE), ceil(inner / TILE)
        # The outputs are those of the forward pass, the input gradient and the weight gradient.
        wave = 2.0 * TILE * TILE * units
        forward = ceil(down * across * count / units) * wave * inner
        inputs = ceil(down * deep * count / units) * wave * columns
        weights = ceil(deep * across * count / units) * wave * rows
        self.rounded += (forward + inputs + weights) / 3
        self.elements += count * rows * (inner + columns)
        self.weights += count * inner * columns


@dataclass(slots=True)
class LayerProducts:
    """The products of a layer, by kind."""

    attention: Products
    """Query, key, value and output projections."""
    dense: Products
    """The feed-forward block of a dense layer."""
    shared: Products
    """The shared experts."""
    experts: Products
    """The routed experts on this rank."""


def layer_products(workload: Workload, tokens: float) -> LayerProducts:
    """Return the products of one layer for the tokens of a micro-batch on one rank."""
    model, layout = workload.model, workload.layout
    hidden, tp = model.hidden_size, layout.tp_size
    units = multiprocessors(workload.hardware.accelerator)
    gates = 2 if model.activation.gated else 1
    attention, dense, shared, experts = Products(), Products(), Products(), Products()
    if model.latent_attention is not None:
        split = tp if workload.sequence_parallel else 1
        _add_latent(attention, model, model.latent_attention, tokens, tp, split, units)
    else:
        queries = model.heads * model.head_dim
        width = queries + 2 * model.kv_heads * model.head_dim
        if workload.attention_weights:
            # Without its dimensions, latent attention is the same work in the usual shape.
            width = max(1, workload.attention_weights // hidden - queries)
        attention.add(tokens, hidden, width / tp, units)
        attention.add(tokens, queries / tp, hidden, units)
    moe = model.moe
    if moe is None or moe.dense_layers or workload.expert_interval > 1:
        dense.add(tokens, hidden, gates * model.ffn_hidden_size / tp, units)
        dense.add(tokens, model.ffn_hidden_size / tp, hidden, units)
    if moe is not None:
        local = max(1, moe.experts // layout.ep_size)
        inner = moe.expert_ffn_hidden_size / layout.etp_size
        rows = tokens / tp * moe.top_k * layout.etp_size / local
        experts.add(rows, hidden, gates * inner, units, local)
        experts.add(rows, inner, hidden, units, local)
        if moe.shared_expert_ffn_hidden_size:
            inner = moe.shared_expert_ffn_hidden_size / tp
            shared.add(tokens, hidden, gates * inner, units)
            shared.add(tokens, inner, hidden, units)
    return LayerProducts(attention, dense, shared, experts)


def _add_latent(
    products: Products,
    model: Architecture,
    latent: LatentAttention,
    tokens: float,
    tp: int,
    split: int,
    units: int,
) -> None:
    """Add the projections of latent attention.

    Every rank has the whole projections to the compressed vectors, for its part of the sequence.
    """
    hidden, heads = model.hidden_size, model.heads / tp
    query = latent.qk_head_dim + latent.rope_head_dim
    if latent.q_rank is not None:
        products.add(tokens / split, hidden, latent.q_rank, units)
    products.add(tokens, latent.q_rank or hidden, heads * query, units)
    products.add(tokens / split, hidden, latent.kv_rank + latent.rope_head_dim, units)
    values = latent.qk_head_dim + latent.value_head_dim
    products.add(tokens, latent.kv_rank, heads * values, units)
    products.add(tokens, heads * latent.value_head_dim, hidden, units)
