# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One small model of each class."""

from seatrial.checkpoints.exchange.model import HubActivation, HubClass, HubModel

LLAMA = HubModel(
    kind=HubClass.LLAMA,
    layers=2,
    hidden_size=64,
    ffn_hidden_size=96,
    heads=4,
    kv_heads=2,
    head_dim=32,
    vocab_size=127,
    max_positions=128,
    norm_epsilon=1e-6,
    activation=HubActivation.SILU,
    biases=False,
    tied_embeddings=False,
    rope_theta=500000.0,
    rope_scaling=32.0,
)
GPT2 = HubModel(
    kind=HubClass.GPT2,
    layers=2,
    hidden_size=64,
    ffn_hidden_size=256,
    heads=4,
    kv_heads=4,
    head_dim=16,
    vocab_size=127,
    max_positions=64,
    norm_epsilon=1e-5,
    activation=HubActivation.GELU_TANH,
    biases=True,
    tied_embeddings=True,
)
MIXTRAL = HubModel(
    kind=HubClass.MIXTRAL,
    layers=2,
    hidden_size=64,
    ffn_hidden_size=96,
    heads=4,
    kv_heads=2,
    head_dim=16,
    vocab_size=127,
    max_positions=128,
    norm_epsilon=1e-5,
    activation=HubActivation.SILU,
    biases=False,
    tied_embeddings=False,
    rope_theta=1000000.0,
    experts=4,
    top_k=2,
    aux_loss_coefficient=0.02,
)
EVERY = (LLAMA, GPT2, MIXTRAL)
