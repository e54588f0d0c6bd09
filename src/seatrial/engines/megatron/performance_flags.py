# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Performance options: Megatron's flags for them, and what a CPU cannot execute."""

from collections.abc import Callable

from seatrial.engines.engine import Arguments, ArgumentValue
from seatrial.engines.megatron.model_flags import Flag, has_yarn, with_experts
from seatrial.planning.options import FLEX_DISPATCHERS, NAMES, given_options
from seatrial.planning.plan import Plan
from seatrial.spec.model_parts import RouterScore
from seatrial.spec.performance import (
    CudaGraphs,
    MomentPrecision,
    PerformanceSpec,
    TokenDispatcher,
)


def _flag(name: str, option: str, value: Callable[[PerformanceSpec], ArgumentValue]) -> Flag:
    """Return a flag whose value depends only on the performance section."""
    return Flag(name, f"performance.{option}", lambda plan: value(plan.spec.performance))


def _switch(name: str, option: str) -> Flag:
    """Return a flag that is set if an option is on."""
    return _flag(name, option, lambda asked: getattr(asked, option) is True)


def _is_unfused(plan: Plan) -> bool:
    return plan.spec.performance.fused_layers is False


def _has_unfused_rope(plan: Plan) -> bool:
    """True without fused kernels, and for latent attention, whose kernel supports only YaRN."""
    model = plan.model.architecture
    return _is_unfused(plan) or (model.latent_attention is not None and not has_yarn(model))


def _has_unfused_bias(plan: Plan) -> bool:
    """True without fused kernels, and for grouped experts with biases, which do not have one.

    See `core/transformer/moe/experts.py` in megatron-core 0.19.2.
    """
    model = plan.model.architecture
    grouped = model.is_moe and plan.spec.performance.grouped_experts is True
    return _is_unfused(plan) or (grouped and model.linear_bias)


def _router_format(plan: Plan) -> str | None:
    """Return fp32 if the default of bf16 is too coarse, or DeepEP does not support it.

    In bf16, sigmoid scores of many experts would be equal.
    """
    moe = plan.model.architecture.moe
    if moe is None:
        return None
    return "fp32" if moe.score is RouterScore.SIGMOID or _has_flex(plan) else None


def _graph_modules(plan: Plan) -> tuple[str, ...] | None:
    """Return the parts of a layer that are recorded.

    Tokens are sent to experts in sizes that are only known during the step, which a graph cannot
    contain. Everything before that can be recorded.
    """
    if plan.spec.performance.cuda_graphs is not CudaGraphs.LAYERS:
        return None
    moe = plan.model.architecture.moe
    if moe is None:
        return "attn", "mlp"
    return "attn", "moe_router", "moe_preprocess"


_GRAPHS = {CudaGraphs.LAYERS: "transformer_engine", CudaGraphs.STEP: "full_iteration"}


def _has_flex(plan: Plan) -> bool:
    return plan.spec.performance.token_dispatcher in FLEX_DISPATCHERS


def _plain_dispatcher(plan: Plan) -> str:
    asked = plan.spec.performance.token_dispatcher
    return "alltoall" if asked is TokenDispatcher.AUTO else str(asked)


def _offloads(asked: PerformanceSpec) -> bool:
    return asked.optimizer_offload not in (0, "auto")


def _halves_moments(asked: PerformanceSpec) -> bool:
    return asked.moments is MomentPrecision.BF16


PERFORMANCE_FLAGS = (
    _switch("overlap-grad-reduce", "gradient_overlap"),
    _switch("overlap-param-gather", "parameter_overlap"),
    _switch("tp-comm-overlap", "tensor_overlap"),
    Flag(
        "no-overlap-p2p-communication",
        "performance.pipeline_overlap",
        lambda p: p.layout.vp_size > 1 and p.spec.performance.pipeline_overlap is False,
    ),
    _switch("overlap-moe-expert-parallel-comm", "expert_overlap"),
    _switch("moe-shared-expert-overlap", "shared_expert_overlap"),
    Flag(
        "moe-token-dispatcher-type",
        "performance.token_dispatcher",
        with_experts(lambda p: "flex" if _has_flex(p) else _plain_dispatcher(p)),
    ),
    Flag(
        "moe-flex-dispatcher-backend",
        "performance.token_dispatcher",
        lambda p: str(p.spec.performance.token_dispatcher) if _has_flex(p) else None,
    ),
    Flag("moe-router-dtype", "", _router_format),
    _switch("moe-grouped-gemm", "grouped_experts"),
    _switch("moe-permute-fusion", "fused_routing"),
    _switch("moe-router-fusion", "fused_routing"),
    _switch("cross-entropy-loss-fusion", "fused_loss"),
    # No field: a spec may disable one of them alone. Not bias-gelu-fusion: it decides between exact
    # and approximate GELU.
    Flag("no-rope-fusion", "", _has_unfused_rope),
    Flag("no-bias-dropout-fusion", "", _has_unfused_bias),
    *(
        Flag(f"no-{kernel}-fusion", "", _is_unfused)
        for kernel in ("bias-swiglu", "masked-softmax", "gradient-accumulation")
    ),
    _flag("cuda-graph-impl", "cuda_graphs", lambda asked: _GRAPHS.get(asked.cuda_graphs)),
    # The check needs the host, which does not take part in a recorded step. No field: a spec may
    # disable the check alone.
    Flag(
        "no-check-for-nan-in-loss-and-grad",
        "",
        lambda p: p.spec.performance.cuda_graphs is CudaGraphs.STEP,
    ),
    Flag("cuda-graph-modules", "performance.cuda_graphs", _graph_modules),
    _flag(
        "use-precision-aware-optimizer",
        "moments",
        lambda asked: _halves_moments(asked) or _offloads(asked),
    ),
    *(
        _flag(name, "moments", lambda asked: "bf16" if _halves_moments(asked) else None)
        for name in ("exp-avg-dtype", "exp-avg-sq-dtype")
    ),
    _flag("optimizer-cpu-offload", "optimizer_offload", _offloads),
    _flag(
        "optimizer-offload-fraction",
        "optimizer_offload",
        lambda asked: asked.optimizer_offload if _offloads(asked) else None,
    ),
    _flag("overlap-cpu-optimizer-d2h-h2d", "optimizer_offload", _offloads),
    _flag(
        "cpu-offloading-num-layers",
        "activation_offload",
        lambda asked: None if asked.activation_offload in (0, "auto") else asked.activation_offload,
    ),
)
"""The flags of the performance section."""


def hybrid_ep_environment(plan: Plan) -> dict[str, str]:
    """Return the variables in which HybridEP reads the NVLink domains; empty without it.

    A domain is a node: pods do not get NVLink between nodes. The names are those of Megatron-Bridge
    (scripts/performance/utils/utils.py@067f987d).
    """
    if plan.spec.performance.token_dispatcher is not TokenDispatcher.HYBRIDEP:
        return {}
    domain = plan.machines.processes_per_node
    ranks = min(plan.layout.ep_size * plan.layout.etp_size, domain)
    return {
        "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN": str(ranks),
        "NVLINK_DOMAIN_SIZE": str(domain),
        "USE_MNNVL": "0",
    }


ON_CPU: Arguments = {
    "tp-comm-overlap": None,
    "overlap-moe-expert-parallel-comm": None,
    "moe-flex-dispatcher-backend": None,
    "moe-grouped-gemm": None,
    "moe-permute-fusion": None,
    "moe-router-fusion": None,
    "cuda-graph-impl": None,
    "cuda-graph-modules": None,
    "use-precision-aware-optimizer": None,
    "exp-avg-dtype": None,
    "exp-avg-sq-dtype": None,
    "optimizer-cpu-offload": None,
    "optimizer-offload-fraction": None,
    "overlap-cpu-optimizer-d2h-h2d": None,
    "cpu-offloading-num-layers": None,
}
"""Flags that need a GPU, Transformer Engine or a second stream."""
EXECUTED_ON_CPU = frozenset(
    {
        "gradient_overlap",
        "parameter_overlap",
        "pipeline_overlap",
        "shared_expert_overlap",
        "fused_loss",
    }
)
"""Options that the twin has too."""


def on_cpu_performance(plan: Plan) -> Arguments:
    """Return the arguments that replace options which a CPU cannot execute."""
    if not _has_flex(plan):
        return dict(ON_CPU)
    return ON_CPU | {"moe-token-dispatcher-type": "alltoall"}


def not_on_cpu(plan: Plan) -> tuple[str, ...]:
    """Return the options of a plan that its twin does not have."""
    options = given_options(plan.spec)
    return tuple(
        name.replace("_", " ")
        for name in NAMES
        if options.is_on(name)
        and name not in EXECUTED_ON_CPU
        and not (name == "token_dispatcher" and not _has_flex(plan))
    )
