# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What layouts of a search share, kept while it prices them: times of layers, counts of stages.

A layer takes as long whatever the stages, the model copies and the number of micro batches are, and
these are what most layouts of a search differ in; those that differ in the rest share the stages.
"""

from dataclasses import dataclass

from seatrial.planning.timing.formula import Pieces, pieces
from seatrial.planning.timing.quantities import LayerQuantities, layer_quantities
from seatrial.planning.timing.rates import Rates
from seatrial.planning.timing.traffic import StageCounts, stage_counts
from seatrial.planning.workload import Workload

MOST = 4096
"""Layers, and sets of stages, that are kept; a search at 100,000 GPUs has some hundreds."""


@dataclass(slots=True)
class LayerTimes:
    """What a layer has to do, and how long it takes."""

    layer: LayerQuantities
    """What it has to compute and to move."""
    times: Pieces
    """How long it takes."""
    kept: tuple[object, object, object]
    """Model, machines and rates: while they are kept here, nothing else gets their identities."""


_KNOWN: dict[tuple[object, ...], LayerTimes] = {}
_COUNTS: dict[tuple[int, int, int], tuple[StageCounts, object, object]] = {}


def known_counts(workload: Workload) -> StageCounts:
    """What each stage of a workload holds, counted once for all layouts that share the stages."""
    key = (id(workload.stages), id(workload.model), workload.moe_every)
    found = _COUNTS.get(key)
    if found is None:
        if len(_COUNTS) >= MOST:
            _COUNTS.clear()
        found = _COUNTS[key] = (stage_counts(workload), workload.stages, workload.model)
    return found[0]


def layer_times(workload: Workload, rates: Rates) -> LayerTimes:
    """What the layers of a workload do and take, computed once for all layouts that share it."""
    layout = workload.layout
    # By identity: comparing models and rates field by field takes longer than computing anew.
    key = (
        id(workload.model),
        id(workload.hardware),
        id(rates),
        id(workload.precision),
        id(workload.recompute),
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
    )
    found = _KNOWN.get(key)
    if found is None:
        if len(_KNOWN) >= MOST:
            _KNOWN.clear()
        layer = layer_quantities(workload)
        kept = (workload.model, workload.hardware, rates)
        found = _KNOWN[key] = LayerTimes(layer, pieces(layer, rates), kept)
    return found
