# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Performance options: Megatron's flags for them, what Megatron requires, and when they pay off.

The requirements are those of `validate_args` (megatron/training/arguments.py) and of
`TransformerConfig` (megatron/core/transformer/transformer_config.py) in 0.19.2.
"""

from collections.abc import Callable

from seatrial.engines.engine import Arguments, ArgumentValue
from seatrial.engines.megatron.model_flags import Flag, has_yarn, with_experts
from seatrial.planning.options import NAMES, EngineOption, OptionCase, OptionRule, given_options
from seatrial.planning.plan import Plan
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.performance import (
    CudaGraphs,
    MomentPrecision,
    PerformanceSpec,
    TokenDispatcher,
)
from seatrial.spec.training import OptimizerName, Precision


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
_DISPATCHERS = {TokenDispatcher.DEEPEP, TokenDispatcher.HYBRIDEP}


def _has_flex(plan: Plan) -> bool:
    return plan.spec.performance.token_dispatcher in _DISPATCHERS


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
    # Without it, only the forward pass of one micro-batch hides the exchange of another.
    _switch("delay-wgrad-compute", "expert_overlap"),
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
    _switch("moe-grouped-gemm", "grouped_experts"),
    _switch("moe-permute-fusion", "fused_routing"),
    _switch("moe-router-fusion", "fused_routing"),
    _switch("cross-entropy-loss-fusion", "fused_loss"),
    # No field: a spec may disable one of them alone. Not bias-gelu-fusion: it decides between exact
    # and approximate GELU.
    Flag("no-rope-fusion", "", _has_unfused_rope),
    *(
        Flag(f"no-{kernel}-fusion", "", _is_unfused)
        for kernel in ("bias-swiglu", "bias-dropout", "masked-softmax", "gradient-accumulation")
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


ON_CPU: Arguments = {
    "tp-comm-overlap": None,
    "overlap-moe-expert-parallel-comm": None,
    "delay-wgrad-compute": None,
    "moe-shared-expert-overlap": None,
    "moe-flex-dispatcher-backend": None,
    "moe-grouped-gemm": None,
    "moe-permute-fusion": None,
    "moe-router-fusion": None,
    "cross-entropy-loss-fusion": None,
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
EXECUTED_ON_CPU = frozenset({"gradient_overlap", "parameter_overlap", "pipeline_overlap"})
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
        if options.is_on(name) and name not in EXECUTED_ON_CPU
    )


def _replicas(case: OptionCase) -> int:
    """Return the number of ranks that reduce gradients with each other."""
    return case.layout.dp_size * case.layout.cp_size


def _no_experts(case: OptionCase) -> bool:
    return not case.model.is_moe


def _recomputes(module: RecomputeModule) -> Callable[[OptionCase], bool]:
    """True if selective recomputation covers a module."""
    return lambda case: (
        case.recompute is Recompute.SELECTIVE and module in case.spec.parallelism.recompute_modules
    )


def _unless(holds: Callable[[OptionCase], bool], reason: str) -> Callable[[OptionCase], str]:
    """Return the reason unless the condition holds."""
    return lambda case: "" if holds(case) else reason


NO_GPU = OptionRule(lambda case: not case.generation, "it needs a GPU.")
EXPERTS = OptionRule(_no_experts, "the model has no experts.")
EXPERTS_SPLIT = OptionRule(
    lambda case: case.layout.ep_size == 1, "ep is 1, so there is no expert communication."
)
SHARDED = OptionRule(
    lambda case: case.sharding is Sharding.NONE,
    "with sharding none, every rank has all parameters, so there is nothing to gather.",
    "parallelism.sharding=optimizer",
)
LOCAL_LAYERS = OptionRule(
    lambda case: case.spec.engine.options.get("transformer-impl") == "local",
    "only Transformer Engine's layers support it.",
)
DETERMINISTIC = OptionRule(
    lambda case: case.spec.training.deterministic,
    "its order of additions is not deterministic.",
    "training.deterministic=false",
)
ONE_KIND = "a run either offloads activations to the host or recomputes them, not both."
OFFERED = "it is slower unless memory is short; set it yourself if the model does not fit."


SEGMENTS, REGISTER = "PYTORCH_CUDA_ALLOC_CONF", "NCCL_GRAPH_REGISTER"


def _moves_buffers(case: OptionCase) -> bool:
    """True if buffers that NCCL registers for a graph can move."""
    env = case.spec.cluster.env
    return "expandable_segments:True" in env.get(SEGMENTS, "") and env.get(REGISTER) != "0"


OPTIONS = (
    EngineOption(
        "gradient_overlap",
        needless=_unless(
            lambda case: _replicas(case) > 1, "there is one model replica, so no traffic."
        ),
    ),
    EngineOption(
        "parameter_overlap",
        (
            OptionRule(
                lambda case: not case.options.gradient_overlap,
                "it works only with gradient overlap.",
                "performance.gradient_overlap=true",
            ),
            SHARDED,
        ),
    ),
    EngineOption(
        "tensor_overlap",
        (
            NO_GPU,
            OptionRule(lambda case: case.layout.tp_size == 1, "tp is 1, so there is no traffic."),
            OptionRule(
                lambda case: not case.sequence_parallel,
                "it works only with sequence parallelism.",
                "parallelism.sequence_parallel=true",
            ),
            LOCAL_LAYERS,
            DETERMINISTIC,
        ),
    ),
    EngineOption(
        "pipeline_overlap",
        (
            OptionRule(
                lambda case: case.layout.vp_size == 1,
                "only stages with several chunks (parallelism.vp_size) have it.",
            ),
        ),
    ),
    EngineOption("grouped_experts", (EXPERTS, NO_GPU)),
    EngineOption("fused_routing", (EXPERTS, NO_GPU, LOCAL_LAYERS)),
    EngineOption(
        "token_dispatcher",
        (EXPERTS, NO_GPU, EXPERTS_SPLIT),
        needless=lambda _: "the image is not known to contain DeepEP.",
        value=lambda _: TokenDispatcher.DEEPEP,
    ),
    EngineOption(
        "expert_overlap",
        (
            EXPERTS,
            NO_GPU,
            EXPERTS_SPLIT,
            LOCAL_LAYERS,
            OptionRule(
                lambda case: case.layout.pp_size > 1 and case.layout.vp_size == 1,
                "with pipeline parallelism, it works only with several chunks per stage "
                "(parallelism.vp_size).",
            ),
            OptionRule(
                lambda case: case.recompute is Recompute.FULL,
                "it does not work with full recomputation.",
                "parallelism.recompute=selective",
            ),
            OptionRule(
                _recomputes(RecomputeModule.MOE),
                "it does not work if whole mixture-of-experts blocks are recomputed.",
            ),
            OptionRule(
                lambda case: case.spec.training.precision is Precision.FP32,
                "it does not work in fp32.",
            ),
            OptionRule(
                lambda case: case.model.mtp_layers > 1,
                "it works with at most one layer for multi-token prediction.",
            ),
            OptionRule(
                lambda case: case.options.shared_expert_overlap,
                "shared expert overlap is on, and only one of the two works.",
                "performance.shared_expert_overlap=false",
            ),
        ),
        needless=_unless(
            lambda case: case.layout.ep_size * case.layout.etp_size > case.domain,
            "the experts of a layer are inside one NVLink domain, where the exchange is short.",
        ),
    ),
    EngineOption(
        "shared_expert_overlap",
        (
            EXPERTS,
            NO_GPU,
            EXPERTS_SPLIT,
            OptionRule(
                lambda case: (
                    case.model.moe is None or not case.model.moe.shared_expert_ffn_hidden_size
                ),
                "the model has no shared experts.",
            ),
            OptionRule(
                lambda case: case.options.expert_overlap,
                "expert overlap is on, and only one of the two works.",
                "performance.expert_overlap=false",
            ),
            OptionRule(
                _recomputes(RecomputeModule.SHARED_EXPERTS),
                "it does not work if shared experts are recomputed.",
            ),
        ),
    ),
    EngineOption("fused_loss", (NO_GPU, DETERMINISTIC)),
    EngineOption("fused_layers", (NO_GPU,)),
    EngineOption(
        "moments",
        (
            SHARDED,
            OptionRule(
                lambda case: case.spec.training.optimizer.name is OptimizerName.MUON,
                "Muon has one moment, which it keeps in fp32.",
            ),
        ),
        needless=lambda _: "moments in bf16 change the result; set them yourself to save memory.",
        value=lambda _: MomentPrecision.BF16,
    ),
    EngineOption(
        "optimizer_offload",
        (
            SHARDED,
            OptionRule(
                lambda case: case.spec.training.optimizer.name is OptimizerName.MUON,
                "it works only with AdamW.",
            ),
        ),
        needless=lambda _: OFFERED,
        value=lambda _: 1.0,
    ),
    EngineOption(
        "activation_offload",
        (
            NO_GPU,
            OptionRule(
                lambda case: case.layout.pp_size > 1,
                "layers cannot be offloaded to the CPU with pipeline parallelism.",
            ),
            OptionRule(lambda case: case.recompute is not Recompute.NONE, ONE_KIND),
        ),
        needless=lambda _: OFFERED,
        value=lambda _: 1,
    ),
    EngineOption(
        "cuda_graphs",
        (
            NO_GPU,
            LOCAL_LAYERS,
            OptionRule(
                _moves_buffers,
                f"NCCL registers the buffers of a graph, but expandable segments ({SEGMENTS}) can "
                "move these buffers.",
                f'cluster.env.{REGISTER}="0"',
            ),
            OptionRule(
                lambda case: case.model.is_moe and case.options.cuda_graphs is CudaGraphs.STEP,
                "a graph of the whole step cannot contain experts, which receive a different "
                "number of tokens in each step.",
                "performance.cuda_graphs=layers",
            ),
            OptionRule(
                lambda case: (
                    case.recompute is Recompute.FULL
                    and case.options.cuda_graphs is not CudaGraphs.STEP
                ),
                "graphs of layers do not work with full recomputation.",
                "parallelism.recompute=selective",
            ),
            OptionRule(
                _recomputes(RecomputeModule.MOE),
                "graphs of the router do not work if whole mixture-of-experts blocks are "
                "recomputed.",
            ),
            OptionRule(
                lambda case: bool(case.options.activation_offload),
                "graphs do not work with activations in the host's memory.",
                "performance.activation_offload=0",
            ),
            OptionRule(
                lambda case: (
                    case.spec.training.attention_dropout > 0
                    and case.recompute is Recompute.SELECTIVE
                ),
                "a graph cannot recompute attention with dropout.",
                "training.attention_dropout=0.0",
            ),
        ),
        needless=_unless(
            lambda case: case.model.is_moe,
            "a dense layer keeps the GPU busy while the host starts the next kernels.",
        ),
        value=lambda _: CudaGraphs.LAYERS,
    ),
)
"""The options that Megatron has, each after those it depends on."""
