# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The questions turned round: the fewest nodes for a model, the largest model for the nodes."""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import lcm

from seatrial.planning.memory.estimate import memory
from seatrial.planning.memory.parts import Fit
from seatrial.planning.parameters import total_parameters
from seatrial.planning.search.candidate import Candidate
from seatrial.planning.search.find import ANY_BATCH, recomputes, shardings
from seatrial.planning.search.problem import Problem
from seatrial.planning.search.space import batches, shapes
from seatrial.planning.workload import Hardware
from seatrial.spec.architecture import Architecture
from seatrial.spec.parallelism import Sharding
from seatrial.spec.scalars import AUTO

MOST_NODES = 1 << 14
"""Nodes beyond which nobody is told to buy more."""
FINEST = 64
"""Steps between a model and one of twice its width."""
SMALLEST, LARGEST = -3, 4
"""The models that are tried, as powers of two of the width."""
HEAD_MULTIPLE = 8
"""Heads of a scaled model are a multiple of this, so that tp within a node divides them."""
LAYER_MULTIPLE = 4
"""Layers of a scaled model are a multiple of this, so that pipeline stages divide them."""


def fits(problem: Problem, hardware: Hardware, tolerance: float = ANY_BATCH) -> Sharding | None:
    """What has to be shared out so that a legal layout fits for certain; nothing when none does.

    Layouts are tried in the form that needs least memory, with a batch so near to the target.
    """
    recompute = recomputes(problem)[-1]
    for options in shardings(problem):
        for sharding in options:
            for shape in shapes(problem, sharding):
                if shape.layout.vp_size > 1 and problem.given.vp_size == AUTO:
                    continue
                smallest = next(batches(problem, shape.layout, tolerance), None)
                if smallest is None:
                    continue
                candidate = Candidate(shape, *smallest, recompute)
                if memory(problem.workload(candidate, hardware)).verdict is Fit.FITS:
                    return sharding
    return None


def fewest_nodes(problem: Problem, hardware: Hardware, above: int = 0) -> int | None:
    """The fewest nodes above a number on which some layout fits; nothing when none does."""
    rounds = sorted(n << k for k in range(15) for n in (2, 3) if n << k <= MOST_NODES)
    sizes = [above + 1, *(size for size in rounds if size > above + 1)]
    if _fits_on(problem, hardware, sizes[0]):
        return sizes[0]
    for below, size in pairwise(sizes):
        if not _fits_on(problem, hardware, size):
            continue
        # Between the round numbers there may be a smaller one that divides as well.
        between = range(below + 1, size) if size <= 256 else ()
        return next((n for n in between if _fits_on(problem, hardware, n)), size)
    return None


def _fits_on(problem: Problem, hardware: Hardware, nodes: int) -> Sharding | None:
    """What has to be shared out so that the model fits that many nodes."""
    return fits(replace(problem, world_size=nodes * problem.per_node), hardware)


@dataclass(frozen=True, slots=True)
class LargestModel:
    """The largest model of a shape that fits the machines."""

    architecture: Architecture
    """Its dimensions."""
    parameters: int
    """Its parameters."""
    largest_tried: bool = False
    """Whether nothing larger was tried."""


def largest_model(problem: Problem, hardware: Hardware) -> LargestModel | None:
    """The largest model of the same shape that fits: layers and width grow by the same factor.

    Width of a head, the ratio of the feed-forward block to the width, key heads that queries
    share, the number of experts and the vocabulary stay as they are.
    """
    largest = None
    lower, upper = SMALLEST * FINEST, LARGEST * FINEST
    while lower < upper:
        middle = (lower + upper + 1) // 2
        model = scaled(problem.model, 2 ** (middle / FINEST))
        if fits(replace(problem, model=model), hardware):
            largest, lower = model, middle
        else:
            upper = middle - 1
    if largest is None:
        return None
    parameters = total_parameters(largest, largest.vocab_size)
    return LargestModel(largest, parameters, lower == LARGEST * FINEST)


@dataclass(frozen=True, slots=True)
class Limits:
    """What fits, seen from both sides."""

    fewest_nodes: int | None
    """The fewest nodes on which the model fits."""
    largest_model: LargestModel | None
    """The largest model of the same shape that fits the nodes."""
    shared_out: Sharding | None = None
    """What has to be shared out on the fewest nodes."""


def limits_of(problem: Problem, hardware: Hardware) -> Limits:
    """The fewest nodes and the largest model, with the fields that are given kept."""
    nodes = fewest_nodes(problem, hardware)
    shared = _fits_on(problem, hardware, nodes) if nodes else None
    return Limits(nodes, largest_model(problem, hardware), shared)


def scaled(model: Architecture, factor: float) -> Architecture:
    """The model with layers and width multiplied, rounded to what divides well."""
    grouped = model.kv_heads < model.heads
    unit = lcm(HEAD_MULTIPLE, model.kv_heads) if grouped else HEAD_MULTIPLE
    heads = max(1, round(model.heads * factor / unit)) * unit
    ratio = heads / model.heads
    changes: dict[str, object] = {
        "layers": max(1, round(model.layers * factor / LAYER_MULTIPLE)) * LAYER_MULTIPLE,
        "heads": heads,
        "kv_heads": model.kv_heads if grouped else heads,
        "hidden_size": round(model.hidden_size * ratio),
        "ffn_hidden_size": _rounded(model.ffn_hidden_size * ratio),
    }
    if model.moe is not None:
        moe = model.moe.model_dump()
        moe["expert_ffn_hidden_size"] = _rounded(moe["expert_ffn_hidden_size"] * ratio)
        shared = moe["shared_expert_ffn_hidden_size"]
        moe["shared_expert_ffn_hidden_size"] = _rounded(shared * ratio) if shared else 0
        changes["moe"] = moe
    return model.replace(**changes)


def _rounded(width: float) -> int:
    """A width that tp within a node divides."""
    return max(1, round(width / 64)) * 64
