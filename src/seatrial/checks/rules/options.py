# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about options that a spec passes through to Megatron, read from its own validation.

The engine check asks Megatron itself and needs torch. These are the contradictions of its
`validate_args` and of its configuration classes that users have met, said beforehand.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from seatrial.checks.codes import CheckCode
from seatrial.checks.situation import Checked, Situation, static
from seatrial.engines.registry import ENGINES
from seatrial.planning.plan import Plan
from seatrial.spec.engine import EngineName
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import Precision

MEGATRON = ENGINES[EngineName.MEGATRON]
HALF = (Precision.FP16, Precision.BF16, Precision.FP8, Precision.MXFP8, Precision.NVFP4)


@dataclass(frozen=True, slots=True)
class Passed:
    """The arguments of a run as the engine gets them, and the plan behind them."""

    plan: Plan
    """The plan."""
    arguments: dict[str, object]
    """The engine's arguments by name, without the dashes before it."""

    def on(self, name: str) -> bool:
        """Whether an option is given, and not switched off."""
        return self.arguments.get(name) not in (None, False)

    def number(self, name: str) -> int:
        """The whole number of an option; 0 when it has none."""
        value = self.arguments.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def word(self, name: str) -> str:
        """The text of an option; empty when it has none."""
        return str(self.arguments.get(name) or "")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Something that the engine refuses about one option."""

    option: str
    """The option that the finding is placed at."""
    holds: Callable[[Passed], bool]
    """Whether the arguments contradict each other so."""
    rule: str
    """What is wrong."""
    by: str = ""
    """The override that mends it; removing the option when empty."""


def _unless_sharded(passed: Passed) -> bool:
    return passed.plan.sharding is Sharding.NONE


CONTRADICTIONS = (
    Contradiction(
        "overlap-param-gather",
        lambda p: not p.on("overlap-grad-reduce"),
        "overlap-param-gather works only with overlap-grad-reduce.",
        "engine.options.overlap-grad-reduce=true",
    ),
    Contradiction(
        "overlap-param-gather",
        _unless_sharded,
        "with sharding none every rank has all parameters, and there is nothing to gather.",
        "parallelism.sharding=optimizer",
    ),
    Contradiction(
        "overlap-param-gather-with-optimizer-step",
        lambda _: True,
        "it does not work with distributed checkpoints, which every run of Seatrial writes.",
    ),
    Contradiction(
        "tp-comm-overlap",
        lambda p: not p.plan.sequence_parallel and p.plan.layout.tp_size > 1,
        "tp-comm-overlap works only with sequence parallelism.",
        "parallelism.sequence_parallel=true",
    ),
    Contradiction(
        "tp-comm-overlap",
        lambda p: p.plan.layout.tp_size == 1,
        "tp is 1, so there is no communication to overlap.",
    ),
    Contradiction(
        "fp16-lm-cross-entropy",
        lambda p: p.plan.spec.training.precision is not Precision.FP16,
        "the loss in fp16 works only where the precision is fp16.",
    ),
    Contradiction(
        "fp32-residual-connection",
        lambda p: p.plan.spec.training.precision not in HALF,
        "residual connections in fp32 are for half precision, and here everything is fp32.",
    ),
    Contradiction(
        "log-memory-interval",
        lambda p: p.number("log-memory-interval") % p.number("log-interval") != 0,
        "it has to be a multiple of the steps between log lines (monitoring.log_every_steps).",
    ),
    Contradiction(
        "distribute-saved-activations",
        lambda p: p.plan.layout.tp_size == 1,
        "tp is 1, so there are no ranks to distribute saved activations over.",
    ),
    Contradiction(
        "distribute-saved-activations",
        lambda p: p.plan.layout.tp_size > 1 and p.plan.recompute is not Recompute.FULL,
        "it works only with full recomputation.",
        "parallelism.recompute=full",
    ),
    Contradiction(
        "optimizer-cpu-offload",
        lambda p: not p.on("use-precision-aware-optimizer"),
        "optimizer-cpu-offload works only with use-precision-aware-optimizer.",
        "engine.options.use-precision-aware-optimizer=true",
    ),
    Contradiction(
        "use-precision-aware-optimizer",
        _unless_sharded,
        "the precision-aware optimizer is a distributed one.",
        "parallelism.sharding=optimizer",
    ),
    *(
        Contradiction(
            name,
            lambda p: not p.on("use-precision-aware-optimizer"),
            f"{name} is read only by the precision-aware optimizer.",
            "engine.options.use-precision-aware-optimizer=true",
        )
        for name in ("main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype")
    ),
    Contradiction(
        "fp8-param-gather",
        lambda p: p.plan.spec.training.precision not in (Precision.FP8, Precision.MXFP8),
        "the precision is not fp8, so there is nothing in 8 bits to gather.",
    ),
    Contradiction(
        "fp8-param-gather",
        _unless_sharded,
        "with sharding none every rank has all parameters, and there is nothing to gather.",
        "parallelism.sharding=optimizer",
    ),
    Contradiction(
        "fp4-param-gather",
        lambda p: p.plan.spec.training.precision is not Precision.NVFP4,
        "the precision is not nvfp4, so there is nothing in 4 bits to gather.",
    ),
    Contradiction(
        "num-distributed-optimizer-instances",
        lambda p: p.number("num-distributed-optimizer-instances") > 1 and p.plan.layout.ep_size > 1,
        "several instances of the distributed optimizer do not work with expert parallelism.",
    ),
    Contradiction(
        "num-distributed-optimizer-instances",
        lambda p: bool(
            p.plan.layout.dp_size % max(1, p.number("num-distributed-optimizer-instances"))
        ),
        "the data-parallel ranks cannot be shared out over so many instances.",
    ),
    Contradiction(
        "transformer-impl",
        lambda p: p.word("transformer-impl") == "local" and p.plan.layout.cp_size > 1,
        "only the attention of Transformer Engine can share a sequence out over cp.",
    ),
    Contradiction(
        "transformer-impl",
        lambda p: (
            p.word("transformer-impl") == "local"
            and p.plan.spec.training.precision in (Precision.FP8, Precision.MXFP8, Precision.NVFP4)
        ),
        "the local layers have no products in 8 or 4 bits; Transformer Engine's have.",
    ),
    Contradiction(
        "cross-entropy-fusion-impl",
        lambda p: p.word("cross-entropy-fusion-impl") == "te" and p.on("cross-entropy-loss-fusion"),
        "Megatron has switched the fused loss of Transformer Engine off: it is not stable.",
        "engine.options.cross-entropy-fusion-impl=native",
    ),
    Contradiction(
        "optimizer",
        lambda p: p.word("optimizer") == "sgd" and p.plan.sharding is not Sharding.NONE,
        "the distributed optimizer works with Adam only.",
    ),
    Contradiction(
        "cpu-offloading-num-layers",
        lambda p: p.number("cpu-offloading-num-layers") > 0 and p.plan.layout.pp_size > 1,
        "layers cannot be moved to the host's memory with pipeline parallelism.",
    ),
    Contradiction(
        "cpu-offloading-num-layers",
        lambda p: (
            p.number("cpu-offloading-num-layers") > 0 and p.plan.recompute is not Recompute.NONE
        ),
        "activations are either moved to the host's memory or computed again, not both.",
    ),
    Contradiction(
        "defer-embedding-wgrad-compute",
        lambda p: p.plan.layout.pp_size == 1,
        "it fills the bubble of a pipeline, and pp is 1.",
    ),
    Contradiction(
        "overlap-moe-expert-parallel-comm",
        lambda p: p.plan.layout.ep_size == 1,
        "ep is 1, so there is no communication of experts to overlap.",
    ),
    Contradiction(
        "ddp-average-in-collective",
        lambda p: p.on("calculate-per-token-loss"),
        "gradients cannot be averaged on the way where the loss is counted by tokens.",
    ),
    Contradiction(
        "hierarchical-context-parallel-sizes",
        lambda p: _product(p, "hierarchical-context-parallel-sizes") != p.plan.layout.cp_size,
        "the sizes have to come to cp when they are multiplied.",
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
        "it needs moe-expert-capacity-factor, to which it would pad.",
    ),
    *(
        Contradiction(
            name,
            lambda p: p.word("weight-decay-incr-style") in ("", "constant"),
            f"{name} is for a weight decay that grows, and it is constant.",
        )
        for name in ("start-weight-decay", "end-weight-decay")
    ),
    *(
        Contradiction(
            name,
            lambda p: p.plan.layout.pp_size > 1,
            "the plan shares out the layers without it, and its stages would be others.",
        )
        for name in (
            "account-for-embedding-in-pipeline-split",
            "account-for-loss-in-pipeline-split",
        )
    ),
)
"""In the order in which the engine would find them."""


def _product(passed: Passed, name: str) -> int:
    """The numbers of an option, multiplied; 0 where it is not made of numbers."""
    words = passed.arguments.get(name)
    if not isinstance(words, tuple) or not all(str(word).isdigit() for word in words):
        return 0
    return prod(int(word) for word in words)


def _without_option(situation: Situation, option: str) -> str:
    """The override that takes an option away and leaves the others."""
    kept = {
        name: value
        for name, value in situation.spec.engine.options.items()
        if name.replace("_", "-") != option
    }
    return f"engine.options={json.dumps(kept)}"


def contradictions(situation: Situation) -> Iterator[Checked]:
    """Options that the engine refuses beside the rest of the run."""
    written = {name.replace("_", "-"): name for name in situation.spec.engine.options}
    if situation.spec.engine.name is not EngineName.MEGATRON or not written:
        return
    passed = Passed(situation.plan, dict(MEGATRON.arguments(situation.plan)))
    for found in CONTRADICTIONS:
        if found.option not in written or not passed.on(found.option) or not found.holds(passed):
            continue
        removal = _without_option(situation, found.option)
        code = CheckCode.OPTION_NEEDS if found.by else CheckCode.OPTION_AGAINST
        yield situation.error(
            code,
            f"engine.options.{written[found.option]}",
            found.rule,
            f"Set {found.by}, or remove it." if found.by else "Remove it.",
            passed.word(found.option),
            found.by or removal,
        )


def of_experts(situation: Situation) -> Iterator[Checked]:
    """Options about experts, for a model without any."""
    if situation.spec.engine.name is not EngineName.MEGATRON:
        return
    if situation.plan.model.architecture.is_moe:
        return
    for name in situation.spec.engine.options:
        option = name.replace("_", "-")
        if option.startswith("moe-") and option not in MEGATRON.modelled:
            yield situation.warning(
                CheckCode.OPTION_AGAINST,
                f"engine.options.{name}",
                "the model has no experts, so that nothing reads it.",
                "Remove it.",
                situation.spec.engine.options[name],
                _without_option(situation, name.replace("_", "-")),
            )


RULES = (
    static(CheckCode.OPTION_NEEDS, CheckCode.OPTION_AGAINST, look=contradictions),
    static(CheckCode.OPTION_AGAINST, look=of_experts),
)
