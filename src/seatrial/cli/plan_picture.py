# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The layout drawn as nodes × GPUs, and bars, in characters."""

from seatrial.planning.plan import Machines
from seatrial.planning.rank_layout import Axis, RankLayout

BAR = 20
"""Characters of a bar."""
MOST_NODES = 2
"""Nodes that are drawn at the beginning; the last one follows them."""
WIDEST_NODE = 16
"""Ranks of a node that are drawn."""


def bar(share: float) -> str:
    """A bar that is filled to a share of its length."""
    full = max(0, min(BAR, round(share * BAR)))
    return "█" * full + "░" * (BAR - full)


def caption(layout: RankLayout) -> str:
    """What the numbers in the picture are."""
    return "the number is the pipeline stage" if layout.pp_size > 1 else "the number is the dp rank"


def node_pictures(layout: RankLayout, machines: Machines) -> list[str]:
    """The nodes as `node 0  ▕0 0 0 0│1 1 1 1▏`: the first ones and the last."""
    per_node = machines.processes_per_node
    if layout.pp_size > 1 and (layout.world_size // layout.pp_size) % per_node == 0:
        return _stage_pictures(layout, per_node)
    drawn = list(range(min(machines.nodes, MOST_NODES)))
    pictures = [f"node {node}  {_ranks(layout, node * per_node, per_node)}" for node in drawn]
    last = machines.nodes - 1
    if last > drawn[-1]:
        gap = ["…"] if last > drawn[-1] + 1 else []
        pictures += [*gap, f"node {last:,}  {_ranks(layout, last * per_node, per_node)}"]
    return pictures


def _stage_pictures(layout: RankLayout, per_node: int) -> list[str]:
    """Nodes by stage, where each stage has whole nodes."""
    each = layout.world_size // layout.pp_size // per_node
    stages = list(range(layout.pp_size))
    shown = stages if len(stages) <= MOST_NODES + 1 else [*stages[:MOST_NODES], stages[-1]]
    pictures = []
    for stage in shown:
        first = stage * each
        name = f"node {first:,}" if each == 1 else f"nodes {first:,}–{first + each - 1:,}"
        pictures.append(f"{name}  {_ranks(layout, first * per_node, per_node)}")
    if len(shown) < len(stages):
        pictures.insert(-1, "…")
    return pictures


def _ranks(layout: RankLayout, first: int, count: int) -> str:
    """The ranks of a node, a line between those that do not share a layer's matrices."""
    shown = min(count, WIDEST_NODE)
    axis = Axis.PP if layout.pp_size > 1 else Axis.DP
    groups: list[list[str]] = []
    for rank in range(first, first + shown):
        if not groups or rank % layout.tp_size == 0:
            groups.append([])
        groups[-1].append(str(layout.coordinates(rank)[axis]))
    more = " …" if shown < count else ""
    return "▕" + "│".join(" ".join(group) for group in groups) + f"{more}▏"
