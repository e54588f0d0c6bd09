# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The constants of the time model: the fractions of data-sheet rates that are reached."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rates:
    """The constants, mostly as fractions of a data-sheet figure.

    Only `backtest/fit_step_time.py` uses the defaults. They are the initial values of the fit, and
    the values of constants that the fitted rows do not determine.
    """

    layer: float = 1.0
    """Measured over predicted time of a layer, if layers of its shape were measured."""
    matrix: float = 0.8
    """Fraction of the peak rate that a large matrix multiplication reaches."""
    matrix_memory: float = 0.6
    """Fraction of the memory bandwidth at which products read and write their matrices."""
    weight_memory: float = 1.5
    """As `matrix_memory`, for weights and their gradients; above 1 if compute hides the traffic."""
    waves: float = 0.2
    """Fraction of the time wasted by unfilled waves that is visible."""
    attention: float = 0.5
    """Fraction of the bf16 peak rate that attention's products reach."""
    elementwise: float = 0.5
    """Fraction of the memory bandwidth that norms, activations and scores reach."""
    loss: float = 0.4
    """Fraction of the memory bandwidth at which the loss reads and writes logits."""
    launch: float = 2.0e-4
    """Seconds that the host needs to start the kernels of a dense layer, per forward pass."""
    moe_launch: float = 2.0
    """Ratio of this time for a layer with experts to the time for a dense layer."""
    expert_launch: float = 1.0e-5
    """Seconds that the host needs for each additional expert on a rank, per forward pass."""
    tensor_link: float = 0.7
    """Fraction of the link's rate that collectives inside layers reach."""
    tensor_network: float = 0.7
    """As `tensor_link`, outside the domain."""
    tensor_latency: float = 1.0e-5
    """Seconds per collective and additional member, for any size."""
    context: float = 1.0
    """Fraction of the nominal rate that the exchange of keys and values reaches, after overlap."""
    expert_matrix: float = 0.8
    """Ratio of the rate of the experts' products to the rate of other products."""
    expert_link: float = 0.5
    """Fraction of the link's rate at which tokens reach experts."""
    expert_network: float = 0.5
    """As `expert_link`, outside the domain."""
    expert_latency: float = 5.0e-5
    """Seconds per exchange, for any size."""
    routing: float = 0.3
    """Fraction of the memory bandwidth that sorting tokens by expert reaches."""
    transfer: float = 0.5
    """Fraction of the nominal rate that transfers between stages reach."""
    transfer_latency: float = 5.0e-5
    """Seconds per transfer, for any size."""
    transfer_overlap: float = 0.5
    """Fraction of the transfers that compute hides if stages have several chunks."""
    data_link: float = 0.7
    """Fraction of the link's rate that gradients and weights reach between model replicas."""
    data_network: float = 0.7
    """As `data_link`, on the network."""
    data_nodes: float = 200.0
    """Number of additional nodes at which congestion halves that fraction."""
    data_overlap: float = 0.5
    """Maximum fraction of the gradient traffic that one micro-batch hides."""
    gather_overlap: float = 0.5
    """Fraction of the weight traffic that the forward pass hides."""
    optimizer: float = 0.5
    """Fraction of the memory bandwidth that the update reaches."""
    step: float = 0.02
    """Seconds of fixed overhead per step."""
