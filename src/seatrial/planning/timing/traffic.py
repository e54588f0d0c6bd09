# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Traffic between model replicas per step and, if fully sharded, per micro-batch."""

from dataclasses import dataclass

from seatrial.planning.memory.formats import element_bytes
from seatrial.planning.parameters import attention_parameters, embedding_copies
from seatrial.planning.timing.placement import Placement, Route
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Sharding

StageCount = tuple[float, float, float]
"""Number of dense layers, layers with experts, and heads (logits) in a stage.

A layer for multi-token prediction counts as a layer and a head."""


@dataclass(slots=True)
class RankParameters:
    """Parameters on one rank of the fullest stage."""

    dense: float
    """Parameters outside experts."""
    expert: float


@dataclass(slots=True)
class StageCounts:
    """The content of all stages, most of which are identical."""

    each: tuple[StageCount, ...]
    """Every stage, in order."""
    between: tuple[StageCount, ...]
    """The distinct stages between the first and the last."""
    fullest: StageCount
    """The fullest stage in `between`; the first stage if `between` is empty."""
    whole: StageCount


def stage_counts(workload: Workload) -> StageCounts:
    """Return the content of each stage."""
    model = workload.model
    moe, every = model.moe, workload.expert_interval
    counts: list[StageCount] = []
    final = len(workload.stages) - 1
    for stage in workload.stages:
        layers = sum(map(len, stage.chunks))
        experts = 0
        if moe is not None:
            dense = moe.dense_layers
            experts = layers
            if dense or every > 1:
                experts = sum(n >= dense and (n - dense) % every == every - 1 for n in stage.layers)
        # Multi-token prediction computes its logits on the last stage.
        heads = 1.0 + model.mtp_layers if stage.index == final else 0.0
        if stage.has_mtp(final + 1):
            heads += model.mtp_layers * _joined_share(workload)
            layers += model.mtp_layers
            if moe is not None and moe.has_experts(model.layers - 1):
                experts += model.mtp_layers
        counts.append((layers - experts, experts, heads))
    between = tuple(dict.fromkeys(counts[1:-1]))
    return StageCounts(
        each=tuple(counts),
        between=between,
        # A layer with experts takes about as long as two dense layers.
        fullest=max(between, default=counts[0], key=lambda count: count[0] + 2 * count[1]),
        whole=(
            sum(count[0] for count in counts),
            sum(count[1] for count in counts),
            sum(count[2] for count in counts),
        ),
    )


def _joined_share(workload: Workload) -> float:
    """Return the work of joining the inputs of multi-token prediction, relative to the logits.

    One projects a token to the vocabulary, the other projects twice the width to the width.
    """
    return 2 * workload.model.hidden_size / workload.padded_vocab_size


def rank_parameters(workload: Workload, counts: StageCounts) -> RankParameters:
    """Return the parameters on the fullest rank, without norms and biases."""
    model, layout = workload.model, workload.layout
    tp, moe, hidden = layout.tp_size, model.moe, model.hidden_size
    matrices = 3 if model.activation.gated else 2
    queries = model.heads * model.head_dim
    attention = workload.attention_weights or hidden * 2 * (
        queries + model.kv_heads * model.head_dim
    )
    if model.latent_attention is not None:
        # Ranks do not split the projections to the compressed vectors.
        attention = tp * attention_parameters(model, tp)
    feed = matrices * hidden * model.ffn_hidden_size
    shared, routed = 0, 0.0
    if moe is not None:
        shared = matrices * hidden * moe.shared_expert_ffn_hidden_size
        local = moe.experts / layout.ep_size / layout.etp_size
        routed = matrices * hidden * moe.expert_ffn_hidden_size * local
    words = workload.padded_vocab_size * hidden
    most_dense = most_expert = 0.0
    stages = (counts.each[0], *counts.between, counts.each[-1])[: len(counts.each)]
    final = len(stages) - 1
    for index, (dense, experts, heads) in enumerate(stages):
        own = dense * (attention + feed) + experts * (attention + shared)
        if index == 0:
            own += words
        last = index == final
        predicts = heads > (1 + model.mtp_layers if last else 0)
        own += words * embedding_copies(model, first=index == 0, last=last, predicts=predicts)
        own += 2 * hidden * hidden * model.mtp_layers * predicts
        if own / tp + experts * routed > most_dense + most_expert:
            most_dense, most_expert = own / tp, experts * routed
    return RankParameters(most_dense, most_expert)


@dataclass(slots=True)
class StepTraffic:
    """Traffic between model replicas per step."""

    gradients: Route
    """Reduction of gradients, which the backward pass may hide."""
    weights: Route
    """Gathering of updated weights, which the next forward pass may hide."""


def per_step(workload: Workload, place: Placement, own: RankParameters) -> StepTraffic:
    """Return the reduction of gradients and the gathering of weights between model replicas."""
    traffic = StepTraffic(Route(), Route())
    if workload.sharding is Sharding.FSDP:
        return traffic
    layout = workload.layout
    copies = layout.dp_size * layout.cp_size
    _add_sum(traffic, workload, place, own.dense, copies, layout.tp_size)
    stride = layout.ep_size * layout.etp_size
    _add_sum(traffic, workload, place, own.expert, layout.edp_size, stride)
    if layout.pp_size > 1 and (workload.model.tied_embeddings or workload.model.mtp_layers):
        words = workload.padded_vocab_size * workload.model.hidden_size / layout.tp_size
        moved = words * workload.gradient_bytes
        traffic.gradients.add(place.neighbour(moved, copies * layout.tp_size, layout.pp_size))
    return traffic


def _add_sum(
    traffic: StepTraffic,
    workload: Workload,
    place: Placement,
    parameters: float,
    members: int,
    stride: int,
) -> None:
    """Add the traffic to reduce the gradients of some parameters over `members` replicas."""
    if members <= 1 or not parameters:
        return
    share = parameters * (members - 1) / members
    gradient = workload.gradient_bytes
    if workload.sharding is not Sharding.OPTIMIZER:
        traffic.gradients.add(place.ring(2 * gradient * share, members, stride))
        return
    shards = min(workload.shard_size or members, members)
    # With several groups of shards, gradients are also reduced between the groups.
    sums = 1 if shards == members else 2
    traffic.gradients.add(place.ring(sums * gradient * share, members, stride))
    moved = element_bytes(workload) * parameters * (shards - 1) / shards
    traffic.weights.add(place.ring(moved, shards, stride))


def per_micro_batch(workload: Workload, place: Placement, own: RankParameters) -> Route:
    """Return the traffic to gather weights twice and to scatter gradients."""
    if workload.sharding is not Sharding.FSDP:
        return Route()
    layout = workload.layout
    copies = layout.dp_size * layout.cp_size
    each = 2 * element_bytes(workload) + workload.gradient_bytes
    dense = place.ring(own.dense * each * (copies - 1) / copies, copies, layout.tp_size)
    members = layout.edp_size
    moved = own.expert * each * (members - 1) / members
    expert = place.ring(moved, members, layout.ep_size * layout.etp_size)
    return Route(dense.link + expert.link, dense.network + expert.network)
