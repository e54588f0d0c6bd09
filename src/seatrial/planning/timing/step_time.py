# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Convert quantities and rates to seconds.

The arithmetic works on numbers and on arrays: the planner calls it with one workload, and the fit
calls it with thousands of rows, so both use the same model.
"""

from dataclasses import dataclass

from seatrial.planning.timing.breakdown import StepTime, TimePart
from seatrial.planning.timing.constants import TimingConstants
from seatrial.planning.timing.option_effects import (
    host_transfer_seconds,
    host_update_seconds,
    with_options,
)
from seatrial.planning.timing.quantities import (
    LayerQuantities,
    Pipeline,
    Quantities,
    Work,
    layer_quantities,
    step_quantities,
)
from seatrial.planning.timing.rates import Rates
from seatrial.planning.timing.traffic import StageCount, stage_counts
from seatrial.planning.workload import Hardware, Workload
from seatrial.spec.model import Architecture

SHARPNESS = 4
"""Exponent of the smooth maximum of two overlapping times; 1 would add them."""
NEVER_ZERO = 1e-12
"""A negligible time in seconds, which avoids a division by zero."""


@dataclass(slots=True)
class LayerTime:
    """Seconds per micro-batch in a layer, forward and backward."""

    compute: float
    """Products outside attention, norms, activations, and waiting for the host."""
    attention: float
    tensor: float
    context: float
    """Exchange of keys and values."""
    expert: float
    """Exchange of tokens with experts."""
    total: float


@dataclass(slots=True)
class Pieces:
    """Seconds per micro-batch in each piece of a stage."""

    dense: LayerTime
    moe: LayerTime
    """A layer with experts."""
    head: float
    """Logits and loss."""

    def stage(self, count: StageCount) -> float:
        """Return the seconds of a whole stage, without transfers between stages."""
        dense, moe, heads = count
        return dense * self.dense.total + moe * self.moe.total + heads * self.head


def longer(one: float, other: float) -> float:
    """Return the smooth maximum of two times that overlap."""
    total: float = (one**SHARPNESS + other**SHARPNESS) ** (1 / SHARPNESS)
    return total


def products(q: LayerQuantities, work: Work, peak: float, rates: Rates) -> float:
    """Return the seconds for products in the forward pass: arithmetic and memory traffic."""
    flops = work.flops + rates.waves * (work.rounded - work.flops)
    moved = work.elements / rates.matrix_memory + work.weights / rates.weight_memory
    return flops / (peak * rates.matrix) + q.element_bytes * moved / q.bandwidth


def pieces(q: LayerQuantities, rates: Rates) -> Pieces:
    """Return the seconds per micro-batch in each piece of a stage."""
    stream = q.bandwidth * rates.elementwise
    attention = q.attention_flops / (q.peak_attention * rates.attention) + q.score_bytes / stream
    tensor = (
        q.traffic.tensor.link / rates.tensor_link + q.traffic.tensor.network / rates.tensor_network
    )
    context = (q.traffic.context.link + q.traffic.context.network) / rates.context
    dense = q.passes * (products(q, q.dense, q.peak, rates) + q.elementwise_bytes / stream)
    latency = q.traffic.tensor_count * rates.tensor_latency
    host = q.passes * rates.launch
    moe_host = host * rates.moe_launch + q.passes * q.local_experts * rates.expert_launch
    experts = products(q, q.experts, q.peak, rates) / rates.expert_matrix
    moe = q.passes * (
        products(q, q.moe, q.peak, rates)
        + experts
        + q.moe_bytes / stream
        + q.routed_bytes / (q.bandwidth * rates.routing)
    )
    exchange = (
        q.traffic.exchange.link / rates.expert_link
        + q.traffic.exchange.network / rates.expert_network
    )
    exchange = exchange + q.traffic.exchange_count * rates.expert_latency
    return Pieces(
        dense=_layer(rates.layer, dense, attention, tensor, context, 0.0, host, latency),
        moe=_layer(
            rates.layer,
            moe,
            attention,
            q.traffic.moe_tensor * tensor,
            context,
            exchange,
            moe_host,
            q.traffic.moe_tensor * latency,
        ),
        head=3 * products(q, q.head, q.peak_attention, rates)
        + q.head_bytes / (q.bandwidth * rates.loss),
    )


def transfer_time(q: Pipeline, rates: Rates) -> float:
    """Return the seconds of a micro-batch's transfers between stages."""
    moved = (q.transfer.link + q.transfer.network) / rates.transfer
    shown = 1 - rates.transfer_overlap * q.interleaved
    return (moved + q.transfer_count * rates.transfer_latency) * shown


def _layer(
    factor: float,
    compute: float,
    attention: float,
    tensor: float,
    context: float,
    expert: float,
    host: float,
    latency: float,
) -> LayerTime:
    """Return the times of a layer, at least the time that the host needs to launch its kernels.

    Ranks also wait for each other at every collective.
    """
    work = compute + attention + tensor + context + expert
    slower = longer(work, host)
    return LayerTime(
        factor * (compute + slower - work),
        factor * attention,
        factor * (tensor + latency),
        factor * context,
        factor * expert,
        factor * (slower + latency),
    )


def slowest(q: Quantities, each: Pieces) -> StageCount:
    """Return the content of the slowest stage."""
    found, time = q.pipeline.first, each.stage(q.pipeline.first)
    for count in (q.pipeline.middle, q.pipeline.last):
        other = each.stage(count)
        # Both values may be arrays, so this is arithmetic instead of a branch.
        wins = (other > time) * 1.0
        found = (
            found[0] + wins * (count[0] - found[0]),
            found[1] + wins * (count[1] - found[1]),
            found[2] + wins * (count[2] - found[2]),
        )
        time = time + wins * (other - time)
    return found


def interleaved_bubble(plain: float, chunks: float) -> float:
    """Return the bubble of a schedule with chunks; `plain` is the bubble with one per stage."""
    return plain / chunks


def part_times(q: Quantities, each: Pieces, rates: Rates) -> dict[TimePart, float]:
    """Return the seconds of every part of a step."""
    dense, moe, heads = count = slowest(q, each)
    transfer = transfer_time(q.pipeline, rates)
    stage = each.stage(count) + transfer
    batches = q.pipeline.micro_batches
    whole = each.stage(q.pipeline.whole) + q.pipeline.pp_size * transfer
    network = rates.data_network / (1 + q.nodes / rates.data_nodes)
    gathered = q.gathered.link / rates.data_link + q.gathered.network / network
    reduced = q.gradients.link / rates.data_link + q.gradients.network / network
    returned = q.weights.link / rates.data_link + q.weights.network / network
    hidden = reduced * stage / (longer(reduced, stage) + NEVER_ZERO)
    exposed = reduced - rates.data_overlap * hidden + (1 - rates.gather_overlap) * returned
    return {
        TimePart.COMPUTE: batches
        * (dense * each.dense.compute + moe * each.moe.compute + heads * each.head),
        TimePart.ATTENTION: batches * (dense * each.dense.attention + moe * each.moe.attention),
        TimePart.TENSOR_PARALLEL: batches * (dense * each.dense.tensor + moe * each.moe.tensor),
        TimePart.CONTEXT_PARALLEL: batches * (dense * each.dense.context + moe * each.moe.context),
        TimePart.EXPERT_PARALLEL: batches * (moe * each.moe.expert),
        TimePart.PIPELINE_TRANSFER: batches * transfer,
        TimePart.BUBBLE: interleaved_bubble(whole - stage, q.pipeline.vp_size),
        TimePart.DATA_PARALLEL: batches * (longer(stage, gathered) - stage) + exposed,
        TimePart.OPTIMIZER: q.optimizer_bytes / (q.layer.bandwidth * rates.optimizer)
        + q.optimizer_flops / (q.layer.peak_attention * rates.matrix),
        TimePart.OTHER: rates.step,
    }


@dataclass(slots=True)
class LayerTimes:
    """The work of a layer and its times."""

    layer: LayerQuantities
    times: Pieces


class StepTimer:
    """The step times of one model on one kind of machine.

    A search estimates thousands of layouts that differ only in stages and model replicas. These
    share the times of their layers, which are computed once.
    """

    def __init__(self, model: Architecture, hardware: Hardware, constants: TimingConstants) -> None:
        """Start with an empty cache."""
        self._model = model
        self._hardware = hardware
        self._constants = constants
        self._layers: dict[tuple[object, ...], LayerTimes] = {}

    def step_time(self, workload: Workload) -> StepTime:
        """Return the predicted time of one optimizer step of a workload."""
        constants = self._constants
        rates, scale = with_options(constants.rates_for(workload), workload), constants.scale
        known = self.layer_times(workload, rates)
        counts = stage_counts(workload)
        sizes = step_quantities(workload, known.layer, counts)
        parts = part_times(sizes, known.times, rates)
        if workload.options is not None:
            computed = parts[TimePart.COMPUTE] + parts[TimePart.ATTENTION]
            parts[TimePart.OPTIMIZER] += host_update_seconds(workload, counts)
            parts[TimePart.OTHER] += longer(computed, host_transfer_seconds(workload)) - computed
        if scale != 1.0:
            parts = {part: scale * seconds for part, seconds in parts.items()}
        transfer = transfer_time(sizes.pipeline, rates)
        kinds = {counts.each[0], *counts.between, counts.each[-1]}
        each = {count: scale * (known.times.stage(count) + transfer) for count in kinds}
        return StepTime(
            parts=parts,
            stages=tuple(map(each.__getitem__, counts.each)),
            model_flops=sizes.model_flops,
            gpus=workload.layout.world_size,
            error=constants.error_for(workload),
        )

    def layer_times(self, workload: Workload, rates: Rates) -> LayerTimes:
        """Return the work and the times of a workload's layers."""
        if workload.model is not self._model or workload.hardware is not self._hardware:
            raise ValueError("the workload has a different model or different machines")
        layout = workload.layout
        key = (
            rates.layer,
            workload.precision,
            workload.recompute,
            workload.recompute_modules,
            workload.micro_batch_size,
            workload.sequence_length,
            workload.padded_vocab_size,
            layout.tp_size,
            layout.cp_size,
            layout.ep_size,
            layout.etp_size,
            workload.sequence_parallel,
            workload.flash_attention,
            workload.attention_weights,
            workload.attention_share,
            workload.moe_every,
            workload.options,
        )
        found = self._layers.get(key)
        if found is None:
            layer = layer_quantities(workload)
            found = self._layers[key] = LayerTimes(layer, pieces(layer, rates))
        return found


def step_time(workload: Workload, constants: TimingConstants) -> StepTime:
    """Return the predicted time of one optimizer step of a workload."""
    return StepTimer(workload.model, workload.hardware, constants).step_time(workload)
