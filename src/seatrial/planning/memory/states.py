# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Weights, gradients and optimizer state of a rank: 18 bytes a parameter, shared or not."""

from dataclasses import dataclass

from seatrial.planning.memory.constants import StackConstants
from seatrial.planning.parameters import (
    Sharding as Shares,
)
from seatrial.planning.parameters import (
    input_parameters,
    layer_parameters,
)
from seatrial.planning.workload import Workload
from seatrial.spec.architecture import Norm
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Precision

MOMENTS_BYTES = 8
"""Both moments of Adam, in fp32."""
MASTER_BYTES = 4
"""The fp32 copy that the optimizer steps, where the weights themselves have fewer bits."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Parameters of one rank, told apart by who shares them."""

    dense: int
    """Shared out over tp; each dp and cp rank has a copy."""
    expert: int
    """Of routed experts, shared out over ep and etp."""
    largest_layer: int
    """Of the largest layer, which FSDP gathers."""


@dataclass(frozen=True, slots=True)
class ModelCounts:
    """What all stages of a workload are counted from, each layer kind counted once."""

    dense_layer: int
    """Parameters of a layer without experts, on one rank."""
    expert_layer: int
    """Parameters of a layer with experts, on one rank."""
    experts: int
    """Those of them that are routed experts."""
    inputs: int
    """Embeddings of the first stage."""
    outputs: int
    """Output projection of the last stage."""
    final_norm: int
    """Norm before the output."""


def model_counts(workload: Workload) -> ModelCounts:
    """The counts that every stage is made of."""
    model, layout = workload.model, workload.layout
    shares = Shares(layout.tp_size, layout.ep_size, layout.etp_size)
    dense = expert = layer_parameters(model, 0, shares)
    routed = 0
    if model.moe is not None:
        expert = layer_parameters(model, model.moe.dense_layers, shares)
        # The routed experts are what grows with ep_size 1: nothing else of the layer does.
        whole = Shares(layout.tp_size, 1, layout.etp_size)
        if layout.ep_size > 1:
            spread = layer_parameters(model, model.moe.dense_layers, whole) - expert
            routed = spread // (layout.ep_size - 1)
        else:
            fewer = Shares(layout.tp_size, model.moe.experts, layout.etp_size)
            one = layer_parameters(model, model.moe.dense_layers, fewer)
            routed = (expert - one) * model.moe.experts // max(1, model.moe.experts - 1)
        if not model.moe.dense_layers:
            dense = expert
    words = workload.padded_vocab_size // layout.tp_size * model.hidden_size
    norm = (2 if model.norm is Norm.LAYERNORM else 1) * model.hidden_size
    inputs = input_parameters(model, workload.padded_vocab_size, layout.tp_size)
    return ModelCounts(dense, expert, routed, inputs, words, norm)


def stage_counts(workload: Workload, counts: ModelCounts, stage: int) -> Counts:
    """The parameters that one rank of a stage holds, as `planning.parameters` counts them."""
    model = workload.model
    layers = sum(len(chunk) for chunk in workload.stages[stage].chunks)
    with_experts = layers - dense_layers(workload, stage)
    total = (layers - with_experts) * counts.dense_layer + with_experts * counts.expert_layer
    routed = with_experts * counts.experts
    first, last = stage == 0, stage == workload.layout.pp_size - 1
    if first:
        total += counts.inputs
    if last:
        total += counts.final_norm
        if not (model.tied_embeddings and first):
            total += counts.outputs
    return Counts(total - routed, routed, max(counts.dense_layer, counts.expert_layer))


def dense_layers(workload: Workload, stage: int) -> int:
    """How many layers of a stage have no experts."""
    chunks = workload.stages[stage].chunks
    moe = workload.model.moe
    if moe is None:
        return sum(len(chunk) for chunk in chunks)
    if not moe.dense_layers:
        return 0
    return sum(layer < moe.dense_layers for chunk in chunks for layer in chunk)


@dataclass(frozen=True, slots=True)
class States:
    """Bytes of a rank's model state."""

    weights: int
    """Parameters in the format of the matrix products."""
    gradients: int
    """Accumulated gradients."""
    optimizer: int
    """Master weights and moments."""


def states(workload: Workload, constants: StackConstants, counts: Counts) -> States:
    """The bytes of weights, gradients and optimizer state on one rank."""
    full_precision = workload.precision is Precision.FP32
    weight_bytes = 4 if full_precision else 2
    optimizer_bytes: float = MOMENTS_BYTES + (0 if full_precision else MASTER_BYTES)
    optimizer_bytes += constants.shared_state_bytes
    parameters = counts.dense + counts.expert
    layout = workload.layout
    copies = layout.dp_size * layout.cp_size
    extra = parameters * constants.state_bytes
    shared = counts.dense / copies + counts.expert / max(1, layout.edp_size)
    if workload.sharding is Sharding.FSDP:
        # Two layers are gathered at a time: one computes while the next arrives.
        gathered = 2 * counts.largest_layer
        return States(
            int((shared + gathered) * weight_bytes + extra),
            int((shared + counts.largest_layer) * workload.gradient_bytes),
            int(shared * optimizer_bytes),
        )
    held = shared if workload.sharding is Sharding.OPTIMIZER else float(parameters)
    return States(
        int(parameters * weight_bytes + extra),
        parameters * workload.gradient_bytes,
        int(held * optimizer_bytes),
    )
