# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The work of the optimizer on one rank.

AdamW only reads and writes. Muon makes the update of each matrix orthogonal: every Newton-Schulz
iteration multiplies an m x n matrix, m at most n, three times (m m n, m m m and m m n operations).
No published run measures it, so its time has no error of its own.
"""

from seatrial.planning.timing.traffic import RankParameters, StageCounts
from seatrial.planning.workload import Workload
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Sharding

ADAM_BYTES = 34
"""Bytes per parameter for Adam: it reads gradient, master weight and two moments, and writes the
last three and the weight."""
MUON_BYTES = 26
"""The same for Muon, which has one moment."""

Matrix = tuple[float, float]


def update_bytes(workload: Workload, own: RankParameters) -> float:
    """Return the bytes that the update reads and writes."""
    each = MUON_BYTES if workload.muon_steps else ADAM_BYTES
    return each * updated_parameters(workload, own)


def updated_parameters(workload: Workload, own: RankParameters) -> float:
    """Return the parameters that the optimizer on one rank updates."""
    if workload.sharding is Sharding.NONE:
        return own.dense + own.expert
    layout = workload.layout
    return own.dense / (layout.dp_size * layout.cp_size) + own.expert / layout.edp_size


def update_flops(workload: Workload, counts: StageCounts) -> float:
    """Return the operations of Muon's iterations on a rank of the stage with the most layers."""
    if not workload.muon_steps:
        return 0.0
    model, layout = workload.model, workload.layout
    attention = _iteration(_attention(model))
    dense = attention + _iteration(_feed_forward(model, model.ffn_hidden_size))
    shared, routed = attention, 0.0
    if model.moe is not None:
        shared += _iteration(_feed_forward(model, model.moe.shared_expert_ffn_hidden_size))
        local = model.moe.experts / layout.ep_size
        expert = _iteration(_feed_forward(model, model.moe.expert_ffn_hidden_size))
        routed = local * expert / layout.etp_size
    split, expert_split = layout.tp_size, 1
    if workload.sharding is not Sharding.NONE:
        split *= layout.dp_size * layout.cp_size
        expert_split = max(1, layout.edp_size)
    most = max(
        (layers * dense + experts * shared) / split + experts * routed / expert_split
        for layers, experts, _ in counts.each
    )
    return workload.muon_steps * most


def _iteration(matrices: list[Matrix]) -> float:
    """Return the operations of one iteration over some matrices."""
    sizes = [(min(matrix), max(matrix)) for matrix in matrices]
    return sum(2 * m * m * (2 * n + m) for m, n in sizes)


def _feed_forward(model: Architecture, width: int) -> list[Matrix]:
    up = 2 * width if model.activation.gated else width
    return [(up, model.hidden_size), (width, model.hidden_size)]


def _attention(model: Architecture) -> list[Matrix]:
    """Return the projections; queries, keys and values count as separate matrices."""
    hidden, heads, latent = model.hidden_size, model.heads, model.latent_attention
    if latent is None:
        queries, keys = heads * model.head_dim, model.kv_heads * model.head_dim
        return [(queries, hidden), (keys, hidden), (keys, hidden), (hidden, queries)]
    query = heads * (latent.qk_head_dim + latent.rope_head_dim)
    found: list[Matrix] = [
        (latent.kv_rank + latent.rope_head_dim, hidden),
        (heads * (latent.qk_head_dim + latent.value_head_dim), latent.kv_rank),
        (hidden, heads * latent.value_head_dim),
        (query, latent.q_rank or hidden),
    ]
    return [*found, (latent.q_rank, hidden)] if latent.q_rank else found
