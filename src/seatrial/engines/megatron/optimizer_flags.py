# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The optimizer: its flags, and what Megatron does not combine with Muon."""

from collections.abc import Callable, Iterator

from seatrial.codes.engines import EngineCode
from seatrial.engines.engine import Arguments, ArgumentValue, Problem
from seatrial.engines.megatron.model_flags import Flag
from seatrial.planning.plan import Plan
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Muon, OptimizerName, Precision


def has_muon(plan: Plan) -> bool:
    return plan.spec.training.optimizer.name is OptimizerName.MUON


def _muon(value: Callable[[Muon], ArgumentValue]) -> Callable[[Plan], ArgumentValue]:
    """Return a flag's value for a plan with Muon, and None for other plans."""
    return lambda plan: (
        value(plan.spec.training.optimizer.muon or Muon()) if has_muon(plan) else None
    )


OPTIMIZER_FLAGS = (
    # No field: a spec may pass engine.options.optimizer=adam, see passthrough_options.py.
    Flag("optimizer", "", _muon(lambda m: "muon")),
    Flag("muon-momentum", "training.optimizer.muon.momentum", _muon(lambda m: m.momentum)),
    Flag("muon-nesterov", "training.optimizer.muon.nesterov", _muon(lambda m: m.nesterov)),
    Flag("muon-scale-mode", "training.optimizer.muon.scale", _muon(lambda m: str(m.scale))),
    Flag(
        "muon-extra-scale-factor",
        "training.optimizer.muon.extra_scale",
        _muon(lambda m: m.extra_scale),
    ),
    Flag(
        "muon-num-ns-steps",
        "training.optimizer.muon.newton_schulz_steps",
        _muon(lambda m: m.newton_schulz_steps),
    ),
    # The engine's default makes each tensor-parallel rank's part of a matrix orthogonal on its own,
    # which is a different algorithm for every tp_size.
    Flag("muon-tp-mode", "", _muon(lambda m: "distributed")),
    Flag("adam-beta1", "training.optimizer.beta1", lambda p: p.spec.training.optimizer.beta1),
    Flag("adam-beta2", "training.optimizer.beta2", lambda p: p.spec.training.optimizer.beta2),
    Flag("adam-eps", "training.optimizer.epsilon", lambda p: p.spec.training.optimizer.epsilon),
    Flag(
        "weight-decay",
        "training.optimizer.weight_decay",
        lambda p: p.spec.training.optimizer.weight_decay,
    ),
    Flag(
        "clip-grad",
        "training.optimizer.clip_grad_norm",
        lambda p: p.spec.training.optimizer.clip_grad_norm,
    ),
)
# Otherwise the distributed optimizer's checkpoints load only in the layout that saved them.
# Layer-wise Muon keeps whole matrices, and its checkpoints load in any layout.
OPTIMIZER_CHECKPOINT = Flag(
    "dist-ckpt-optim-fully-reshardable",
    "parallelism.sharding",
    lambda p: p.sharding is Sharding.OPTIMIZER and not has_muon(p),
)


def is_layer_wise(plan: Plan) -> bool:
    """True if the data-parallel ranks share Muon's states layer by layer."""
    return has_muon(plan) and plan.sharding is Sharding.OPTIMIZER


def optimizer_problems(plan: Plan) -> Iterator[Problem]:
    """Yield what Megatron rejects with Muon, or accepts and then fails at."""
    if not has_muon(plan):
        return
    precision = plan.spec.training.precision
    if "optimizer" in plan.spec.engine.options:
        yield _problem(
            "engine.options.optimizer", "training.optimizer.name sets Muon.", "Remove this option."
        )
    if plan.sharding is Sharding.FSDP:
        yield _problem(
            "parallelism.sharding",
            "Megatron does not support FSDP with Muon.",
            "Use sharding: optimizer, or sharding: none.",
        )
    if precision is Precision.FP16:
        yield _problem(
            "training.precision", "Megatron does not support fp16 with Muon.", "Use bf16."
        )
    if precision is Precision.FP32 and is_layer_wise(plan):
        yield _problem(
            "training.precision",
            "Megatron cannot share Muon's states over the data-parallel ranks in fp32.",
            "Use bf16, or parallelism.sharding=none.",
        )
    if is_layer_wise(plan) and plan.layout.ep_size > 1 and plan.model.architecture.linear_bias:
        yield _problem(
            "parallelism.sharding",
            "Megatron cannot share the states of experts' biases with Muon and ep_size above 1.",
            "Use sharding: none, or a model without biases.",
        )


def _problem(field: str, rule: str, fix: str) -> Problem:
    return Problem(EngineCode.UNSUPPORTED, field, rule, fix)


def on_cpu_arguments(plan: Plan) -> Arguments:
    """Return the flags that replace what Muon cannot do on CPU, or does with less precision."""
    if not has_muon(plan):
        return {}
    # gloo cannot gather the ranks' parts, which differ in size: layer-wise Muon runs as Muon.
    return {
        "muon-fp32-matmul-prec": "high",
        "use-distributed-optimizer": None,
        "overlap-param-gather": None,
    }
