# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Weights, gradients and optimizer state on a rank: 18 bytes per parameter, sharded or not.

Muon keeps one moment instead of two for the parameters of the layers; the few in norms and biases,
which AdamW updates, are counted with them. Its data-parallel ranks share whole matrices
(`core/optimizer/layer_wise_optimizer.py` in megatron-core 0.19.2), so one rank has all states of
the largest matrix: the embeddings.

Products in 8 or 4 bits add narrow copies of the layers' weights.

Objects that a search creates thousands of times are named tuples, which take a third of the time
of a frozen dataclass.
"""

from typing import NamedTuple

from seatrial.planning.memory.constants import StackConstants
from seatrial.planning.memory.formats import element_bytes, layer_weight_bytes
from seatrial.planning.options import Options
from seatrial.planning.parameters import (
    ParameterSharding,
    embedding_copies,
    has_final_norm,
    input_parameters,
    layer_parameters,
    prediction_parameters,
)
from seatrial.planning.workload import Workload
from seatrial.spec.model import Norm
from seatrial.spec.model_parts import MixtureOfExperts
from seatrial.spec.parallelism import Sharding
from seatrial.spec.performance import MomentPrecision
from seatrial.spec.training import Precision

MOMENTS_BYTES = 8
"""Bytes per parameter for both Adam moments, in fp32."""
MOMENTUM_BYTES = 4
"""Bytes per parameter for Muon's momentum, in fp32."""
MASTER_BYTES = 4
"""Bytes per parameter for the fp32 copy that the optimizer updates, if weights have fewer bits."""


class ModelCounts(NamedTuple):
    """The parameter counts from which all stages of a workload are computed."""

    dense_layer: int
    """Parameters of a layer without experts, on one rank."""
    expert_layer: int
    """Parameters of a layer with experts, on one rank."""
    experts: int
    """Parameters of the routed experts in such a layer."""
    inputs: int
    """Parameters of the embeddings on the first stage."""
    outputs: int
    """Parameters of the output projection on the last stage."""
    final_norm: int
    """Parameters of the norm before the output."""
    joining: int
    """Parameters of multi-token prediction outside its layers: norms and projection of inputs."""


class Layers(NamedTuple):
    """The number of layers in a stage."""

    dense: int
    """Layers without experts."""
    expert: int


class States(NamedTuple):
    """Bytes of a rank's model state."""

    weights: int
    """Parameters in the format of the GEMMs."""
    gradients: int
    optimizer: int
    """Master weights and moments."""


def model_counts(workload: Workload) -> ModelCounts:
    """Return the parameter counts of a workload."""
    model, layout = workload.model, workload.layout
    tp = layout.tp_size
    shares = ParameterSharding(tp, layout.ep_size, layout.etp_size)
    dense = expert = layer_parameters(model, 0, shares)
    routed = 0
    if model.moe is not None:
        expert = layer_parameters(model, _expert_layer(model.moe), shares)
        routed = _routed_parameters(workload, expert)
    if workload.attention_weights:
        grouped = 2 * model.hidden_size * (model.heads + model.kv_heads) * model.head_dim
        other = (workload.attention_weights - grouped) // tp
        dense, expert = dense + other, expert + other
    words = workload.padded_vocab_size // tp * model.hidden_size
    norm = (2 if model.norm is Norm.LAYERNORM else 1) * model.hidden_size
    inputs = input_parameters(model, workload.padded_vocab_size, tp)
    joining = prediction_parameters(model, shares)
    joining -= model.mtp_layers * (expert if predicts_with_experts(workload) else dense)
    return ModelCounts(dense, expert, routed, inputs, words, norm, joining)


def _expert_layer(moe: MixtureOfExperts) -> int:
    """Return the index of the first layer with experts."""
    return moe.dense_layers + moe.layer_interval - 1


def predicts_with_experts(workload: Workload) -> bool:
    """Return True if the layers for multi-token prediction have experts, as the last layer has."""
    moe = workload.model.moe
    return moe is not None and moe.has_experts(workload.model.layers - 1)


def _routed_parameters(workload: Workload, expert_layer: int) -> int:
    """Return the parameters of a layer's routed experts.

    Only these change with ep, so they follow from the difference between two values of ep.
    """
    model, layout = workload.model, workload.layout
    moe = model.moe
    if moe is None:
        return 0
    held = moe.experts // layout.ep_size
    one = ParameterSharding(layout.tp_size, moe.experts, layout.etp_size)
    if held == 1:
        all_held = ParameterSharding(layout.tp_size, 1, layout.etp_size)
        more = layer_parameters(model, _expert_layer(moe), all_held) - expert_layer
        return more // max(1, moe.experts - 1)
    fewer = layer_parameters(model, _expert_layer(moe), one)
    return (expert_layer - fewer) * held // (held - 1)


def chunk_layers(workload: Workload, stage: int) -> list[Layers]:
    """Return the number of layers in each chunk of a stage, with and without experts.

    Layers for multi-token prediction are in the last chunk of the last stage, unless a custom
    layout puts them into the last chunk of a different stage.
    """
    found = _model_layers(workload, stage)
    more = workload.model.mtp_layers
    if more and workload.stages[stage].has_mtp(workload.layout.pp_size):
        dense, expert = found[-1]
        experts = predicts_with_experts(workload)
        found[-1] = Layers(dense + (0 if experts else more), expert + (more if experts else 0))
    return found


def _model_layers(workload: Workload, stage: int) -> list[Layers]:
    """Return the number of the model's own layers in each chunk of a stage."""
    chunks = workload.stages[stage].chunks
    moe = workload.model.moe
    if moe is None:
        if len(chunks) == 1:
            return [Layers(len(chunks[0]), 0)]
        return [Layers(len(chunk), 0) for chunk in chunks]
    leading, every = moe.dense_layers, workload.expert_interval
    if not leading and every == 1:
        return [Layers(0, len(chunk)) for chunk in chunks]
    experts = [
        sum(layer >= leading and (layer - leading + 1) % every == 0 for layer in chunk)
        for chunk in chunks
    ]
    return [Layers(len(own) - n, n) for own, n in zip(chunks, experts, strict=True)]


def stage_layers(workload: Workload, stage: int) -> Layers:
    """Return the number of layers in a stage, with and without experts."""
    return total_layers(chunk_layers(workload, stage))


def total_layers(chunks: list[Layers]) -> Layers:
    """Return the total number of layers in all chunks."""
    if len(chunks) == 1:
        return chunks[0]
    return Layers(sum([chunk[0] for chunk in chunks]), sum([chunk[1] for chunk in chunks]))


def stage_parameters(
    workload: Workload, counts: ModelCounts, layers: Layers, stage: int
) -> tuple[int, int]:
    """Return the parameters on one rank of a stage: outside and inside routed experts.

    The two add up to `planning.parameters.rank_parameters`.
    """
    routed = layers.expert * counts.experts
    rest = layers.dense * counts.dense_layer + layers.expert * counts.expert_layer - routed
    if stage == 0:
        rest += counts.inputs
    own, pp_size = workload.stages[stage], workload.layout.pp_size
    if has_final_norm(workload.model, pp_size, own):
        rest += counts.final_norm
    predicts = own.has_mtp(pp_size)
    if predicts:
        rest += counts.joining
    rest += counts.outputs * embedding_copies(
        workload.model, first=stage == 0, last=stage == pp_size - 1, predicts=predicts
    )
    return rest, routed


def states(
    workload: Workload,
    known: StackConstants,
    counts: ModelCounts,
    layers: Layers,
    rest: int,
    routed: int,
) -> States:
    """Return the bytes of weights, gradients and optimizer state on one rank."""
    layout, sharding = workload.layout, workload.sharding
    weight_bytes = element_bytes(workload)
    optimizer_bytes = MOMENTS_BYTES + MASTER_BYTES + known.shared_state_bytes
    if workload.precision is Precision.FP32:
        optimizer_bytes = MOMENTS_BYTES + known.shared_state_bytes
    if workload.options is not None:
        optimizer_bytes = _with_options(optimizer_bytes, workload.options)
    parameters = rest + routed
    weights = parameters * (weight_bytes + known.state_bytes)
    copies = layer_weight_bytes(workload)
    if copies:
        weights += _in_layers(counts, layers) * copies
    if sharding is Sharding.NONE:
        optimizer = parameters * optimizer_bytes
        if workload.muon_steps:
            optimizer -= _in_layers(counts, layers) * (MOMENTS_BYTES - MOMENTUM_BYTES)
        return States(int(weights), parameters * workload.gradient_bytes, int(optimizer))
    shared = rest / (layout.dp_size * layout.cp_size)
    if routed:
        shared += routed / max(1, layout.edp_size)
    if workload.muon_steps:
        optimizer = _layer_wise(workload, counts, layers, optimizer_bytes, shared)
        return States(int(weights), parameters * workload.gradient_bytes, int(optimizer))
    if sharding is not Sharding.FSDP:
        return States(
            int(weights), parameters * workload.gradient_bytes, int(shared * optimizer_bytes)
        )
    largest = max(counts.dense_layer, counts.expert_layer)
    # Two layers are gathered at a time: one computes while the next one is transferred.
    return States(
        int(shared * weight_bytes + GATHERED_LAYERS * largest * (weight_bytes + copies)),
        int((shared + largest) * workload.gradient_bytes),
        int(shared * optimizer_bytes),
    )


def _with_options(optimizer_bytes: float, options: Options) -> float:
    """Return the bytes per parameter on the GPU, with moments in bf16 or on the host."""
    if options.moments is MomentPrecision.BF16:
        optimizer_bytes -= MOMENTS_BYTES / 2
    return optimizer_bytes * (1 - options.optimizer_offload)


def _in_layers(counts: ModelCounts, layers: Layers) -> int:
    """Return the parameters in the layers of a stage."""
    return layers.dense * counts.dense_layer + layers.expert * counts.expert_layer


def _layer_wise(
    workload: Workload, counts: ModelCounts, layers: Layers, each: float, shared: float
) -> float:
    """Return the bytes of Muon's states on the fullest rank of a stage.

    `each` is the bytes per parameter with AdamW, `shared` is an even share of the parameters.
    """
    layout = workload.layout
    routed = layers.expert * counts.experts
    inside = (_in_layers(counts, layers) - routed) / (layout.dp_size * layout.cp_size)
    inside += routed / max(1, layout.edp_size)
    even = shared * each - inside * (MOMENTS_BYTES - MOMENTUM_BYTES)
    has_words = shared > inside
    return max(even, counts.outputs * each) if has_words else even


GATHERED_LAYERS = 2
"""Number of layers whose weights FSDP gathers at the same time."""
