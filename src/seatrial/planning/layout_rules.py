# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The rules that a layout must keep, each with what would fit when it is broken.

They are Megatron's own (`megatron/training/arguments.py`, `core/transformer/transformer_config.py`,
`core/parallel_state.py` and `core/pipeline_parallel/schedules.py` of 0.19.2), told before a GPU is
asked for.
"""

from math import gcd

from seatrial.planning.codes import PlanCode
from seatrial.planning.plan import Batch
from seatrial.planning.rank_layout import RankLayout
from seatrial.planning.report import Report
from seatrial.planning.stages import Stage, Uneven, stage_sizes, stages_of
from seatrial.spec.architecture import Architecture, Positions
from seatrial.spec.parallelism import ParallelismSpec


def choices(limit: int, total: int) -> str:
    """The divisors of a number up to a limit, in words."""
    divisors = [n for n in range(1, min(limit, total) + 1) if total % n == 0]
    return " or ".join(str(n) for n in divisors[-3:])


def nearby_multiples(number: int, step: int) -> str:
    """The multiples next to a number, in words."""
    lower = number // step * step
    return f"{lower} or {lower + step}" if lower else f"{step}"


def check_world(report: Report, world_size: int, per_node: int, sizes: dict[str, int]) -> None:
    """All ranks must be shared out over tp x pp x cp."""
    tp, pp, cp = sizes["tp"], sizes["pp"], sizes["cp"]
    model_size = tp * pp * cp
    factors = f"tp {tp} × pp {pp}" + (f" × cp {cp}" if cp > 1 else "")
    if world_size % model_size:
        nodes = -(-model_size // per_node)
        while nodes * per_node % model_size:
            nodes += 1
        smaller = _smaller_pp(world_size, tp * cp, pp)
        report.error(
            PlanCode.WORLD,
            "cluster.nodes",
            f"{world_size} ranks cannot be shared out: {factors} = {model_size}.",
            world_size,
            f"Use nodes in multiples of {nodes}{smaller}.",
        )


def _smaller_pp(world_size: int, others: int, pp: int) -> str:
    """A pp_size that would fit the world as it is, in words."""
    fitting = [n for n in range(1, pp) if world_size % (others * n) == 0]
    return f", or parallelism.pp_size={fitting[-1]}" if fitting else ""


def check_tensor_parallel(report: Report, model: Architecture, tp: int, etp: int) -> bool:
    """Heads and inner widths must divide by the ranks that share them; whether they do."""
    before = len(report.findings)
    if model.heads % tp:
        report.error(
            PlanCode.HEADS,
            "parallelism.tp_size",
            f"{model.heads} attention heads cannot be shared out over tp {tp}.",
            tp,
            f"Use tp_size {choices(tp, model.heads)}.",
        )
    elif model.kv_heads % tp and tp % model.kv_heads:
        report.error(
            PlanCode.HEADS,
            "parallelism.tp_size",
            f"tp {tp} is neither a divisor nor a multiple of {model.kv_heads} key and value heads.",
            tp,
            f"Use tp_size {choices(tp, model.kv_heads)}.",
        )
    widths = [("ffn_hidden_size", model.ffn_hidden_size, "tp_size", tp)]
    if model.moe is not None:
        if model.moe.dense_layers == 0:
            widths.clear()
        inner = model.moe.expert_ffn_hidden_size
        shared = model.moe.shared_expert_ffn_hidden_size
        widths.append(("expert_ffn_hidden_size", inner, "etp_size", etp))
        widths.append(("shared_expert_ffn_hidden_size", shared, "tp_size", tp))
    for name, width, field, ranks in widths:
        if width % ranks:
            report.error(
                PlanCode.WIDTH,
                f"parallelism.{field}",
                f"{name} {width} cannot be shared out over {field} {ranks}.",
                ranks,
                f"Use {field} {choices(ranks, width)}.",
            )
    return len(report.findings) == before


def check_stages(
    report: Report, layers: int, pp: int, vp: int, spec: ParallelismSpec
) -> tuple[Stage, ...]:
    """Layers must divide over stages, and each stage's over its chunks."""
    sizes = stage_sizes(layers, pp, spec)
    if isinstance(sizes, Uneven):
        field = f"parallelism.{sizes.field}"
        report.error(PlanCode.STAGES, field, sizes.reason, pp, sizes.fix)
        return ()
    if vp > 1 and pp == 1:
        report.error(
            PlanCode.CHUNKS,
            "parallelism.vp_size",
            "the interleaved schedule needs more than one pipeline stage, and pp_size is 1.",
            vp,
            "Use vp_size 1, or a larger pp_size.",
        )
        return ()
    uneven = [size for size in sizes if size % vp]
    if uneven:
        report.error(
            PlanCode.CHUNKS,
            "parallelism.vp_size",
            f"a stage of {uneven[0]} layers cannot be cut into {vp} chunks.",
            vp,
            f"Use vp_size {choices(vp, uneven[0])}.",
        )
        return ()
    return stages_of(sizes, vp)


def check_experts(
    report: Report, model: Architecture, world_size: int, sizes: dict[str, int]
) -> None:
    """Experts must divide over ep, and the ranks over the experts' own grid."""
    ep, etp, pp = sizes["ep"], sizes["etp"], sizes["pp"]
    if model.moe is None:
        for field, size in (("ep_size", ep), ("etp_size", etp)):
            if size > 1:
                report.error(
                    PlanCode.EXPERTS,
                    f"parallelism.{field}",
                    "the model is dense: it has no experts to share out.",
                    size,
                    f"Use {field} 1.",
                )
        return
    experts = model.moe.experts
    if experts % ep:
        report.error(
            PlanCode.EXPERTS,
            "parallelism.ep_size",
            f"{experts} experts cannot be shared out over ep {ep}.",
            ep,
            f"Use ep_size {choices(ep, experts)}.",
        )
    grid = etp * ep * pp
    if world_size % grid:
        # Whatever ep is, etp x pp must divide the world; then ep must divide what is left.
        even = world_size % (etp * pp) == 0
        field = "ep_size" if even else "etp_size"
        fitting = choices(experts, gcd(experts, world_size // (etp * pp) or 1))
        report.error(
            PlanCode.EXPERT_GRID,
            f"parallelism.{field}",
            f"{world_size} ranks cannot be shared out over the experts: "
            f"etp {etp} × ep {ep} × pp {pp} = {grid}.",
            sizes["ep"] if even else etp,
            f"Use {field} {fitting}." if even else f"Use {field} 1.",
        )


def check_sequence(
    report: Report, model: Architecture, length: int, layout: dict[str, int], *, split: bool
) -> None:
    """The sequence must fit the positions and divide over the ranks that share it."""
    tp, cp = layout["tp"], layout["cp"]
    if model.positions is Positions.LEARNED and length > model.max_positions:
        report.error(
            PlanCode.POSITIONS,
            "training.sequence_length",
            f"the model has a table of {model.max_positions} positions.",
            length,
            f"Use at most {model.max_positions}, or dimensions with a larger max_positions.",
        )
    if cp > 1 and length % (2 * cp):
        report.error(
            PlanCode.CONTEXT,
            "training.sequence_length",
            f"{length} tokens cannot be shared out over cp {cp}: each rank takes two chunks.",
            length,
            f"Use {nearby_multiples(length, 2 * cp)}.",
        )
    elif split and (length // cp) % tp:
        report.error(
            PlanCode.SEQUENCE_PARALLEL,
            "training.sequence_length",
            f"{length // cp} tokens of a rank cannot be split over tp {tp} (sequence parallel).",
            length,
            f"Use {nearby_multiples(length, tp * cp)}.",
        )
    if model.moe is not None and tp > 1 and not split:
        report.error(
            PlanCode.SEQUENCE_PARALLEL,
            "parallelism.sequence_parallel",
            f"a mixture of experts with tp {tp} trains only with sequence parallelism.",
            "false",
            "Use true, or tp_size 1.",
        )


def check_batch(report: Report, micro: int, total: int, layout: RankLayout, length: int) -> Batch:
    """The global batch must divide into micro batches over the data-parallel ranks."""
    step = micro * layout.dp_size
    micro_batches = total // step
    if total % step:
        report.error(
            PlanCode.BATCH,
            "training.global_batch_size",
            f"{total} sequences cannot be split evenly: "
            f"micro batch {micro} × dp {layout.dp_size} = {step}.",
            total,
            f"Use {nearby_multiples(total, step)}.",
        )
    elif layout.vp_size > 1 and micro_batches % layout.pp_size:
        report.error(
            PlanCode.INTERLEAVED_BATCH,
            "training.global_batch_size",
            f"{micro_batches} micro batches are not a multiple of pp {layout.pp_size}, "
            "which the interleaved schedule needs.",
            total,
            f"Use {nearby_multiples(total, step * layout.pp_size)}, or vp_size 1.",
        )
    return Batch(micro, total, micro_batches, total * length)
