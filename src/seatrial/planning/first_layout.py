# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A first layout for a new spec: legal, and by a rough count within memory.

This is what `seatrial init` writes down for a person to change. It counts weights, gradients and
optimizer state only (18 bytes a parameter, of which 12 are shared by the data-parallel ranks) and
leaves 40 % of the memory for activations and the rest; it knows nothing of time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from seatrial.catalog.models import ModelPreset
from seatrial.planning.machine_rules import state_bytes
from seatrial.planning.parameters import padded_vocab_size, rank_parameters
from seatrial.planning.rank_layout import RankLayout
from seatrial.planning.stages import Uneven, stage_sizes, stages_of
from seatrial.spec.architecture import Architecture
from seatrial.spec.parallelism import ParallelismSpec, Sharding

STATE_SHARE = 0.6
"""Share of the memory that weights, gradients and optimizer state may take."""
USUAL_BATCH = 1024
"""Sequences per step for a model whose authors published none."""


@dataclass(frozen=True, slots=True)
class FirstLayout:
    """A layout, its batch, and whether the rough count says that it fits."""

    layout: RankLayout
    """The parallel degrees."""
    first_stage_layers: int | None
    """Layers of the first stage when stages are uneven."""
    last_stage_layers: int | None
    """Layers of the last stage when stages are uneven."""
    global_batch_size: int
    """Sequences per step."""
    state_bytes: int
    """Weights, gradients and optimizer state of the fullest rank."""
    fits: bool
    """Whether the state leaves enough memory for the rest; true where memory is unknown."""


def first_layout(
    preset: ModelPreset, world_size: int, per_node: int, memory_bytes: int, *, divide: bool = True
) -> FirstLayout:
    """The least divided layout that fits the machines, or the nearest to it."""
    model = preset.architecture
    if not divide:
        alone = RankLayout(tp_size=1, cp_size=1, dp_size=world_size, pp_size=1)
        return _candidate(preset, alone, (None, None), memory_bytes, shared=True)
    candidates = [
        _candidate(preset, layout, ends, memory_bytes)
        for layout, ends in _legal(model, world_size, per_node)
    ]
    fitting = [candidate for candidate in candidates if candidate.fits]
    if fitting:
        return fitting[0]
    # Nothing fits: the most divided ones are about equal, and fewer stages mean less idling.
    return min(candidates, key=lambda c: (c.state_bytes >> 32, c.layout.pp_size))


def _candidate(
    preset: ModelPreset,
    layout: RankLayout,
    ends: tuple[int | None, int | None],
    memory: int,
    *,
    shared: bool = False,
) -> FirstLayout:
    """A layout with its batch and its rough memory; `shared` when weights are shared out too."""
    model = preset.architecture
    spec = ParallelismSpec(first_stage_layers=ends[0], last_stage_layers=ends[1])
    sizes = stage_sizes(model.layers, layout.pp_size, spec)
    if isinstance(sizes, Uneven):
        raise TypeError(sizes.reason)
    padded = padded_vocab_size(model.vocab_size, layout.tp_size)
    fullest = max(rank_parameters(model, padded, layout, s) for s in stages_of(sizes, 1))
    copies = layout.dp_size * layout.cp_size
    sharding = Sharding.FSDP if shared else Sharding.OPTIMIZER
    state = state_bytes(fullest, sharding, copies)
    step = layout.dp_size
    batch = max(1, round((preset.global_batch_size or USUAL_BATCH) / step)) * step
    fits = memory == 0 or state <= STATE_SHARE * memory
    return FirstLayout(layout, *ends, batch, state, fits)


def _legal(
    model: Architecture, world_size: int, per_node: int
) -> Iterator[tuple[RankLayout, tuple[int | None, int | None]]]:
    """Legal layouts, from the least to the most divided."""
    for tp, pp, ep in _degrees(model, world_size, per_node):
        heads = model.heads % tp == 0 and (model.kv_heads % tp == 0 or tp % model.kv_heads == 0)
        ends = _stage_ends(model.layers, pp)
        if not heads or ends is None or world_size % (tp * pp) or world_size % (ep * pp):
            continue
        yield RankLayout(tp, 1, world_size // (tp * pp), pp, ep_size=ep), ends


def _degrees(model: Architecture, world_size: int, per_node: int) -> list[tuple[int, int, int]]:
    """Degrees to try: tp within a node, pp and ep beyond it, the least divided first."""
    experts = model.moe.experts if model.moe else 1
    tps = [n for n in (1, 2, 4, 8) if per_node % n == 0 and model.ffn_hidden_size % n == 0]
    pps = [n for n in range(1, model.layers + 1) if world_size % n == 0]
    eps = [n for n in range(1, experts + 1) if experts % n == 0 and world_size % n == 0]
    degrees = [(tp, pp, ep) for pp in pps for tp in tps for ep in eps]
    return sorted(degrees, key=lambda d: (d[0] * d[1], d[1], -d[2]))


def _stage_ends(layers: int, pp: int) -> tuple[int | None, int | None] | None:
    """Sizes of the first and last stage: none when stages are equal, nothing when none go."""
    if layers % pp == 0:
        return (None, None)
    share = -(-layers // pp)
    ends = layers - share * (pp - 2)
    # Both ends also carry the embedding or the loss, so they get fewer layers.
    if pp < 3 or ends < 2 or ends % 2:
        return None
    return (ends // 2, ends // 2)
