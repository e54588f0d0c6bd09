# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of a run, drawn with the pipeline stage or the data-parallel rank of each GPU."""

from dataclasses import dataclass

from seatrial.planning.layout import Axis, Layout
from seatrial.planning.plan import Machines

NODES_DRAWN = 2
"""Nodes that are drawn first; the last one follows them."""
WIDEST_NODE = 16
"""Maximum number of GPUs that are drawn per node."""
WIDEST_PICTURE = 30
"""Maximum number of characters of a node that repeats the number for each GPU."""


@dataclass(frozen=True, slots=True)
class DrawnNodes:
    """Nodes that hold the same parts of the model, drawn as one."""

    name: str
    """`node 0`, or `nodes 4–7`."""
    groups: tuple[tuple[int, ...], ...]
    """The number of each GPU, in groups of tensor-parallel ranks."""
    more: bool = False
    """True if the node has more GPUs than are drawn."""


def caption(layout: Layout, machines: Machines) -> str:
    """Return the meaning of the numbers in the picture."""
    axis = "pipeline stage" if layout.pp_size > 1 else "data-parallel rank"
    return f"each number is the {axis} of a {'GPU' if machines.accelerator else 'process'}"


def drawn_nodes(
    layout: Layout, machines: Machines, first: int = NODES_DRAWN
) -> list[DrawnNodes | None]:
    """Return the first nodes and the last one; None stands for the nodes in between."""
    per_node = machines.processes_per_node
    each, count = 1, machines.nodes
    if layout.pp_size > 1 and (layout.world_size // layout.pp_size) % per_node == 0:
        # Each stage has whole nodes, which look alike.
        each, count = layout.world_size // layout.pp_size // per_node, layout.pp_size
    shown = list(range(count)) if count <= first + 1 else [*range(first), count - 1]
    drawn: list[DrawnNodes | None] = []
    for position in shown:
        node = position * each
        name = f"node {node:,}" if each == 1 else f"nodes {node:,}–{node + each - 1:,}"
        groups = _groups(layout, node * per_node, min(per_node, WIDEST_NODE))
        drawn.append(DrawnNodes(name, groups, per_node > WIDEST_NODE))
    if len(shown) < count:
        drawn.insert(-1, None)
    return drawn


def node_pictures(layout: Layout, machines: Machines) -> list[str]:
    """Return the nodes as `node 0  ▕0 0 0 0│1 1 1 1▏`: the first ones and the last one."""
    drawn = drawn_nodes(layout, machines)
    width = max(len(node.name) for node in drawn if node is not None)
    return ["…" if node is None else f"{node.name:<{width}}  {_picture(node)}" for node in drawn]


def _groups(layout: Layout, first: int, count: int) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of the ranks, grouped by the matrices that they share."""
    axis = Axis.PP if layout.pp_size > 1 else Axis.DP
    groups: list[list[int]] = []
    for rank in range(first, first + count):
        if not groups or rank % layout.tp_size == 0:
            groups.append([])
        groups[-1].append(layout.coordinates(rank)[axis])
    return tuple(tuple(group) for group in groups)


def _picture(node: DrawnNodes) -> str:
    """Return `▕0 0 0 0│1 1 1 1▏`, or `▕127 ×8▏` if the numbers would take too much space."""
    more = " …" if node.more else ""
    whole = "│".join(" ".join(map(str, group)) for group in node.groups)
    if len(whole) > WIDEST_PICTURE and all(len(set(group)) == 1 for group in node.groups):
        whole = "│".join(
            f"{group[0]} ×{len(group)}" if len(group) > 1 else str(group[0])
            for group in node.groups
        )
    return f"▕{whole}{more}▏"
