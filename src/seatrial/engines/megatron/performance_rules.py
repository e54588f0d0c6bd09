# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Megatron requires of performance options, and when they pay off.

The requirements are those of `validate_args` (megatron/training/arguments.py) and of
`TransformerConfig` (megatron/core/transformer/transformer_config.py) in 0.19.2, and some that the
engine does not check, although the run would fail or be slower.
"""

from collections.abc import Callable
from dataclasses import replace

from seatrial.planning.options import EngineOption, OptionCase, OptionRule
from seatrial.spec.engine import OptionValue
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.performance import CudaGraphs, MomentPrecision, TokenDispatcher
from seatrial.spec.training import OptimizerName, Precision


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


def _recomputes_default(case: OptionCase) -> bool:
    """True if selective recomputation covers the engine's default, core attention."""
    return case.recompute is Recompute.SELECTIVE and not case.spec.parallelism.recompute_modules


def _passed(case: OptionCase, option: str) -> OptionValue | None:
    """Return the value of an option that the spec passes to the engine; None if it does not."""
    given = {name.replace("_", "-"): value for name, value in case.spec.engine.options.items()}
    return given.get(option)


def _passes(*options: str) -> Callable[[OptionCase], bool]:
    """True if the spec passes one of the options to the engine."""
    return lambda case: any(_passed(case, name) not in (None, False) for name in options)


def _graphs_needless(case: OptionCase) -> str:
    """Return why graphs of layers do not pay off: they help if the host is slower than the GPU."""
    if not case.model.is_moe:
        return "a dense layer keeps the GPU busy while the host starts the next kernels."
    return "in published runs with experts, graphs of layers save no time; they also take memory."


def _loss_rounds(case: OptionCase) -> str:
    """Return why the fused loss is left off: its backward pass always returns bf16.

    See `core/fusions/fused_cross_entropy.py` in megatron-core 0.19.2.
    """
    precision = case.spec.training.precision
    if precision in (Precision.FP32, Precision.FP16):
        return f"it rounds the gradients of the logits to bf16, also in {precision}."
    return ""


def _expert_overlap_needless(case: OptionCase) -> str:
    """Return why overlapping the exchange does not pay off."""
    if case.layout.ep_size * case.layout.etp_size <= case.domain:
        return "the experts of a layer are inside one NVLink domain, where the exchange is short."
    splits = case.layout.tp_size > 1 or case.layout.cp_size > 1
    if splits and not case.generation.startswith("Blackwell"):
        return (
            "before Blackwell, tensor and context parallelism need one connection to the GPU, and "
            "this overlap needs several."
        )
    return ""


def _unless(holds: Callable[[OptionCase], bool], reason: str) -> Callable[[OptionCase], str]:
    """Return the reason unless the condition holds."""
    return lambda case: "" if holds(case) else reason


NO_GPU = OptionRule(lambda case: not case.generation, "it needs a GPU.")
EXPERTS = OptionRule(_no_experts, "the model has no experts.")
EXPERTS_SPLIT = OptionRule(
    lambda case: case.model.is_moe and case.layout.ep_size == 1,
    "ep is 1, so there is no expert communication.",
)
SHARDED = OptionRule(
    lambda case: case.sharding is Sharding.NONE,
    "with sharding none, every rank has all parameters, so there is nothing to gather.",
    "parallelism.sharding=optimizer",
)
ALWAYS_OVERLAPS = OptionRule(
    lambda case: case.sharding is Sharding.FSDP,
    "FSDP always overlaps its communication, whatever this option says.",
    "parallelism.sharding=optimizer",
    clashes=True,
)
SHARDED_OPTIMIZER = OptionRule(
    lambda case: case.sharding is not Sharding.OPTIMIZER,
    "it works only with the distributed optimizer.",
    "parallelism.sharding=optimizer",
)
ALLGATHER = OptionRule(
    lambda case: case.options.token_dispatcher is TokenDispatcher.ALLGATHER,
    "it does not work with the allgather dispatcher.",
    "performance.token_dispatcher=alltoall",
    clashes=True,
)
LOCAL_LAYERS = OptionRule(
    lambda case: _passed(case, "transformer-impl") == "local",
    "only Transformer Engine's layers support it.",
)
DETERMINISTIC = OptionRule(
    lambda case: case.spec.training.deterministic,
    "its order of additions is not deterministic.",
    "training.deterministic=false",
    clashes=True,
)


def _unless_allgather(rule: OptionRule) -> OptionRule:
    """Return a rule that does not hold for the allgather dispatcher, which works everywhere."""
    return replace(rule, holds=lambda case: rule.holds(case) and not ALLGATHER.holds(case))


ONE_KIND = "a run either offloads activations to the host or recomputes them, not both."
OFFERED = "it is slower unless memory is short; set it yourself if the model does not fit."


def _has_no_multicast(case: OptionCase) -> bool:
    """True if the GPUs are not connected by an NVSwitch with multicast, unless it is skipped."""
    connected = case.generation in MULTICASTING and case.domain >= SWITCHED
    return bool(case.generation) and not connected and case.spec.cluster.env.get(MULTICAST) != "1"


def _fixes_micro_batches(case: OptionCase) -> bool:
    """True if graphs are recorded for a number of micro-batches that changes during the run."""
    fixed = (
        case.options.cuda_graphs is CudaGraphs.STEP
        or case.layout.pp_size > 1
        or case.options.expert_overlap
    )
    return fixed and bool(case.spec.training.batch_schedule)


MULTICAST = "UB_SKIPMC"
"""Makes Transformer Engine work without multicast (`initialize_ub`)."""
MULTICASTING = ("Hopper", "Blackwell", "Blackwell Ultra")
SWITCHED = 4
"""GPUs of the smallest NVLink domains with a switch; bridges connect two."""
SEGMENTS, REGISTER = "PYTORCH_CUDA_ALLOC_CONF", "NCCL_GRAPH_REGISTER"


def _moves_buffers(case: OptionCase) -> bool:
    """True if buffers that NCCL registers for a graph can move."""
    env = case.spec.cluster.env
    return "expandable_segments:True" in env.get(SEGMENTS, "") and env.get(REGISTER) != "0"


MULTINODE = "HYBRID_EP_MULTINODE"
"""The variable with which HybridEP is built to connect several NVLink domains (setup.py in
deepseek-ai/DeepEP, branch hybrid-ep)."""


def _leaves_hybrid_domain(case: OptionCase) -> bool:
    """True if HybridEP must connect NVLink domains, which most builds of it cannot."""
    return (
        case.options.token_dispatcher is TokenDispatcher.HYBRIDEP
        and 0 < case.domain < case.layout.ep_size * case.layout.etp_size
        and case.spec.cluster.env.get(MULTINODE) != "1"
    )


OPTIONS = (
    EngineOption(
        "gradient_overlap",
        required=ALWAYS_OVERLAPS,
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
            OptionRule(
                _passes("save-params-interval"),
                "save-params-interval reads weights before they are gathered.",
            ),
        ),
        required=ALWAYS_OVERLAPS,
    ),
    EngineOption(
        "tensor_overlap",
        (
            NO_GPU,
            OptionRule(lambda case: case.layout.tp_size == 1, "tp is 1, so there is no traffic."),
            OptionRule(
                lambda case: 0 < case.domain < case.layout.tp_size,
                "the tensor-parallel ranks are not in one NVLink domain.",
            ),
            OptionRule(
                _has_no_multicast,
                "Transformer Engine needs multicast for it, which only an NVSwitch of Hopper or "
                "newer GPUs has.",
                f'cluster.env.{MULTICAST}="1"',
                clashes=True,
            ),
            OptionRule(
                lambda case: case.model.latent_attention is not None or bool(case.model.mtp_layers),
                "Megatron silently switches it off for models with latent attention or multi-token "
                "prediction.",
            ),
            OptionRule(
                lambda case: case.spec.training.precision is Precision.NVFP4,
                "Transformer Engine does not support it in nvfp4.",
            ),
            OptionRule(
                lambda case: not case.sequence_parallel,
                "it works only with sequence parallelism.",
                "parallelism.sequence_parallel=true",
            ),
            LOCAL_LAYERS,
            DETERMINISTIC,
        ),
        needless=_unless(_no_experts, "no published recipe for a model with experts has it."),
    ),
    EngineOption(
        "pipeline_overlap",
        (
            OptionRule(
                lambda case: case.layout.vp_size == 1,
                "only stages with several chunks (parallelism.vp_size) have it.",
            ),
        ),
        required=OptionRule(
            lambda case: case.layout.vp_size > 1 and case.layout.pp_size == 2,
            "two stages with several chunks need it.",
            "performance.pipeline_overlap=true",
        ),
    ),
    EngineOption(
        "grouped_experts",
        (EXPERTS, NO_GPU),
        required=OptionRule(
            _recomputes(RecomputeModule.MOE_ACT),
            "only grouped experts can recompute their activation (moe_act).",
            "performance.grouped_experts=true",
        ),
    ),
    EngineOption("fused_routing", (EXPERTS, NO_GPU, LOCAL_LAYERS)),
    EngineOption(
        "token_dispatcher",
        (
            EXPERTS,
            _unless_allgather(NO_GPU),
            _unless_allgather(EXPERTS_SPLIT),
            OptionRule(
                lambda case: (
                    case.options.token_dispatcher is TokenDispatcher.DEEPEP
                    and case.accelerator.startswith("gb")
                ),
                "DeepEP does not support GB200 and GB300.",
                "performance.token_dispatcher=hybridep",
                clashes=True,
            ),
            OptionRule(
                _leaves_hybrid_domain,
                "the experts of a layer are in several NVLink domains, and HybridEP connects these "
                f"only if it was built with {MULTINODE}=1. If your image's was, set "
                f"cluster.env.{MULTINODE}.",
                "performance.token_dispatcher=alltoall",
                clashes=True,
            ),
        ),
        needless=lambda _: "the image is not known to contain DeepEP.",
        value=lambda _: TokenDispatcher.DEEPEP,
    ),
    EngineOption(
        "expert_overlap",
        (
            EXPERTS,
            NO_GPU,
            EXPERTS_SPLIT,
            ALLGATHER,
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
                clashes=True,
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
                lambda case: case.sharding is Sharding.FSDP,
                "it is not tested with FSDP.",
                "parallelism.sharding=optimizer",
                clashes=True,
            ),
            OptionRule(
                lambda case: case.model.mtp_layers > 1,
                "it works with at most one layer for multi-token prediction.",
            ),
            OptionRule(
                lambda case: case.options.shared_expert_overlap,
                "shared expert overlap is on, and only one of the two works.",
                "performance.shared_expert_overlap=false",
                clashes=True,
            ),
        ),
        needless=_expert_overlap_needless,
    ),
    EngineOption(
        "shared_expert_overlap",
        (
            EXPERTS,
            NO_GPU,
            EXPERTS_SPLIT,
            ALLGATHER,
            OptionRule(
                lambda case: (
                    case.model.moe is not None and not case.model.moe.shared_expert_ffn_hidden_size
                ),
                "the model has no shared experts.",
            ),
            OptionRule(
                lambda case: case.options.expert_overlap,
                "expert overlap is on, and only one of the two works.",
                "performance.expert_overlap=false",
                clashes=True,
            ),
            OptionRule(
                _recomputes(RecomputeModule.SHARED_EXPERTS),
                "it does not work if shared experts are recomputed.",
            ),
        ),
        needless=lambda _: "no published recipe has it.",
    ),
    EngineOption("fused_loss", (NO_GPU, DETERMINISTIC), needless=_loss_rounds),
    EngineOption("fused_layers", (NO_GPU,)),
    EngineOption(
        "moments",
        (
            SHARDED_OPTIMIZER,
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
            SHARDED_OPTIMIZER,
            OptionRule(
                lambda case: case.spec.training.optimizer.name is OptimizerName.MUON,
                "it works only with AdamW.",
            ),
            OptionRule(
                lambda case: (
                    _passes("fp8-param-gather")(case)
                    and case.spec.training.precision is Precision.MXFP8
                ),
                "with weights in 8 bits (fp8-param-gather), it works only in fp8.",
                "training.precision=fp8",
                clashes=True,
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
            OptionRule(
                lambda case: case.options.activation_offload >= case.model.layers,
                "at least one layer must stay on the GPU.",
            ),
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
                clashes=True,
            ),
            OptionRule(
                lambda case: case.model.is_moe and case.options.cuda_graphs is CudaGraphs.STEP,
                "a graph of the whole step cannot contain experts, which receive a different "
                "number of tokens in each step.",
                "performance.cuda_graphs=layers",
                clashes=True,
            ),
            OptionRule(
                lambda case: (
                    case.recompute is Recompute.FULL
                    and case.options.cuda_graphs is not CudaGraphs.STEP
                ),
                "graphs of layers do not work with full recomputation.",
                "parallelism.recompute=selective",
                clashes=True,
            ),
            OptionRule(
                _recomputes(RecomputeModule.MOE),
                "graphs of the router do not work if whole mixture-of-experts blocks are "
                "recomputed.",
            ),
            OptionRule(
                _passes("moe-expert-capacity-factor", "moe-router-padding-for-fp8"),
                "graphs of the router do not work if tokens are dropped or padded.",
            ),
            OptionRule(
                _fixes_micro_batches,
                "the engine records these graphs once, for the micro-batches of the first batch "
                "size, but training.batch_schedule changes their number.",
            ),
            OptionRule(
                lambda case: (
                    bool(case.options.activation_offload)
                    and case.options.cuda_graphs is not CudaGraphs.STEP
                ),
                "graphs of layers do not work with activations in the host's memory.",
                "performance.activation_offload=0",
                clashes=True,
            ),
            OptionRule(
                lambda case: (
                    case.spec.training.attention_dropout > 0
                    and (
                        _recomputes_default(case)
                        or _recomputes(RecomputeModule.CORE_ATTENTION)(case)
                    )
                ),
                "a graph cannot recompute attention with dropout.",
                "training.attention_dropout=0.0",
                clashes=True,
            ),
            OptionRule(
                lambda case: (
                    case.spec.training.hidden_dropout > 0
                    and not case.model.is_moe
                    and _recomputes(RecomputeModule.MLP)(case)
                ),
                "a graph cannot recompute a feed-forward block with dropout.",
                "training.hidden_dropout=0.0",
                clashes=True,
            ),
        ),
        needless=_graphs_needless,
        value=lambda _: CudaGraphs.LAYERS,
    ),
)
"""The options that Megatron has, each after those it depends on."""
