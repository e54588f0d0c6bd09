# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules for batch sizes and the ranks and micro-batches that they are divided into."""

from itertools import pairwise

from seatrial.codes.planning import PlanCode
from seatrial.planning.layout import Layout
from seatrial.planning.layout_rules import Reporter, nearby_multiples
from seatrial.planning.plan import Batch


def check_batch(
    report: Reporter, micro: int, total: int, layout: Layout, length: int, nodes: int = 1
) -> Batch:
    """Check that the global batch can be split into micro-batches on the data-parallel ranks."""
    step = micro * layout.dp_size
    micro_batches = total // step
    if total % step:
        report.error(
            PlanCode.BATCH,
            "training.global_batch_size",
            f"{total} sequences are not divisible by "
            f"micro-batch {micro} × dp {layout.dp_size} = {step}.",
            total,
            f"Use {nearby_multiples(total, step)}.{_or_nodes(total, step, nodes)}",
        )
    elif layout.vp_size > 1 and micro_batches % layout.pp_size:
        report.error(
            PlanCode.INTERLEAVED_BATCH,
            "training.global_batch_size",
            f"{micro_batches} micro-batches are not a multiple of pp_size {layout.pp_size}, "
            "as the interleaved schedule requires.",
            total,
            f"Use {nearby_multiples(total, step * layout.pp_size)}, or vp_size 1.",
        )
    return Batch(micro, total, micro_batches, total * length)


def check_early_batches(
    report: Reporter, sizes: tuple[int, ...], batch: Batch, layout: Layout
) -> None:
    """Check that the smaller batches at the start of the run can be split like the last one."""
    step = batch.micro_batch_size * layout.dp_size
    for number, (size, after) in enumerate(pairwise([*sizes, batch.global_batch_size])):
        field = f"training.batch_schedule[{number}].global_batch_size"
        if size >= after:
            report.error(
                PlanCode.BATCH_SCHEDULE,
                field,
                f"{size} sequences are not fewer than the {after} that follow; the batch size can "
                "only grow.",
                size,
                f"Set training.global_batch_size to more than {size}.",
            )
        elif size % step:
            report.error(
                PlanCode.BATCH,
                field,
                f"{size} sequences are not divisible by "
                f"micro-batch {batch.micro_batch_size} × dp {layout.dp_size} = {step}.",
                size,
                f"Use {nearby_multiples(size, step)}.",
            )
        elif layout.vp_size > 1 and size // step % layout.pp_size:
            report.error(
                PlanCode.INTERLEAVED_BATCH,
                field,
                f"{size // step} micro-batches are not a multiple of pp_size {layout.pp_size}, "
                "as the interleaved schedule requires.",
                size,
                f"Use {nearby_multiples(size, step * layout.pp_size)}, or vp_size 1.",
            )


def _or_nodes(total: int, step: int, nodes: int) -> str:
    """Return the nearest numbers of nodes that divide the batch, as text.

    Nodes are proposed only if there is a smaller and a larger number. For a power of two, the batch
    size is the more likely mistake.
    """
    of_node = step // nodes
    if nodes.bit_count() == 1 or step % nodes or total % of_node:
        return ""
    fewer = next((n for n in range(nodes - 1, 0, -1) if total % (of_node * n) == 0), None)
    more = next((n for n in range(nodes + 1, 2 * nodes) if total % (of_node * n) == 0), None)
    return f" Or use {fewer} or {more} nodes." if fewer and more else ""
