# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron options that contradict each other or the plan, based on Megatron's own validation.

The engine check runs Megatron itself and needs torch. This module checks, without torch, those
contradictions from `validate_args` and the configuration classes that users have encountered.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from seatrial.engines.megatron.parser_options import VERSION
from seatrial.planning.plan import Plan
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import Precision

NARROW = (Precision.FP8, Precision.MXFP8, Precision.NVFP4)
HALF = (Precision.FP16, Precision.BF16, Precision.FP8, Precision.MXFP8, Precision.NVFP4)


@dataclass(frozen=True, slots=True)
class Passed:
    """The arguments of a run as passed to the engine, and the plan behind them."""

    plan: Plan
    arguments: dict[str, object]
    """The engine's arguments by name, without leading dashes."""

    def on(self, name: str) -> bool:
        """True if an option is set and not false."""
        value = self.arguments.get(name)
        return value is not None and value is not False

    def number(self, name: str) -> int:
        """Return the integer value of an option; 0 if it has no integer value."""
        value = self.arguments.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def words(self, name: str) -> tuple[str, ...]:
        """Return the values of an option."""
        value = self.arguments.get(name)
        return tuple(map(str, value)) if isinstance(value, tuple) else (self.word(name),)

    def word(self, name: str) -> str:
        """Return the value of an option as text; empty if it has no value."""
        return str(self.arguments.get(name) or "")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A condition under which the engine rejects an option."""

    option: str
    """The option that the finding is about."""
    holds: Callable[[Passed], bool]
    """True if the arguments have this contradiction."""
    rule: str
    by: str = ""
    """The override that fixes the contradiction; empty if the option must be removed."""


def _unless_sharded(passed: Passed) -> bool:
    return passed.plan.sharding is Sharding.NONE


def _without(*options: str) -> Callable[[Passed], bool]:
    """True if none of the options is set."""
    return lambda passed: not any(passed.on(option) for option in options)


def _other_than(option: str, *values: str, without: str = "") -> Callable[[Passed], bool]:
    """True if an option has none of the values, and the option `without` is not set."""
    return lambda passed: passed.word(option) not in values and not passed.on(without)


def _narrow(passed: Passed) -> bool:
    return passed.plan.spec.training.precision in NARROW


def _delays_in_graphs(passed: Passed) -> bool:
    """True if a graph contains weight gradients that are reduced while others are computed."""
    return "attn" in passed.words("cuda-graph-modules") and passed.on("overlap-grad-reduce")


def _always(_: Passed) -> bool:
    return True


EXPERTS = (
    *(
        Contradiction(
            name,
            _without("moe-grouped-gemm"),
            f"{name} works only with moe-grouped-gemm, which needs experts.",
        )
        for name in ("moe-single-grouped-weight", "moe-single-grouped-bias")
    ),
    Contradiction(
        "moe-expert-rank-capacity-factor",
        _other_than("moe-flex-dispatcher-backend", "hybridep", "ncclep"),
        "moe-expert-rank-capacity-factor works only with moe-flex-dispatcher-backend hybridep or "
        "ncclep.",
    ),
    Contradiction(
        "moe-paged-stash",
        _without("moe-expert-rank-capacity-factor"),
        "moe-paged-stash needs moe-expert-rank-capacity-factor.",
    ),
    *(
        Contradiction(
            name,
            lambda p: not _narrow(p),
            f"{name} works only with an 8-bit or 4-bit precision.",
        )
        for name in ("moe-router-padding-for-fp8", "moe-router-padding-for-quantization")
    ),
)

CONTRADICTIONS = (
    Contradiction(
        "overlap-param-gather-with-optimizer-step",
        lambda _: True,
        "overlap-param-gather-with-optimizer-step does not work with distributed checkpoints, "
        "which every Seatrial run writes.",
    ),
    Contradiction(
        "fp16-lm-cross-entropy",
        lambda p: p.plan.spec.training.precision is not Precision.FP16,
        "fp16-lm-cross-entropy works only with precision fp16.",
    ),
    Contradiction(
        "fp32-residual-connection",
        lambda p: p.plan.spec.training.precision not in HALF,
        "fp32-residual-connection works only with half precision, but the precision is fp32.",
    ),
    Contradiction(
        "log-memory-interval",
        lambda p: p.number("log-memory-interval") % p.number("log-interval") != 0,
        "log-memory-interval must be a multiple of the log interval (monitoring.log_every_steps).",
    ),
    Contradiction(
        "distribute-saved-activations",
        lambda p: p.plan.layout.tp_size == 1,
        "tp is 1, so there are no ranks to distribute saved activations over.",
    ),
    Contradiction(
        "distribute-saved-activations",
        lambda p: p.plan.layout.tp_size > 1 and p.plan.recompute is not Recompute.FULL,
        "distribute-saved-activations works only with full recomputation.",
        "parallelism.recompute=full",
    ),
    *(
        Contradiction(
            name,
            _other_than(name, "fp32", without="use-precision-aware-optimizer"),
            f"only the precision-aware optimizer supports values of {name} other than fp32.",
            "performance.moments=bf16",
        )
        for name in ("main-params-dtype", "main-grads-dtype")
    ),
    Contradiction(
        "fp8-param-gather",
        lambda p: p.plan.spec.training.precision not in (Precision.FP8, Precision.MXFP8),
        "the precision is not fp8, so there are no 8-bit parameters to gather.",
    ),
    Contradiction(
        "fp8-param-gather",
        _unless_sharded,
        "with sharding none, every rank has all parameters, so there is nothing to gather.",
        "parallelism.sharding=optimizer",
    ),
    Contradiction(
        "fp4-param-gather",
        lambda p: p.plan.spec.training.precision is not Precision.NVFP4,
        "the precision is not nvfp4, so there are no 4-bit parameters to gather.",
    ),
    Contradiction(
        "num-distributed-optimizer-instances",
        lambda p: p.number("num-distributed-optimizer-instances") > 1 and p.plan.layout.ep_size > 1,
        "multiple instances of the distributed optimizer do not work with expert parallelism.",
    ),
    Contradiction(
        "num-distributed-optimizer-instances",
        lambda p: bool(
            p.plan.layout.dp_size % max(1, p.number("num-distributed-optimizer-instances"))
        ),
        "the number of data-parallel ranks must be divisible by "
        "num-distributed-optimizer-instances.",
    ),
    Contradiction(
        "transformer-impl",
        lambda p: p.word("transformer-impl") == "local" and p.plan.layout.cp_size > 1,
        "only Transformer Engine's attention supports context parallelism.",
    ),
    Contradiction(
        "transformer-impl",
        lambda p: p.word("transformer-impl") == "local" and _narrow(p),
        "only Transformer Engine's layers support 8-bit and 4-bit matrix multiplications.",
    ),
    Contradiction(
        "cross-entropy-fusion-impl",
        lambda p: p.word("cross-entropy-fusion-impl") == "te" and p.on("cross-entropy-loss-fusion"),
        "Megatron has disabled Transformer Engine's fused cross entropy because it is unstable.",
        "engine.options.cross-entropy-fusion-impl=native",
    ),
    Contradiction(
        "defer-embedding-wgrad-compute",
        lambda p: p.plan.layout.pp_size == 1,
        "defer-embedding-wgrad-compute uses the pipeline bubble, but pp is 1.",
    ),
    Contradiction(
        "ddp-average-in-collective",
        lambda p: p.on("calculate-per-token-loss"),
        "gradients cannot be averaged in the collective if the loss is per token.",
    ),
    Contradiction(
        "hierarchical-context-parallel-sizes",
        lambda p: _product(p, "hierarchical-context-parallel-sizes") != p.plan.layout.cp_size,
        "the product of hierarchical-context-parallel-sizes must equal cp.",
    ),
    Contradiction(
        "cp-comm-type",
        lambda p: (
            "a2a+p2p" in p.word("cp-comm-type") and not p.on("hierarchical-context-parallel-sizes")
        ),
        "a2a+p2p needs hierarchical-context-parallel-sizes.",
    ),
    Contradiction(
        "moe-pad-expert-input-to-capacity",
        lambda p: not p.on("moe-expert-capacity-factor"),
        "moe-pad-expert-input-to-capacity needs moe-expert-capacity-factor, which sets the size "
        "to pad to.",
    ),
    *(
        Contradiction(
            name,
            lambda p: p.word("weight-decay-incr-style") in ("", "constant"),
            f"{name} works only with an increasing weight decay, but the weight decay is constant.",
        )
        for name in ("start-weight-decay", "end-weight-decay")
    ),
    *(
        Contradiction(
            name,
            lambda p: p.plan.layout.pp_size > 1,
            f"the plan splits the layers without {name}, so the stages would not match the plan.",
        )
        for name in (
            "account-for-embedding-in-pipeline-split",
            "account-for-loss-in-pipeline-split",
        )
    ),
    Contradiction(
        "init-method-xavier-uniform",
        _always,
        f"Megatron {VERSION} fails with a TypeError if init-method-xavier-uniform is set.",
    ),
    *(
        Contradiction(name, _always, f"{name} works only with inference layers.")
        for name in ("inference-disable-triton-nvls-kernels", "inference-fuse-tp-communication")
    ),
    Contradiction(
        "mla-down-proj-fusion",
        lambda p: p.plan.model.architecture.latent_attention is None,
        "mla-down-proj-fusion works only with latent attention, which the model does not have.",
    ),
    Contradiction(
        "batch-invariant-mode",
        _other_than("attention-backend", "flash"),
        "batch-invariant-mode works only with attention-backend flash.",
        "engine.options.attention-backend=flash",
    ),
    Contradiction(
        "batch-invariant-mode",
        _other_than("flash-attention-version", "3", "4"),
        "batch-invariant-mode works only with flash-attention-version 3 or 4.",
        "engine.options.flash-attention-version=3",
    ),
    Contradiction(
        "attention-backend",
        lambda p: p.word("attention-backend") == "local" and p.arguments.get("spec") != ("local",),
        "attention-backend local works only with spec local.",
        "engine.options.spec=[local]",
    ),
    Contradiction(
        "inference-cuda-graph-scope",
        lambda p: (
            p.word("inference-cuda-graph-scope") in ("layer", "block")
            and p.word("cuda-graph-impl") in ("", "none")
        ),
        "inference-cuda-graph-scope sets the scope of CUDA graphs, which are disabled.",
    ),
    *(
        Contradiction(
            name,
            _without("overlap-moe-expert-parallel-comm"),
            f"{name} works only with expert overlap.",
            "performance.expert_overlap=true",
        )
        for name in ("delay-wgrad-compute", "ep-overlap-early-attn-memory-release")
    ),
    Contradiction(
        "delay-wgrad-compute",
        lambda p: (
            _delays_in_graphs(p) and (p.on("add-qkv-bias") or not p.on("disable-bias-linear"))
        ),
        "graphs of attention with biases cannot delay weight gradients (delay-wgrad-compute).",
        "performance.cuda_graphs=none",
    ),
    Contradiction(
        "delay-wgrad-compute",
        lambda p: _delays_in_graphs(p) and p.on("no-gradient-accumulation-fusion"),
        "graphs can delay weight gradients (delay-wgrad-compute) only with fused gradient "
        "accumulation.",
        "performance.fused_layers=true",
    ),
    Contradiction(
        "delay-wgrad-compute",
        lambda p: p.word("transformer-impl") == "local",
        "only Transformer Engine's layers can delay weight gradients (delay-wgrad-compute).",
    ),
    Contradiction(
        "overlap-p2p-communication-warmup-flush",
        lambda p: p.plan.layout.vp_size == 1 or p.on("no-overlap-p2p-communication"),
        "only virtual stages (parallelism.vp_size) overlap their communication with computation.",
    ),
    Contradiction(
        "fine-grained-activation-offloading",
        _without("offload-modules"),
        "fine-grained-activation-offloading needs offload-modules.",
        "engine.options.offload-modules=[core_attn]",
    ),
    Contradiction(
        "fp8-output-proj",
        lambda p: p.plan.spec.training.precision not in (Precision.FP8, Precision.MXFP8),
        "fp8-output-proj works only with precision fp8 or mxfp8.",
    ),
    Contradiction(
        "fsdp-manual-registration",
        lambda p: p.plan.sharding is not Sharding.FSDP,
        "fsdp-manual-registration works only with sharding fsdp.",
    ),
    Contradiction(
        "logits-save-dir",
        _without("logits-save-top-k"),
        "logits-save-dir needs logits-save-top-k.",
        "engine.options.logits-save-top-k=100",
    ),
    Contradiction(
        "num-dataset-builder-threads",
        lambda p: p.number("num-dataset-builder-threads") < 1,
        "num-dataset-builder-threads must be at least 1.",
        "engine.options.num-dataset-builder-threads=1",
    ),
    Contradiction(
        "phase-transition-iterations",
        lambda p: (
            not re.fullmatch(r"\s*-?\d+\s*(,\s*-?\d+\s*)*", p.word("phase-transition-iterations"))
        ),
        "phase-transition-iterations must be a comma-separated list of steps, such as '1000,2000'.",
    ),
    Contradiction(
        "weight-decay-incr-style",
        lambda p: (
            p.word("weight-decay-incr-style") != "constant"
            and not (p.on("start-weight-decay") and p.on("end-weight-decay"))
        ),
        "an increasing weight decay needs start-weight-decay and end-weight-decay.",
    ),
    *EXPERTS,
)
"""Contradictions in the order in which the engine checks them."""


def _product(passed: Passed, name: str) -> int:
    """Return the product of an option's numbers; 0 if it does not consist of numbers."""
    words = passed.arguments.get(name)
    if not isinstance(words, tuple) or not all(str(word).isdigit() for word in words):
        return 0
    return prod(int(word) for word in words)
