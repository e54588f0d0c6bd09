# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds of counted operations, at the rates that were fitted for the planner's step time.

Products take the planner's time per operation on their stage, which includes the norms and
activations around them. Attention and the update take the planner's seconds, divided over the
events by counted work. The fitted rates of traffic contain the overlap of the fitted runs, which
the events show again where the engine communicates asynchronously.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from seatrial.engines.engine import TrafficKind
from seatrial.planning.counted import Communication, Compute, Group, Pass, RankCount
from seatrial.planning.timing.breakdown import TimePart
from seatrial.planning.timing.constants import TimingConstants
from seatrial.planning.timing.option_effects import with_options
from seatrial.planning.timing.placement import Placement, Route
from seatrial.planning.timing.quantities import LayerQuantities
from seatrial.planning.timing.rates import Rates
from seatrial.planning.timing.step_time import Pieces, StepTimer
from seatrial.planning.timing.traffic import StageCount, stage_counts
from seatrial.planning.workload import Workload
from seatrial.rehearsal.streams import POINT_TO_POINT

PRODUCTS, ATTENTION = "matrix_product", "attention"
"""Kinds of counted operations; the others are part of the products' cost."""


@dataclass(frozen=True, slots=True)
class StageRates:
    """Seconds per counted unit of work on one stage."""

    product: float
    """Seconds per operation of a product."""
    attention: float
    """Seconds per operation of attention."""
    update: float
    """Seconds per byte that the update reads or writes."""


class OperationCosts:
    """The seconds of each event of a workload's stages."""

    def __init__(
        self,
        workload: Workload,
        constants: TimingConstants,
        records: Iterable[RankCount],
        kinds: Mapping[str, TrafficKind],
    ) -> None:
        """Derive the rates; `kinds` says what each of the engine's process groups carries."""
        timer = StepTimer(workload.model, workload.hardware, constants)
        self.planned = timer.step_time(workload)
        """The planner's own estimate."""
        self._kinds = kinds
        self._rates = with_options(constants.rates_for(workload), workload)
        self._scale = constants.scale
        self._place = Placement(workload.layout, workload.hardware)
        self._nodes = max(0.0, workload.layout.world_size / self._place.domain - 1)
        known = timer.layer_times(workload, self._rates)
        counts = stage_counts(workload).each
        found = {record.pp_rank: record for record in records}
        most = max((record.parameters for record in found.values()), default=0) or 1
        update = self.planned.parts[TimePart.OPTIMIZER]
        self._stages = {
            stage: _stage_rates(
                record,
                counts[stage],
                known.times,
                known.layer,
                self._scale,
                update * record.parameters / most,
            )
            for stage, record in found.items()
        }

    @property
    def overhead(self) -> float:
        """Seconds of a step that no event explains."""
        return self.planned.parts[TimePart.OTHER]

    def kind(self, group: Group, event: Communication) -> TrafficKind:
        """Return what a communication carries."""
        kind = self._kinds.get(group.name, TrafficKind.OTHER)
        if kind is TrafficKind.OTHER and event.kind in POINT_TO_POINT:
            # Two stages send in one direction through the group of all ranks.
            return TrafficKind.PIPELINE
        return kind

    def seconds(self, record: RankCount, event: Compute | Communication) -> float:
        """Return the seconds of an event; setting up the engine takes none."""
        if event.during is Pass.SETUP:
            return 0.0
        if isinstance(event, Communication):
            return self._scale * self._traffic(record.groups[event.group], event)
        rates = self._stages[record.pp_rank]
        if event.during is Pass.UPDATE:
            return rates.update * event.moved
        products, attention = event.flops.get(PRODUCTS, 0), event.flops.get(ATTENTION, 0)
        return rates.product * products + rates.attention * attention

    def _traffic(self, group: Group, event: Communication) -> float:
        kind, rates = self.kind(group, event), self._rates
        route = self._route(group, event, kind)
        match kind:
            case TrafficKind.TENSOR:
                return rates.layer * _tensor(route, rates, event, len(group.ranks))
            case TrafficKind.CONTEXT:
                return rates.layer * (route.link + route.network) / rates.context
            case TrafficKind.EXPERTS:
                moved = route.link / rates.expert_link + route.network / rates.expert_network
                return rates.layer * (moved + rates.expert_latency)
            case TrafficKind.PIPELINE:
                return (route.link + route.network) / rates.transfer + rates.transfer_latency
        network = rates.data_network / (1 + self._nodes / rates.data_nodes)
        return route.link / rates.data_link + route.network / network

    def _route(self, group: Group, event: Communication, kind: TrafficKind) -> Route:
        """Return the seconds of a message at nominal rates."""
        members = len(group.ranks)
        stride = max(1, (group.ranks[-1] - group.ranks[0]) // max(1, members - 1))
        if event.kind == "all_to_all":
            return self._place.exchange(event.size, members, stride)
        if kind is TrafficKind.PIPELINE:
            layout = self._place.layout
            away = layout.world_size // layout.pp_size
            return self._place.neighbour(event.size, away, layout.pp_size)
        if event.kind in POINT_TO_POINT:
            return self._place.ring(event.size, members, stride)
        both_ways = 2 if event.kind == "all_reduce" else 1
        return self._place.ring(both_ways * event.size * (members - 1) / members, members, stride)


def _tensor(route: Route, rates: Rates, event: Communication, members: int) -> float:
    # The planner counts all-reduces: a gather or a scatter is half of one.
    hops = (members - 1) * (1.0 if event.kind == "all_reduce" else 0.5)
    moved = route.link / rates.tensor_link + route.network / rates.tensor_network
    return moved + hops * rates.tensor_latency


def _stage_rates(
    record: RankCount,
    count: StageCount,
    times: Pieces,
    layer: LayerQuantities,
    scale: float,
    update: float,
) -> StageRates:
    dense, moe, heads = count
    computing = dense * times.dense.compute + moe * times.moe.compute + heads * times.head
    attending = dense * times.dense.attention + moe * times.moe.attention
    planned = layer.passes * (
        dense * layer.dense.flops + moe * (layer.moe.flops + layer.experts.flops)
    )
    planned += 3 * heads * layer.head.flops
    passes = [
        event
        for event in record.events
        if isinstance(event, Compute) and event.during in (Pass.FORWARD, Pass.BACKWARD)
    ]
    attention = sum(event.flops.get(ATTENTION, 0) for event in passes) / record.micro_batches
    moved = sum(
        event.moved
        for event in record.events
        if isinstance(event, Compute) and event.during is Pass.UPDATE
    )
    return StageRates(
        product=scale * computing / planned if planned else 0.0,
        attention=scale * attending / attention if attention else 0.0,
        update=update / moved if moved else 0.0,
    )
