# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The rules that a layout must follow, each with values that would be valid.

These are Megatron's rules (`megatron/training/arguments.py`,
`core/transformer/transformer_config.py`, `core/parallel_state.py` and
`core/pipeline_parallel/schedules.py` in 0.19.2), checked before any GPU is requested.
"""

from dataclasses import replace
from math import gcd
from typing import Protocol

from seatrial.codes.planning import PlanCode
from seatrial.findings import Finding
from seatrial.planning.layout import Layout
from seatrial.planning.stages import (
    Stage,
    Uneven,
    counted_words,
    custom_stages,
    stage_sizes,
    stages_of,
)
from seatrial.spec.model import Architecture, Positions
from seatrial.spec.parallelism import ParallelismSpec, RecomputeModule
from seatrial.spec.pipeline_layout import parse_layout
from seatrial.spec.training import Precision


class Reporter(Protocol):
    """Collects broken rules: the report for a spec, or a search that tries many layouts."""

    findings: list[Finding]

    def error(self, code: PlanCode, field_name: str, rule: str, value: object, fix: str) -> None:
        """Report an error in a spec field."""
        ...

    def warning(self, code: PlanCode, field_name: str, rule: str, value: object, fix: str) -> None:
        """Report a warning about a spec field."""
        ...


USUAL_TP = 8
"""Tensor parallelism stays within a node, which has at most this many GPUs as a rule."""


def choices(limit: int, total: int) -> str:
    """Return the largest divisors of a number up to a limit, as text."""
    return _listed(_divisors(limit, total)[-3:])


def _listed(numbers: list[int]) -> str:
    # "1, 2 or 4": only the last separator is a word.
    return " or ".join(", ".join(map(str, numbers)).rsplit(", ", 1))


def _tp_choices(model: Architecture, layout: Layout) -> str:
    """Return every tp_size up to that of a usual node that divides heads and inner widths."""
    limit = min(max(layout.tp_size, USUAL_TP), 1 << 16)
    sizes = [replace(layout, tp_size=size) for size in _divisors(limit, model.heads)]
    return _listed([each.tp_size for each in sizes if _is_divisible(model, each)])


def _is_divisible(model: Architecture, layout: Layout) -> bool:
    """True if heads and the widths that tp splits are divisible."""
    widths = (width for _, width, field, _ in _shared_widths(model, layout) if field == "tp_size")
    tp = layout.tp_size
    return not (model.heads % tp or _splits_kv_heads(model, tp) or any(w % tp for w in widths))


def _splits_kv_heads(model: Architecture, tp: int) -> bool:
    """True if tp would split key-value heads unevenly."""
    qkv = (model.heads + 2 * model.kv_heads) * model.head_dim
    return bool((model.kv_heads % tp and tp % model.kv_heads) or qkv % tp)


def _divisors(limit: int, total: int) -> list[int]:
    """Return the divisors of a number up to a limit, in order."""
    # A mistyped number must not cause a long loop; no run has more ranks than this.
    highest = min(limit, total, 1 << 16)
    return [n for n in range(1, highest + 1) if total % n == 0]


def nearby_multiples(number: int, step: int) -> str:
    """Return the multiples next to a number, as text."""
    lower = number // step * step
    return f"{lower} or {lower + step}" if lower else f"{step}"


def check_world(
    report: Reporter, world_size: int, per_node: int, layout: Layout, custom: str | None = None
) -> None:
    """Check that the number of ranks is divisible by tp x pp x cp.

    With a custom pipeline layout, pp follows from its stages.
    """
    if world_size % layout.model_size == 0:
        return
    factors = f"tp {layout.tp_size} × pp {layout.pp_size}"
    factors += f" × cp {layout.cp_size}" if layout.cp_size > 1 else ""
    nodes = layout.model_size // gcd(layout.model_size, per_node)
    others = layout.tp_size * layout.cp_size
    smaller = ""
    if world_size % others == 0:
        fitting = _divisors(layout.pp_size - 1, world_size // others)
        smaller = f", or parallelism.pp_size={fitting[-1]}" if fitting else ""
    field, what = "cluster.nodes", ""
    if custom is not None:
        stages = len(parse_layout(custom).stages)
        fitting = _divisors(2 * stages, world_size // others)[1:]
        smaller = f", or a layout with {_listed(fitting[-3:])} stages" if fitting else ""
        field, what = "parallelism.pipeline_layout", f"the layout has {stages} stages, but "
    report.error(
        PlanCode.WORLD,
        field,
        f"{what}{_ranks(world_size)} not divisible by {factors} = {layout.model_size}.",
        world_size if custom is None else custom,
        f"Use nodes in multiples of {nodes}{smaller}.",
    )


def check_tensor_parallel(report: Reporter, model: Architecture, layout: Layout) -> bool:
    """Check that heads and inner widths are divisible by tp; return True if they are."""
    before = len(report.findings)
    tp = layout.tp_size
    if model.heads % tp:
        report.error(
            PlanCode.HEADS,
            "parallelism.tp_size",
            f"{model.heads} attention heads are not divisible by tp_size {tp}.",
            tp,
            f"Use tp_size {_tp_choices(model, layout)}.",
        )
    elif _splits_kv_heads(model, tp):
        report.error(
            PlanCode.HEADS,
            "parallelism.tp_size",
            f"{_kv_heads(model.kv_heads)} not divisible by tp_size {tp}.",
            tp,
            f"Use tp_size {_tp_choices(model, layout)}.",
        )
    for name, width, field, ranks in _shared_widths(model, layout):
        if width % ranks:
            of_tp = field == "tp_size"
            fitting = _tp_choices(model, layout) if of_tp else choices(ranks, width)
            report.error(
                PlanCode.WIDTH,
                f"parallelism.{field}",
                f"{name} {width} is not divisible by {field} {ranks}.",
                ranks,
                f"Use {field} {fitting}.",
            )
    return len(report.findings) == before


def _shared_widths(model: Architecture, layout: Layout) -> list[tuple[str, int, str, int]]:
    """Return the inner widths of a model, each with the field and degree that splits it."""
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
    return "1 rank is" if number == 1 else f"{number} ranks are"


def _kv_heads(number: int) -> str:
    return "1 key-value head is" if number == 1 else f"{number} key-value heads are"


def _joined(link_domain: int) -> str:
    """Return the GPUs within which tensor parallelism should stay."""
    return "the one GPU on a node" if link_domain == 1 else f"the {link_domain} GPUs on NVLink"


def check_links(report: Reporter, layout: Layout, link_domain: int) -> None:
    """Warn about tensor parallelism beyond the NVLink domain, which is slow."""
    if link_domain and layout.tp_size > link_domain:
        report.warning(
            PlanCode.ACROSS_NODES,
            "parallelism.tp_size",
            f"tp_size {layout.tp_size} exceeds {_joined(link_domain)}, so every layer waits for "
            "the network between nodes.",
            layout.tp_size,
            f"Use tp_size {link_domain} or less, and pipeline stages for the rest.",
        )


def check_expert_links(report: Reporter, layout: Layout, per_node: int) -> None:
    """Warn about expert groups beyond a node and its NVLink, for NCCL's all-to-all."""
    span = layout.ep_size * layout.etp_size
    if layout.ep_size > 1 and span > per_node:
        inside = max(1, per_node // layout.etp_size)
        report.warning(
            PlanCode.EXPERTS_ACROSS_NODES,
            "parallelism.ep_size",
            f"the experts of a layer are on {span} GPUs, but a node has {per_node}, so copies of "
            "every token cross the network between nodes.",
            layout.ep_size,
            f"Use ep_size {inside} or less, or performance.token_dispatcher=deepep if your image "
            "contains DeepEP.",
        )


def check_node_links(report: Reporter, layout: Layout, per_node: int) -> None:
    """Reject groups that span nodes whose GPUs share an NVLink domain, as in a GB200 NVL72 rack.

    Pods reach GPUs of other nodes over NVLink only through IMEX channels, which the manifests do
    not request. Over the network, these groups would be many times slower than planned.
    """
    groups = {
        "tp_size": (layout.tp_size, layout.tp_size),
        "cp_size": (layout.cp_size, layout.tp_size * layout.cp_size),
        "etp_size": (layout.etp_size, layout.etp_size),
        "ep_size": (layout.ep_size, layout.etp_size * layout.ep_size),
    }
    for field, (size, span) in groups.items():
        if size == 1 or span <= per_node:
            continue
        nodes = -(-span // per_node)
        largest = max(1, size * per_node // span)
        report.error(
            PlanCode.NODE_LINKS,
            f"parallelism.{field}",
            f"a group of {field} {size} spans {nodes} nodes of {per_node} GPUs. It needs NVLink "
            "between nodes (IMEX channels), which Seatrial does not set up yet.",
            size,
            f"Use {field} {largest} or less, and pipeline stages or data parallelism for the rest.",
        )
        return


def check_stages(
    report: Reporter, layers: int, pp: int, vp: int, spec: ParallelismSpec
) -> tuple[Stage, ...]:
    """Check that the stages divide the layers, and the chunks divide the layers of a stage."""
    if pp > layers + spec.embedding_as_layer + spec.loss_as_layer:
        report.error(
            PlanCode.STAGES,
            "parallelism.pp_size",
            f"pp_size {pp} exceeds the {layers} layers of the model.",
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
            "the interleaved schedule needs more than one pipeline stage, but pp_size is 1.",
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
            f"is not divisible into {vp} chunks.",
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


def check_custom_stages(
    report: Reporter, model: Architecture, pp: int, vp: int, text: str
) -> tuple[Stage, ...]:
    """Check that a custom layout describes this model and these stages."""
    layout = parse_layout(text)
    stages, rank = len(layout.stages), (layout.mtp_stage or 0) % pp
    empty = [rank for rank in range(pp) if not "".join(layout.stages[rank::pp])]
    rule = fix = ""
    if layout.layers != model.layers:
        rule = f"the layout has {layout.layers} layers (t), but the model has {model.layers}."
        fix = f"Use a layout with {model.layers} t."
    elif layout.mtp_layers != model.mtp_layers:
        rule = f"the layout has {layout.mtp_layers} layers for multi-token prediction (m), but "
        rule += f"the model has {model.mtp_layers} (mtp_layers)."
        wanted = f"Use a layout with {model.mtp_layers} m, such as in front of L."
        fix = wanted if model.mtp_layers else "Remove m from the layout."
    elif pp == 1 < stages:
        rule = f"the layout has {stages} stages, but pp_size is 1, so all layers are in one stage."
        fix = "Set pp_size to auto, or remove pipeline_layout."
    elif stages != pp * vp:
        rule = f"the layout has {stages} stages, but pp_size {pp} × vp_size {vp} is {pp * vp}."
        fix = "Set pp_size and vp_size to auto."
    elif layout.mtp_stage is not None and pp > 1 and (rank == 0 or layout.mtp_stage < stages - pp):
        rule = f"with pp_size {pp}, m (multi-token prediction) is in chunk "
        rule += f"{layout.mtp_stage // pp} of pipeline rank {rank}; it must be in the last chunk "
        rule += f"({vp - 1}) of a rank other than 0."
        fix = "Move m to the stage of L."
    elif empty:
        # The engine trains, but cannot load its checkpoint (KeyError: 'model').
        rule = f"with pp_size {pp}, pipeline rank {empty[0]} has no part of the model."
        fix = "Move a layer to one of its stages."
    if rule:
        report.error(PlanCode.STAGES, "parallelism.pipeline_layout", rule, text, fix)
        return ()
    return custom_stages(layout, pp)


def check_experts(report: Reporter, model: Architecture, world_size: int, layout: Layout) -> None:
    """Check that ep divides the experts, and that the expert grid divides the ranks."""
    ep, etp = layout.ep_size, layout.etp_size
    if model.moe is None:
        for field, size in (("ep_size", ep), ("etp_size", etp)):
            if size > 1:
                report.error(
                    PlanCode.EXPERTS,
                    f"parallelism.{field}",
                    "the model is dense, so it has no experts to split.",
                    size,
                    f"Use {field} 1.",
                )
        return
    experts = model.moe.experts
    if experts % ep:
        report.error(
            PlanCode.EXPERTS,
            "parallelism.ep_size",
            f"{experts} experts are not divisible by ep_size {ep}.",
            ep,
            f"Use ep_size {choices(ep, experts)}.",
        )
    if model.linear_bias and etp > 1:
        report.error(
            PlanCode.EXPERT_BIAS,
            "parallelism.etp_size",
            "experts with biases do not support tensor parallelism (etp_size above 1).",
            etp,
            "Use etp_size 1, or set linear_bias: false in model.dimensions.",
        )
    _check_expert_grid(report, experts, world_size, layout)


def _check_expert_grid(report: Reporter, experts: int, world_size: int, layout: Layout) -> None:
    """Check that etp x ep divides the ranks of a stage."""
    ep, etp, pp = layout.ep_size, layout.etp_size, layout.pp_size
    # A pp_size that does not divide the world size is reported for the dense grid.
    if world_size % pp or world_size % (etp * ep * pp) == 0:
        return
    even = world_size % (etp * pp) == 0
    field, size = ("ep_size", ep) if even else ("etp_size", etp)
    fitting = choices(experts, gcd(experts, world_size // (etp * pp))) if even else "1"
    report.error(
        PlanCode.EXPERT_GRID,
        f"parallelism.{field}",
        f"{_ranks(world_size)} not divisible by etp {etp} × ep {ep} × pp {pp} = {etp * ep * pp}, "
        "the expert grid.",
        size,
        f"Use {field} {fitting}.",
    )


def check_recompute(
    report: Reporter, model: Architecture, precision: Precision, spec: ParallelismSpec
) -> None:
    """Check that each module to recompute exists, and that the precision supports it."""
    experts = {RecomputeModule.MOE, RecomputeModule.MOE_ACT, RecomputeModule.SHARED_EXPERTS}
    for module in spec.recompute_modules:
        reason = ""
        if module in experts and model.moe is None:
            reason = "the model is dense, so it has no experts"
        elif module is RecomputeModule.MLA_UP_PROJ:
            reason = "Seatrial does not support models with multi-latent attention"
        elif module is RecomputeModule.MLP and model.linear_bias:
            # The bias is an output of the recomputed block and an input of its own gradient:
            # in megatron-core 0.19.2, the backward pass never finishes (seen on a CPU).
            reason = "with biases in the MLP, the engine never finishes the first step"
        elif precision is Precision.FP8 and module in (
            RecomputeModule.LAYERNORM,
            RecomputeModule.MOE_ACT,
        ):
            # transformer_config.py: only recipes with current scaling support this module.
            reason = "fp8 with delayed scaling does not support this module"
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
    """Check that the sequence fits the positions, and that the ranks that split it divide it."""
    tp, cp = layout.tp_size, layout.cp_size
    _check_positions(report, model, length)
    if cp > 1 and length % (2 * cp):
        report.error(
            PlanCode.CONTEXT,
            "training.sequence_length",
            f"{length} tokens are not divisible by {2 * cp}: each of {cp} cp ranks has two chunks.",
            length,
            f"Use {nearby_multiples(length, 2 * cp)}.",
        )
    elif split and (length // cp) % tp:
        report.error(
            PlanCode.SEQUENCE_PARALLEL,
            "training.sequence_length",
            f"{length // cp} tokens per rank are not divisible by tp_size {tp} (sequence "
            "parallelism).",
            length,
            f"Use {nearby_multiples(length, tp * cp)}.",
        )
    if model.moe is not None and tp > 1 and not split:
        report.error(
            PlanCode.SEQUENCE_PARALLEL,
            "parallelism.sequence_parallel",
            f"a mixture-of-experts model with tp_size {tp} requires sequence parallelism.",
            "false",
            "Use true, or tp_size 1.",
        )


def _check_positions(report: Reporter, model: Architecture, length: int) -> None:
    """Check the length: learned positions are a hard limit, other encodings can be exceeded."""
    if length <= model.max_positions:
        return
    if model.positions is Positions.LEARNED:
        report.error(
            PlanCode.POSITIONS,
            "training.sequence_length",
            f"{length} tokens exceed the {model.max_positions} learned positions of the model.",
            length,
            f"Use at most {model.max_positions}, or a larger model.dimensions.max_positions.",
        )
    else:
        report.warning(
            PlanCode.POSITIONS,
            "training.sequence_length",
            f"{length} tokens exceed the {model.max_positions} positions of the model.",
            length,
            f"Use at most {model.max_positions}, unless you want to extend the context.",
        )
