# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The widths of attention, and the share of a sequence that its windows leave.

Latent attention computes the keys and values of all heads before it scores them, so its core is
that of an attention with as many key/value heads as query heads, and with wider keys than values.
"""

from seatrial.spec.model import Architecture
from seatrial.spec.model_parts import LatentAttention


def core_width(model: Architecture) -> float:
    """Return the width of a head in core attention: the mean of its keys and its values."""
    latent = model.latent_attention
    if latent is None:
        return model.head_dim
    return (latent.qk_head_dim + latent.rope_head_dim + latent.value_head_dim) / 2


def key_value_width(model: Architecture) -> int:
    """Return the elements of a token's keys and values in core attention, over all heads."""
    return int(2 * model.kv_heads * core_width(model))


def projected_width(model: Architecture) -> int:
    """Return the elements of a token's queries, keys and values, over all heads."""
    latent = model.latent_attention
    query = model.head_dim if latent is None else latent.qk_head_dim + latent.rope_head_dim
    return model.heads * query + key_value_width(model)


def compressed_width(latent: LatentAttention) -> int:
    """Return the elements of a token's compressed vectors, before and after their norms."""
    return 2 * ((latent.q_rank or 0) + latent.kv_rank) + latent.rope_head_dim


def expanded_weights(model: Architecture, latent: LatentAttention) -> int:
    """Return the weights that turn compressed vectors into queries, keys and values.

    Without a query rank, the queries are projected from the hidden state at the same place.
    """
    queries = (latent.q_rank or model.hidden_size) * (latent.qk_head_dim + latent.rope_head_dim)
    keys_and_values = latent.kv_rank * (latent.qk_head_dim + latent.value_head_dim)
    return model.heads * (queries + keys_and_values)


def attended_share(model: Architecture, length: int) -> float:
    """Return the pairs of tokens inside windows, relative to full causal attention.

    This is the mean over the layers.
    """
    window = model.window
    if window is None or window.tokens >= length:
        return 1.0
    part = window.tokens / length
    full = model.layers // window.full_every if window.full_every else 0
    return (full + (model.layers - full) * part * (2 - part)) / model.layers
