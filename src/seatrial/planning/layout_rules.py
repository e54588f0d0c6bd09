# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The rules that a layout must keep, each with what would fit when it is broken.

They are Megatron's own (`megatron/training/arguments.py`, `core/transformer/transformer_config.py`,
`core/parallel_state.py` and `core/pipeline_parallel/schedules.py` of 0.19.2), told before a GPU is
asked for.
"""

from math import gcd
from typing import Protocol

from seatrial.codes.planning import PlanCode
from seatrial.findings import Finding
from seatrial.planning.layout import Layout
from seatrial.planning.plan import Batch
from seatrial.planning.stages import Stage, Uneven, counted_words, stage_sizes, stages_of
from seatrial.spec.model import Architecture, Positions
from seatrial.spec.parallelism import ParallelismSpec, RecomputeModule
from seatrial.spec.training import Precision


class Reporter(Protocol):
    """Who is told of broken rules: the report of a spec, or a search that tries many layouts."""

    findings: list[Finding]
    """What was found so far."""

    def error(self, code: PlanCode, field_name: str, rule: str, value: object, fix: str) -> None:
        """Take an error about a field of the spec."""
        ...

    def warning(self, code: PlanCode, field_name: str, rule: str, value: object, fix: str) -> None:
        """Take a warning about a field of the spec."""
        ...


def choices(limit: int, total: int) -> str:
    """The largest divisors of a number up to a limit, in words."""
    # A mistyped number must not become a long loop; nobody means more ranks than this.
    highest = min(limit, total, 1 << 16)
    divisors = [n for n in range(1, highest + 1) if total % n == 0]
    return " or ".join(str(n) for n in divisors[-3:])


def nearby_multiples(number: int, step: int) -> str:
    """The multiples next to a number, in words."""
    lower = number // step * step
    return f"{lower} or {lower + step}" if lower else f"{step}"


def check_world(report: Reporter, world_size: int, per_node: int, layout: Layout) -> None:
    """All ranks must be shared out over tp x pp x cp."""
    if world_size % layout.model_size == 0:
        return
    factors = f"tp {layout.tp_size} × pp {layout.pp_size}"
    factors += f" × cp {layout.cp_size}" if layout.cp_size > 1 else ""
    nodes = layout.model_size // gcd(layout.model_size, per_node)
    others = layout.tp_size * layout.cp_size
    smaller = ""
    if world_size % others == 0:
        fitting = choices(layout.pp_size - 1, world_size // others).rpartition(" ")[2]
        smaller = f", or parallelism.pp_size={fitting}" if fitting else ""
    report.error(
        PlanCode.WORLD,
        "cluster.nodes",
        f"{_ranks(world_size)} cannot be shared out: {factors} = {layout.model_size}.",
        world_size,
        f"Use nodes in multiples of {nodes}{smaller}.",
    )


def check_tensor_parallel(report: Reporter, model: Architecture, layout: Layout) -> bool:
    """Heads and inner widths must divide by the ranks that share them; whether they do."""
    before = len(report.findings)
    tp = layout.tp_size
    qkv = (model.heads + 2 * model.kv_heads) * model.head_dim
    if model.heads % tp:
        report.error(
            PlanCode.HEADS,
            "parallelism.tp_size",
            f"{model.heads} attention heads cannot be shared out over tp {tp}.",
            tp,
            f"Use tp_size {choices(tp, model.heads)}.",
        )
    elif (model.kv_heads % tp and tp % model.kv_heads) or qkv % tp:
        fitting = choices(tp, gcd(model.heads, model.kv_heads))
        report.error(
            PlanCode.HEADS,
            "parallelism.tp_size",
            f"{model.kv_heads} key and value heads cannot be shared out over tp {tp}.",
            tp,
            f"Use tp_size {fitting}.",
        )
    for name, width, field, ranks in _shared_widths(model, layout):
        if width % ranks:
            report.error(
                PlanCode.WIDTH,
                f"parallelism.{field}",
                f"{name} {width} cannot be shared out over {field} {ranks}.",
                ranks,
                f"Use {field} {choices(ranks, width)}.",
            )
    return len(report.findings) == before


def _shared_widths(model: Architecture, layout: Layout) -> list[tuple[str, int, str, int]]:
    """The inner widths of a model, and the field and number of ranks that share each."""
    dense = ("ffn_hidden_size", model.ffn_hidden_size, "tp_size", layout.tp_size)
    moe = model.moe
    if moe is None:
        return [dense]
    shared = moe.shared_expert_ffn_hidden_size
    return [
        *([dense] if moe.dense_layers else []),
        ("expert_ffn_hidden_size", moe.expert_ffn_hidden_size, "etp_size", layout.etp_size),
        ("shared_expert_ffn_hidden_size", shared, "tp_size", layout.tp_size),
    ]


def _ranks(number: int) -> str:
    return "1 rank" if number == 1 else f"{number} ranks"


def _joined(link_domain: int) -> str:
    """The GPUs that tensor parallelism should stay within."""
    return (
        "the one GPU of a node" if link_domain == 1 else f"the {link_domain} GPUs that NVLink joins"
    )


def check_links(report: Reporter, layout: Layout, link_domain: int) -> None:
    """Tensor parallelism beyond NVLink works, slowly."""
    if link_domain and layout.tp_size > link_domain:
        report.warning(
            PlanCode.ACROSS_NODES,
            "parallelism.tp_size",
            f"tp {layout.tp_size} leaves {_joined(link_domain)}; every layer then "
            "waits for the network between nodes.",
            layout.tp_size,
            f"Use tp_size {link_domain} or less, and pipeline stages for the rest.",
        )


def check_stages(
    report: Reporter, layers: int, pp: int, vp: int, spec: ParallelismSpec
) -> tuple[Stage, ...]:
    """Layers must divide over stages, and each stage's over its chunks."""
    if pp > layers + spec.embedding_as_layer + spec.loss_as_layer:
        report.error(
            PlanCode.STAGES,
            "parallelism.pp_size",
            f"{pp} pipeline stages are more than the model's {layers} layers.",
            pp,
            f"Use at most {layers}.",
        )
        return ()
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
        counted = counted_words(spec)
        report.error(
            PlanCode.CHUNKS,
            "parallelism.vp_size",
            f"a stage of {uneven[0]} layers{f', counting {counted},' if counted else ''} "
            f"cannot be cut into {vp} chunks.",
            vp,
            f"Use vp_size {choices(vp, uneven[0])}.",
        )
        return ()
    return stages_of(
        sizes,
        vp,
        embedding_as_layer=spec.embedding_as_layer,
        loss_as_layer=spec.loss_as_layer,
    )


def check_experts(report: Reporter, model: Architecture, world_size: int, layout: Layout) -> None:
    """Experts must divide over ep, and the ranks over the experts' own grid."""
    ep, etp = layout.ep_size, layout.etp_size
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
    if model.linear_bias and etp > 1:
        report.error(
            PlanCode.EXPERT_BIAS,
            "parallelism.etp_size",
            "experts with biases cannot be cut.",
            etp,
            "Use etp_size 1, or dimensions with linear_bias: false.",
        )
    _check_expert_grid(report, experts, world_size, layout)


def _check_expert_grid(report: Reporter, experts: int, world_size: int, layout: Layout) -> None:
    """The ranks of a stage must divide over etp x ep."""
    ep, etp, pp = layout.ep_size, layout.etp_size, layout.pp_size
    # A pp that does not divide the world is reported with the dense grid.
    if world_size % pp or world_size % (etp * ep * pp) == 0:
        return
    even = world_size % (etp * pp) == 0
    field, size = ("ep_size", ep) if even else ("etp_size", etp)
    fitting = choices(experts, gcd(experts, world_size // (etp * pp))) if even else "1"
    report.error(
        PlanCode.EXPERT_GRID,
        f"parallelism.{field}",
        f"{_ranks(world_size)} cannot be shared out over the experts: "
        f"etp {etp} × ep {ep} × pp {pp} = {etp * ep * pp}.",
        size,
        f"Use {field} {fitting}.",
    )


def check_recompute(
    report: Reporter, model: Architecture, precision: Precision, spec: ParallelismSpec
) -> None:
    """Every module that is to be computed again must exist, and be one that the format allows."""
    experts = {RecomputeModule.MOE, RecomputeModule.MOE_ACT, RecomputeModule.SHARED_EXPERTS}
    for module in spec.recompute_modules:
        reason = ""
        if module in experts and model.moe is None:
            reason = "the model is dense: it has no experts"
        elif module is RecomputeModule.MLA_UP_PROJ:
            reason = "no model of a plan has multi-latent attention"
        elif module is RecomputeModule.MLP and model.linear_bias:
            # Its bias is an output of what is checkpointed, and becomes an input of its own
            # gradient: megatron-core 0.19.2 then goes backwards for ever (seen on a CPU).
            reason = "the engine never ends the first step where the mlp has biases"
        elif precision is Precision.FP8 and module in (
            RecomputeModule.LAYERNORM,
            RecomputeModule.MOE_ACT,
        ):
            # transformer_config.py: only recipes that scale by the tensor at hand can.
            reason = "fp8 with delayed scaling cannot compute it again"
        if reason:
            report.error(
                PlanCode.RECOMPUTE,
                "parallelism.recompute_modules",
                f"{module} cannot be recomputed: {reason}.",
                module,
                f"Remove {module}.",
            )


def check_sequence(
    report: Reporter, model: Architecture, length: int, layout: Layout, *, split: bool
) -> None:
    """The sequence must fit the positions and divide over the ranks that share it."""
    tp, cp = layout.tp_size, layout.cp_size
    _check_positions(report, model, length)
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


def _check_positions(report: Reporter, model: Architecture, length: int) -> None:
    """A table of positions ends; rotary ones go on, beyond what the model was made for."""
    if length <= model.max_positions:
        return
    if model.positions is Positions.LEARNED:
        report.error(
            PlanCode.POSITIONS,
            "training.sequence_length",
            f"the model has a table of {model.max_positions} positions.",
            length,
            f"Use at most {model.max_positions}, or dimensions with a larger max_positions.",
        )
    else:
        report.warning(
            PlanCode.POSITIONS,
            "training.sequence_length",
            f"{length} tokens are more than the {model.max_positions} positions of the model.",
            length,
            f"Use at most {model.max_positions}, unless the model is to learn longer ones.",
        )


def check_batch(
    report: Reporter, micro: int, total: int, layout: Layout, length: int, nodes: int = 1
) -> Batch:
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
            f"Use {nearby_multiples(total, step)}.{_or_nodes(total, step, nodes)}",
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


def _or_nodes(total: int, step: int, nodes: int) -> str:
    """The numbers of nodes around this one over which the batch can be split, in words.

    Where there are some on both sides, it is the number of nodes that divides badly; of a power of
    two it is rather the batch.
    """
    of_node = step // nodes
    if nodes.bit_count() == 1 or step % nodes or total % of_node:
        return ""
    fewer = next((n for n in range(nodes - 1, 0, -1) if total % (of_node * n) == 0), None)
    more = next((n for n in range(nodes + 1, 2 * nodes) if total % (of_node * n) == 0), None)
    return f" Or {fewer} or {more} nodes." if fewer and more else ""
