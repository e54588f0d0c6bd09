# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Explain why a layout won: why others are slower, and which ones do not fit."""

from dataclasses import replace
from enum import Enum

from seatrial.planning.layout_rules import check_tensor_parallel, check_world
from seatrial.planning.memory.breakdown import Memory, MemoryFit
from seatrial.planning.search.candidates import Candidate, Lacking, Priced, SearchOutcome
from seatrial.planning.search.problem import SearchProblem
from seatrial.planning.search.space import Probe
from seatrial.planning.timing.breakdown import TimePart
from seatrial.spec.parallelism import Recompute, Sharding

ALSO = 0.5
"""A second cause is listed if it costs at least this fraction of the first."""
_WEIGHT = {Recompute.NONE: 0, Recompute.SELECTIVE: 1, Recompute.FULL: 2}


class SlowdownCause(Enum):
    """Why one layout is slower than another: as a loss, and as a gain."""

    COMPUTE = ("compute", "less compute")
    MATRICES = ("smaller matrices", "larger matrices")
    RECOMPUTE = ("recomputation", "less recomputation")
    UNEVEN = ("uneven stages", "more even stages")
    ATTENTION = ("attention", "less time in attention")
    TENSOR_PARALLEL = ("tp traffic", "less tp traffic")
    CONTEXT_PARALLEL = ("cp traffic", "less cp traffic")
    EXPERT_PARALLEL = ("ep traffic", "less ep traffic")
    PIPELINE_TRANSFER = ("transfers between stages", "fewer transfers between stages")
    BUBBLE = ("the pipeline bubble", "a smaller pipeline bubble")
    DATA_PARALLEL = ("dp traffic", "less dp traffic")
    OPTIMIZER = ("the optimizer", "a shorter optimizer step")
    OTHER = ("step overhead", "less step overhead")

    @property
    def lost(self) -> str:
        """As in `loses 9 % to ...`."""
        return self.value[0]

    @property
    def saved(self) -> str:
        """As in `gains 9 % from ...`."""
        return self.value[1]


_OF_A_STAGE = {
    TimePart.COMPUTE: SlowdownCause.COMPUTE,
    TimePart.ATTENTION: SlowdownCause.ATTENTION,
    TimePart.TENSOR_PARALLEL: SlowdownCause.TENSOR_PARALLEL,
    TimePart.CONTEXT_PARALLEL: SlowdownCause.CONTEXT_PARALLEL,
    TimePart.EXPERT_PARALLEL: SlowdownCause.EXPERT_PARALLEL,
}
_OF_THE_STEP = {
    TimePart.PIPELINE_TRANSFER: SlowdownCause.PIPELINE_TRANSFER,
    TimePart.BUBBLE: SlowdownCause.BUBBLE,
    TimePart.DATA_PARALLEL: SlowdownCause.DATA_PARALLEL,
    TimePart.OPTIMIZER: SlowdownCause.OPTIMIZER,
    TimePart.OTHER: SlowdownCause.OTHER,
}


def causes(slower: Priced, faster: Priced) -> list[SlowdownCause]:
    """Return the one or two causes that cost the slower layout the most time per token."""
    one, other = _spent(slower), _spent(faster)
    more = {cause: seconds - other[cause] for cause, seconds in one.items()}
    first, second = sorted(more, key=lambda cause: -more[cause])[:2]
    named = [first, second] if more[second] >= ALSO * more[first] > 0 else [first]
    return list(dict.fromkeys(_exactly(cause, slower, faster) for cause in named))


def _spent(priced: Priced) -> dict[SlowdownCause, float]:
    """Return the seconds per token by cause.

    The parts of a step are those of its slowest stage. The time by which this stage exceeds the
    mean counts as lost to uneven stages and is subtracted from the parts.
    """
    parts, stages = priced.time.parts, priced.time.stages
    inside = sum(parts.get(part, 0.0) for part in _OF_A_STAGE)
    uneven = priced.workload.micro_batches * (max(stages) - sum(stages) / len(stages))
    share = 1 - min(1.0, uneven / inside) if inside else 1.0
    spent = {cause: share * parts.get(part, 0.0) for part, cause in _OF_A_STAGE.items()}
    spent |= {cause: parts.get(part, 0.0) for part, cause in _OF_THE_STEP.items()}
    spent[SlowdownCause.UNEVEN] = min(uneven, inside)
    tokens = priced.workload.tokens_per_step
    return {cause: seconds / tokens for cause, seconds in spent.items()}


def _exactly(cause: SlowdownCause, slower: Priced, faster: Priced) -> SlowdownCause:
    """Refine compute and attention to recomputation or smaller matrices."""
    heavier = _WEIGHT[slower.candidate.recompute] > _WEIGHT[faster.candidate.recompute]
    if cause in (SlowdownCause.COMPUTE, SlowdownCause.ATTENTION) and heavier:
        return SlowdownCause.RECOMPUTE
    if cause is SlowdownCause.COMPUTE and _matrix(slower) < _matrix(faster):
        return SlowdownCause.MATRICES
    return cause


def _matrix(priced: Priced) -> float:
    """Return the relative size of the matrices in a product."""
    layout = priced.candidate.shape.layout
    cut = layout.tp_size * layout.cp_size
    # With a larger ep, an expert gets tokens from more ranks.
    gathered = layout.ep_size if priced.workload.model.moe is not None else 1
    return priced.candidate.micro_batch_size * gathered / cut


GIB = 1 << 30
RUNNERS_UP = 2
"""Number of layouts that are compared with the best."""
WITHIN_NOISE = 0.005
"""A relative difference in time that is not significant."""
TWICE = 2.0
"""From this ratio on, speeds are compared as factors instead of percentages."""
SHARED = {
    Sharding.NONE: "no sharding",
    Sharding.OPTIMIZER: "the distributed optimizer",
    Sharding.FSDP: "fsdp",
}
"""The sharding, inside a sentence."""


def named(candidate: Candidate) -> str:
    """Return a layout by its degrees: `tp 4 · pp 2 · dp 2`."""
    return candidate.shape.layout.words("tp", "pp", "cp", "ep", "dp", always=("tp",))


def why(chosen: Priced, outcome: SearchOutcome, problem: SearchProblem) -> list[str]:
    """Return why the next layouts are slower, which one does not fit, and which are invalid."""
    own = chosen.candidate.shape.degrees
    others = [found for found in outcome.ranked if found.candidate.shape.degrees != own]
    reasons = [loss(chosen, other) for other in others[:RUNNERS_UP]]
    shared = sharing(chosen, outcome)
    if shared:
        reasons.insert(0, shared)
    lacking = nearest_lacking(chosen, outcome)
    if lacking is not None:
        reasons.append(f"{named(lacking.candidate)} needs {_gib(lacking)} GiB")
    if len(reasons) <= RUNNERS_UP:
        reasons += broken_neighbours(chosen, problem)[:1]
    return reasons


def sharing(chosen: Priced, outcome: SearchOutcome) -> str:
    """Return why this sharding was chosen if memory decided it, else an empty string."""
    instead, own = outcome.instead, chosen.candidate.shape.sharding
    if instead is None or instead.candidate.shape.sharding is own:
        return ""
    other = f"{named(instead.candidate)} with {SHARED[instead.candidate.shape.sharding]}"
    if isinstance(instead, Lacking):
        return f"{SHARED[own]}, because {other} needs {room(instead.memory)}"
    fit = "certainly fits" if instead.memory.verdict is MemoryFit.FITS else "might fit"
    return f"{other} {fit} ({room(instead.memory)}) and {times(instead.rate / chosen.rate)}"


def times(ratio: float) -> str:
    """Return how much faster or slower a layout is: `is 4.3 times as fast`."""
    if abs(ratio - 1) < WITHIN_NOISE:
        return "is equally fast"
    if ratio >= TWICE:
        return f"is {ratio:.1f} times as fast"
    if ratio <= 1 / TWICE:
        return f"takes {1 / ratio:.1f} times as long"
    return f"is {percent(abs(ratio - 1))} {'faster' if ratio > 1 else 'slower'}"


def room(need: Memory) -> str:
    """Return the memory of the fullest stage: `37.1 ± 3 of 39.4 GiB`."""
    total = need.fullest.total
    bar = f"{total * need.error / GIB:.1f}"
    return f"{total / GIB:,.1f} ± {bar} of {(need.headroom + total) / GIB:,.1f} GiB"


def broken_neighbours(chosen: Priced, problem: SearchProblem) -> list[str]:
    """Return why twice the tp or twice the pp is not possible."""
    layout, found = chosen.candidate.shape.layout, []
    if not problem.limits.splits_model:
        return []
    for tp, pp in ((2 * layout.tp_size, layout.pp_size), (layout.tp_size, 2 * layout.pp_size)):
        divided = replace(layout, tp_size=tp, pp_size=pp)
        probe = Probe()
        if check_tensor_parallel(probe, problem.model, divided):
            check_world(probe, problem.world_size, problem.per_node, divided)
        name = f"tp {tp}" if tp > layout.tp_size else f"pp {pp}"
        domain = chosen.workload.hardware.link_domain_gpus
        if divided.model_size > problem.world_size:
            found.append(f"{name} needs {counted_gpus(divided.model_size)}")
        elif probe.findings:
            found.append(f"{name} is invalid: {probe.findings[0].rule.rstrip('.')}")
        elif tp > max(domain, problem.per_node):
            found.append(f"{name} exceeds the {counted_gpus(domain)} on NVLink")
    return found


def counted_gpus(number: int) -> str:
    """Return a number of GPUs: `1 GPU`, `8 GPUs`."""
    return f"{number:,} {'GPU' if number == 1 else 'GPUs'}"


def loss(chosen: Priced, other: Priced) -> str:
    """Return how much slower or faster a layout is than the chosen one, and why."""
    share = other.rate / chosen.rate - 1
    name = named(other.candidate)
    if abs(share) < WITHIN_NOISE:
        return f"{name} is equally fast"
    if share > 0:
        found = " and ".join(cause.saved for cause in causes(chosen, other))
        words = f"{name} gains {percent(share)} from {found}"
        across = other.sends_copies_across and not chosen.sends_copies_across
        return f"{words}, but its experts span nodes" if across else words
    found = " and ".join(cause.lost for cause in causes(other, chosen))
    return f"{name} loses {percent(-share)} to {found}"


def percent(share: float) -> str:
    """Return a share as a percentage: `9 %`."""
    return f"{100 * share:.0f} %"


def nearest_lacking(chosen: Priced, outcome: SearchOutcome) -> Lacking | None:
    """Return the less divided layout that exceeds the available memory the least."""
    layout = chosen.candidate.shape.layout
    for lacking in outcome.lacking:
        other = lacking.candidate.shape.layout
        if other.model_size < layout.model_size:
            return lacking
    return None


def _gib(lacking: Lacking) -> str:
    """Return the memory that a layout needs, in GiB."""
    return f"{lacking.memory.fullest.total / GIB:,.0f}"
