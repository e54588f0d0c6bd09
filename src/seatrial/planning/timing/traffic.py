# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What model copies exchange once a step, and what fully sharded ones exchange per micro batch."""

from dataclasses import dataclass

from seatrial.planning.memory.formats import element_bytes
from seatrial.planning.timing.placement import Placement, Route
from seatrial.planning.workload import Workload
from seatrial.spec.model import Activation
from seatrial.spec.parallelism import Sharding

StageCount = tuple[float, float, float]
"""Dense layers, layers with experts, and heads (logits) of a stage."""


@dataclass(slots=True)
class RankParameters:
    """Parameters of one rank of the fullest stage."""

    dense: float
    """Of everything but experts."""
    expert: float


@dataclass(slots=True)
class StageCounts:
    """What all stages hold; most of them are alike."""

    each: tuple[StageCount, ...]
    """Every stage, in order."""
    between: tuple[StageCount, ...]
    """The stages between the first and the last, every kind once."""
    fullest: StageCount
    """The fullest of those; the first stage where there are none."""
    whole: StageCount


def stage_counts(workload: Workload) -> StageCounts:
    """What each stage holds."""
    moe = workload.model.moe
    every = workload.moe_every
    counts: list[StageCount] = []
    final = len(workload.stages) - 1
    for stage in workload.stages:
        layers = sum(map(len, stage.chunks))
        experts = 0
        if moe is not None:
            dense = moe.dense_layers
            experts = layers
            if dense or every > 1:
                experts = sum(n >= dense and n % every == every - 1 for n in stage.layers)
        counts.append((layers - experts, experts, 1.0 if stage.index == final else 0.0))
    between = tuple(dict.fromkeys(counts[1:-1]))
    return StageCounts(
        each=tuple(counts),
        between=between,
        # A layer with experts takes about as long as two others.
        fullest=max(between, default=counts[0], key=lambda count: count[0] + 2 * count[1]),
        whole=(sum(count[0] for count in counts), sum(count[1] for count in counts), 1.0),
    )


def rank_parameters(workload: Workload, counts: StageCounts) -> RankParameters:
    """Parameters of the fullest rank, without those that do not count (norms, biases)."""
    model, layout = workload.model, workload.layout
    tp, moe, hidden = layout.tp_size, model.moe, model.hidden_size
    matrices = 3 if model.activation is Activation.SWIGLU else 2
    queries = model.heads * model.head_dim
    attention = workload.attention_weights or hidden * 2 * (
        queries + model.kv_heads * model.head_dim
    )
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
    for index, (dense, experts, _) in enumerate(stages):
        own = dense * (attention + feed) + experts * (attention + shared)
        if index == 0:
            own += words
        if index == final and not (model.tied_embeddings and index == 0):
            own += words
        if own / tp + experts * routed > most_dense + most_expert:
            most_dense, most_expert = own / tp, experts * routed
    return RankParameters(most_dense, most_expert)


@dataclass(slots=True)
class StepTraffic:
    """What model copies exchange once a step."""

    gradients: Route
    """Gradients on their way to be summed; the backward pass may hide them."""
    weights: Route
    """Updated weights on their way back; the next forward pass may hide them."""


def per_step(workload: Workload, place: Placement, own: RankParameters) -> StepTraffic:
    """Gradients summed over model copies, and weights gathered from their optimizer shards."""
    traffic = StepTraffic(Route(), Route())
    if workload.sharding is Sharding.FSDP:
        return traffic
    layout = workload.layout
    copies = layout.dp_size * layout.cp_size
    _add_sum(traffic, workload, place, own.dense, copies, layout.tp_size)
    stride = layout.ep_size * layout.etp_size
    _add_sum(traffic, workload, place, own.expert, layout.edp_size, stride)
    if workload.model.tied_embeddings and layout.pp_size > 1:
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
    """Add what the sum of some parameters' gradients over `members` copies moves."""
    if members <= 1 or not parameters:
        return
    share = parameters * (members - 1) / members
    gradient = workload.gradient_bytes
    if workload.sharding is not Sharding.OPTIMIZER:
        traffic.gradients.add(place.ring(2 * gradient * share, members, stride))
        return
    shards = min(workload.shard_size or members, members)
    # Every shard needs the whole sum; where shards are several, it also goes between them.
    sums = 1 if shards == members else 2
    traffic.gradients.add(place.ring(sums * gradient * share, members, stride))
    moved = element_bytes(workload) * parameters * (shards - 1) / shards
    traffic.weights.add(place.ring(moved, shards, stride))


def per_micro_batch(workload: Workload, place: Placement, own: RankParameters) -> Route:
    """Weights gathered for forward and again for backward, gradients scattered."""
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


def updated_parameters(workload: Workload, own: RankParameters) -> float:
    """Parameters that one rank's optimizer updates."""
    if workload.sharding is Sharding.NONE:
        return own.dense + own.expert
    layout = workload.layout
    return own.dense / (layout.dp_size * layout.cp_size) + own.expert / layout.edp_size
