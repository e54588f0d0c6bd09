# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The fewest nodes for a model, and the largest model for the nodes."""

from dataclasses import dataclass, replace
from math import lcm

from seatrial.planning.memory.breakdown import MemoryFit
from seatrial.planning.memory.estimate import memory
from seatrial.planning.parameters import total_parameters
from seatrial.planning.search.candidates import Candidate
from seatrial.planning.search.problem import SearchProblem
from seatrial.planning.search.search import ANY_BATCH, recomputes, shardings
from seatrial.planning.search.space import batches, shapes
from seatrial.planning.workload import Hardware
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Sharding
from seatrial.spec.scalars import AUTO

MOST_NODES = 1 << 14
"""Maximum number of nodes to try."""
MOST_ALL_TRIED = 64
"""Up to this number of nodes, every smaller number is tried."""
MOST_LAST_TRIED = 256
"""Up to this number of nodes, the numbers after the last round number are tried."""
ROUND = "powers of two and three times powers of two"
"""The numbers of nodes that are tried up to `MOST_NODES`, as text."""
FINEST = 64
"""Number of steps between a model and a model with twice its width."""
SMALLEST, LARGEST = -3, 4
"""The range of models that are tried, as powers of two of the width."""
HEAD_MULTIPLE = 8
"""Heads of a scaled model are a multiple of this, so that tp within a node divides them."""
LAYER_MULTIPLE = 4
"""Layers of a scaled model are a multiple of this, so that pipeline stages divide them."""


def fits(
    problem: SearchProblem, hardware: Hardware, tolerance: float = ANY_BATCH
) -> Sharding | None:
    """Return the sharding with which a valid layout certainly fits; None if none does.

    Layouts are tried in the variant that needs the least memory, with a batch size within the
    tolerance.
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
                if memory(problem.workload(candidate, hardware)).verdict is MemoryFit.FITS:
                    return sharding
    return None


@dataclass(frozen=True, slots=True)
class Fewest:
    """The smallest number of nodes on which a model fits, among the numbers that were tried."""

    nodes: int
    all_tried: bool
    """True if every smaller number was tried and does not fit."""


def fewest_nodes(problem: SearchProblem, hardware: Hardware, above: int = 0) -> Fewest | None:
    """Return the fewest nodes above a number on which a layout fits; None if none was found.

    Round numbers are tried first (`ROUND`). More nodes do not always fit a larger model, because
    layouts must divide the nodes evenly. Up to `MOST_ALL_TRIED`, all numbers are tried; up to
    `MOST_LAST_TRIED`, the numbers after the last round number.
    """
    rounds = sorted(n << k for k in range(15) for n in (2, 3) if n << k <= MOST_NODES)
    sizes = [above + 1, *(size for size in rounds if size > above + 1)]
    tried: list[int] = []
    for size in sizes:
        if not _fits_on(problem, hardware, size):
            tried.append(size)
            continue
        between = [n for n in range(above + 1, size) if n not in tried]
        if size > MOST_ALL_TRIED:
            between = [n for n in between if n > tried[-1]] if size <= MOST_LAST_TRIED else []
        nodes = next((n for n in between if _fits_on(problem, hardware, n)), size)
        return Fewest(nodes, {*range(above + 1, nodes)} <= {*tried, *between})
    return None


def _fits_on(problem: SearchProblem, hardware: Hardware, nodes: int) -> Sharding | None:
    """Return the sharding with which the model fits on this many nodes; None if none does."""
    return fits(replace(problem, world_size=nodes * problem.per_node), hardware)


@dataclass(frozen=True, slots=True)
class LargestModel:
    """The largest model of a shape that fits on the machines."""

    architecture: Architecture
    parameters: int
    largest_tried: bool = False
    """True if no larger model was tried."""


def largest_model(problem: SearchProblem, hardware: Hardware) -> LargestModel | None:
    """Return the largest model of the same shape that fits; layers and width scale equally.

    The width of a head, the ratio of the feed-forward block to the width, the queries per key-value
    head, the number of experts and the vocabulary stay the same.
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
    """The fewest nodes for a model, and the largest model for the nodes."""

    fewest: Fewest | None
    """The fewest nodes on which the model fits; None if it fits on none of the tried numbers."""
    largest_model: LargestModel | None
    """The largest model of the same shape that fits on the nodes; None if none does."""
    shared_out: Sharding | None = None
    """The sharding on the fewest nodes."""


def limits_of(problem: SearchProblem, hardware: Hardware) -> Limits:
    """Return the fewest nodes and the largest model; fields that the spec sets are fixed."""
    fewest = fewest_nodes(problem, hardware)
    shared = _fits_on(problem, hardware, fewest.nodes) if fewest else None
    return Limits(fewest, largest_model(problem, hardware), shared)


def scaled(model: Architecture, factor: float) -> Architecture:
    """Return the model with scaled layers and width, rounded so that they divide well."""
    grouped = model.kv_heads < model.heads
    unit = lcm(HEAD_MULTIPLE, model.kv_heads) if grouped else HEAD_MULTIPLE
    heads = max(1, round(model.heads * factor / unit)) * unit
    ratio = heads / model.heads
    width = model.hidden_size * heads / model.heads
    changes: dict[str, object] = {
        "layers": max(1, round(model.layers * factor / LAYER_MULTIPLE)) * LAYER_MULTIPLE,
        "heads": heads,
        "kv_heads": model.kv_heads if grouped else heads,
        "hidden_size": int(width) if width.is_integer() else _rounded(width),
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
    """Return a width that is divisible by tp within a node."""
    return max(1, round(width / 64)) * 64
