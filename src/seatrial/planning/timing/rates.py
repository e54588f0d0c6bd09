# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What hardware and software reach of what data sheets promise: the constants of the model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rates:
    """The constants, mostly as shares of a data sheet's figure; the defaults are starting points.

    Only `backtest/fit_step_time.py` uses the defaults: they are where the fit begins, and
    what a constant keeps on which the fitted rows say nothing.
    """

    layer: float = 1.0
    """Time of a layer over what the other rates say, where layers of its shape were measured."""
    matrix: float = 0.8
    """Share of the peak rate that a large matrix product reaches."""
    matrix_memory: float = 0.6
    """Share of the memory bandwidth at which products read and write their matrices."""
    weight_memory: float = 1.5
    """The same for their weights and the gradients of these; above 1 where compute hides it."""
    waves: float = 0.2
    """How much of the waste of unfilled waves shows: 0 none, 1 all."""
    attention: float = 0.5
    """Share of the bf16 peak rate that attention's products reach."""
    elementwise: float = 0.5
    """Share of the memory bandwidth that norms, activations and scores reach."""
    loss: float = 0.4
    """Share of the memory bandwidth at which the loss reads and writes logits."""
    launch: float = 2.0e-4
    """Seconds that the host needs to start the kernels of a dense layer, per forward pass."""
    moe_launch: float = 2.0
    """The same of a layer with experts, over that of a dense layer."""
    expert_launch: float = 1.0e-5
    """Seconds that the host needs for each further expert of a rank, per forward pass."""
    tensor_link: float = 0.7
    """Share of the link's rate that collectives inside layers reach."""
    tensor_network: float = 0.7
    """The same where they leave the domain."""
    tensor_latency: float = 1.0e-5
    """Seconds that each of them costs per further member, whatever its size."""
    context: float = 1.0
    """Share of the nominal rate at which keys and values go around, as far as it shows."""
    expert_matrix: float = 0.8
    """Rate of the experts' products over that of ordinary ones."""
    expert_link: float = 0.5
    """Share of the link's rate at which tokens reach experts."""
    expert_network: float = 0.5
    """The same where they leave the domain."""
    expert_latency: float = 5.0e-5
    """Seconds that each exchange costs whatever its size."""
    routing: float = 0.3
    """Share of the memory bandwidth that sorting tokens by expert reaches."""
    transfer: float = 0.5
    """Share of the nominal rate that transfers between stages reach."""
    transfer_latency: float = 5.0e-5
    """Seconds that each of them costs whatever its size."""
    transfer_overlap: float = 0.5
    """Share of them that compute hides where stages have several chunks."""
    data_link: float = 0.7
    """Share of the link's rate that gradients and weights reach between model copies."""
    data_network: float = 0.7
    """The same on the network."""
    data_nodes: float = 200.0
    """Further nodes at which the network carries half of that, because it is shared."""
    data_overlap: float = 0.5
    """Share of the gradients' traffic that one micro batch hides at best."""
    gather_overlap: float = 0.5
    """Share of the weights' way back that forward hides."""
    optimizer: float = 0.5
    """Share of the memory bandwidth that the update reaches."""
    step: float = 0.02
    """Seconds that every step costs beside."""
