# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Why a layout won, in words: what the next ones lose and to what, and what others lack."""

from seatrial.planning.degrees import Degrees
from seatrial.planning.layout_rules import check_tensor_parallel, check_world
from seatrial.planning.search.candidate import Candidate
from seatrial.planning.search.outcome import Lacking, Outcome, Priced
from seatrial.planning.search.probe import Probe
from seatrial.planning.search.problem import Problem
from seatrial.planning.timing.parts import TimePart
from seatrial.spec.parallelism import Recompute

GIB = 1 << 30
RUNNERS_UP = 2
"""Layouts that are named beside the best."""
WITHIN_NOISE = 0.005
"""A difference in time that says nothing."""

_CAUSES = {
    TimePart.COMPUTE: "slower matrix products",
    TimePart.ATTENTION: "attention",
    TimePart.TENSOR_PARALLEL: "tp traffic",
    TimePart.CONTEXT_PARALLEL: "cp traffic",
    TimePart.EXPERT_PARALLEL: "ep traffic",
    TimePart.PIPELINE_TRANSFER: "transfers between stages",
    TimePart.BUBBLE: "the bubble",
    TimePart.DATA_PARALLEL: "dp traffic",
    TimePart.OPTIMIZER: "the optimizer",
    TimePart.OTHER: "overhead of the step",
}
_WEIGHT = {Recompute.NONE: 0, Recompute.SELECTIVE: 1, Recompute.FULL: 2}


def named(candidate: Candidate) -> str:
    """A layout by its degrees: `tp 4 · pp 2 · dp 2`."""
    layout = candidate.shape.layout
    sizes = {"tp": layout.tp_size, "pp": layout.pp_size, "cp": layout.cp_size}
    sizes |= {"ep": layout.ep_size, "dp": layout.dp_size}
    parts = [f"{name} {size:,}" for name, size in sizes.items() if size > 1 or name == "tp"]
    return " · ".join(parts)


def why(chosen: Priced, outcome: Outcome, problem: Problem) -> list[str]:
    """What each of the next layouts loses, what a less divided one lacks, what no layout may do."""
    own = chosen.candidate.shape.degrees
    others = [found for found in outcome.ranked if found.candidate.shape.degrees != own]
    said = [loss(chosen, other) for other in others[:RUNNERS_UP]]
    lacking = nearest_lacking(chosen, outcome)
    if lacking is not None:
        said.append(f"{named(lacking.candidate)} needs {_gib(lacking)} GiB")
    if len(said) <= RUNNERS_UP:
        said += broken_neighbours(chosen, problem)[:1]
    return said


def broken_neighbours(chosen: Priced, problem: Problem) -> list[str]:
    """The rules that the layouts break which divide once more, by tp or by pp."""
    layout, found = chosen.candidate.shape.layout, []
    for tp, pp in ((2 * layout.tp_size, layout.pp_size), (layout.tp_size, 2 * layout.pp_size)):
        degrees = Degrees(tp, pp, layout.cp_size, layout.ep_size, 1, layout.etp_size)
        probe = Probe()
        if check_tensor_parallel(probe, problem.model, degrees):
            check_world(probe, problem.world_size, problem.per_node, degrees)
        name = f"tp {tp}" if tp > layout.tp_size else f"pp {pp}"
        domain = chosen.workload.hardware.link_domain_gpus
        if probe.findings:
            found.append(f"{name} cannot be: {probe.findings[0].rule.rstrip('.')}")
        elif tp > max(domain, problem.per_node):
            found.append(f"{name} leaves the {domain} GPUs that NVLink joins")
    return found


def loss(chosen: Priced, other: Priced) -> str:
    """What another layout loses against the chosen one, or gains, and by which part."""
    share = other.rate / chosen.rate - 1
    name = named(other.candidate)
    if abs(share) < WITHIN_NOISE:
        return f"{name} is as fast"
    if share > 0:
        return f"{name} gains {percent(share)} by less of {cause(chosen, other)}"
    return f"{name} loses {percent(-share)} to {cause(other, chosen)}"


def percent(share: float) -> str:
    """A share as people write it: `9 %`."""
    return f"{100 * share:.0f} %"


def cause(slower: Priced, faster: Priced) -> str:
    """The part of the step that costs the slower layout most beside the faster, per token."""
    part = max(TimePart, key=lambda part: _per_token(slower, part) - _per_token(faster, part))
    heavier = _WEIGHT[slower.candidate.recompute] > _WEIGHT[faster.candidate.recompute]
    if part in (TimePart.COMPUTE, TimePart.ATTENTION) and heavier:
        return "recomputing"
    return _CAUSES[part]


def _per_token(priced: Priced, part: TimePart) -> float:
    """Seconds of a part per token of the step."""
    return priced.time.parts.get(part, 0.0) / priced.workload.tokens_per_step


def nearest_lacking(chosen: Priced, outcome: Outcome) -> Lacking | None:
    """The layout that lacks least memory among those that are divided less than the chosen one."""
    layout = chosen.candidate.shape.layout
    divided = layout.tp_size * layout.pp_size * layout.cp_size
    for lacking in outcome.lacking:
        other = lacking.candidate.shape.layout
        if other.tp_size * other.pp_size * other.cp_size < divided:
            return lacking
    return None


def _gib(lacking: Lacking) -> str:
    """The memory that a layout needs, in GiB."""
    return f"{lacking.memory.fullest.total / GIB:,.0f}"
