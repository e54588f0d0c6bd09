# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's own training loop, from the megatron-core package."""

import shlex
from collections.abc import Mapping

from seatrial.engines.engine import (
    Arguments,
    DataFormat,
    EngineCode,
    Installation,
    Problem,
    Trial,
    WorkerModules,
)
from seatrial.engines.megatron.cpu import CPU_ARGUMENTS
from seatrial.engines.megatron.environment import engine_environment
from seatrial.engines.megatron.flags import command_line, engine_arguments
from seatrial.engines.megatron.one_rank import one_rank_arguments
from seatrial.engines.megatron.options import MODELLED, option_problems
from seatrial.engines.megatron.trial import production_arguments, trial_arguments
from seatrial.planning.plan import Plan
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.architecture import Norm, Positions
from seatrial.spec.engine import EngineName, OptionValue
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Precision


class MegatronEngine:
    """The engine that the field trains with."""

    name = EngineName.MEGATRON
    title = "Megatron"
    version = "0.19.2"
    package = f"megatron-core {version}"
    splits_model = True
    data_format = DataFormat.INDEXED
    takes_hub_weights = True
    installation = Installation(
        "SEATRIAL_WORKER_PYTHON",
        ("torch", "megatron"),
        "pip install '.[worker]' in a checkout of Seatrial",
        "worker.txt",
    )
    modules = WorkerModules(
        "seatrial.worker", "seatrial.worker.pod", "verdict", "compare", "weights.engine_logits"
    )
    modelled: Mapping[str, str] = MODELLED
    """Options that a spec sets through a field of its own, and that field."""

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """What is wrong with options that a spec passes through to Megatron."""
        return option_problems(options)

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """What Megatron has no code for."""
        model = plan.model.architecture
        found = []
        if model.positions is Positions.ALIBI:
            fix = "Use learned or rope."
            found.append(_unsupported("model.dimensions.positions", "ALiBi positions", fix))
        if model.norm is Norm.LAYERNORM_NO_BIAS:
            fix = "Use layernorm or rmsnorm."
            found.append(_unsupported("model.dimensions.norm", "LayerNorm without bias", fix))
        if plan.sharding is Sharding.FSDP and plan.spec.training.precision is Precision.FP16:
            fix = "Use bf16, or sharding: optimizer."
            found.append(_unsupported("training.precision", "FSDP in fp16", fix))
        if plan.sharding is Sharding.FSDP:
            found += _fsdp_beginning(plan)
        options = {name.replace("_", "-") for name in plan.spec.engine.options}
        per_token = "calculate-per-token-loss" in options
        if plan.layout.cp_size > 1 and "eod-mask-loss" in options and not per_token:
            # Measured on the CPU runtime: the loss differs from one rank's by 1e-2.
            rule = "with context parallelism, masked tokens weigh differently on each rank."
            fix = "Add engine.options.calculate-per-token-loss=true."
            field = "engine.options.eod-mask-loss"
            found.append(Problem(EngineCode.UNSUPPORTED, field, rule, fix))
        if "reset-attention-mask" in options and _layers(plan) != "local":
            # NVIDIA/Megatron-LM issue 2357: the layers ask Transformer Engine for a causal mask,
            # which then does not look at the one that it is given.
            rule = (
                "Transformer Engine ignores the mask: documents of a sample would see each other."
            )
            fix = "Remove it, or add engine.options.transformer-impl=local."
            field = "engine.options.reset-attention-mask"
            found.append(Problem(EngineCode.UNSUPPORTED, field, rule, fix))
        return found

    def environment(self, plan: Plan) -> dict[str, str]:
        """Variables without which Megatron refuses the plan, or would run another one."""
        return engine_environment(plan)

    def arguments(self, plan: Plan) -> Arguments:
        """The flags of a plan."""
        return engine_arguments(plan)

    def pod_arguments(self, plan: Plan, *, on_cpu: bool, scratch: str) -> Arguments:
        """The flags of a plan in a pod."""
        arguments = engine_arguments(plan)
        if on_cpu:
            arguments |= CPU_ARGUMENTS
        # Asked to end, the engine saves first; the pod's grace is made for that.
        arguments.setdefault("exit-signal-handler", True)
        return arguments

    def verdict_arguments(self, plan: Plan) -> Arguments:
        """The flags without what validation would load."""
        return production_arguments(engine_arguments(plan))

    def trial_arguments(self, plan: Plan, trial: Trial) -> Arguments:
        """The flags of a drill on a CPU."""
        return trial_arguments(plan, trial)

    def one_rank_arguments(self, arguments: Arguments) -> Arguments:
        """The flags for one rank in fp32 that saves nothing."""
        return one_rank_arguments(arguments)

    def command_line(self, arguments: Arguments) -> list[str]:
        """Switches that are on, and flags with their values."""
        return command_line(arguments)

    def text(self, arguments: Arguments) -> str:
        """One flag a line, as a shell script has them."""
        words = command_line(arguments)
        return "".join(
            f"\n{shlex.quote(word)}" if word.startswith("--") else f" {shlex.quote(word)}"
            for word in words
        ).lstrip("\n")

    def no_rehearsal(self, plan: Plan) -> str:
        """Its FSDP is written for GPUs."""
        if plan.sharding is Sharding.FSDP:
            return (
                "Megatron's FSDP needs a GPU and cannot be rehearsed on a CPU. "
                "Rehearse with parallelism.sharding=optimizer."
            )
        return ""

    def cpu_precision(self, precision: Precision) -> Precision:
        """Products in 8 and 4 bits need a GPU's hardware."""
        narrow = (Precision.FP8, Precision.MXFP8, Precision.NVFP4)
        return Precision.BF16 if precision in narrow else precision

    def data_files(self, prepared: str) -> tuple[str, ...]:
        """The tokens and their index."""
        return f"{prepared}.bin", f"{prepared}.idx"

    def hub_tokenizer(self, plan: Plan) -> tuple[str, str] | None:
        """What `HuggingFaceTokenizer` loads."""
        arguments = engine_arguments(plan)
        if arguments["tokenizer-type"] != "HuggingFaceTokenizer":
            return None
        return str(arguments["tokenizer-model"]), tokenizer_name(plan.model.tokenizer)[1]

    def checkpoint_name(self, step: int) -> str:
        """The directory of a step."""
        return f"iter_{step:07d}"


def _fsdp_beginning(plan: Plan) -> list[Problem]:
    """Beginnings that its FSDP has no code for: its checkpoints have a format of their own."""
    weights, fix = plan.spec.initial_weights, "Use parallelism.sharding=optimizer."
    rule = "Megatron's FSDP reads checkpoints of its own format alone, and would begin afresh."
    fields = {
        "initial_weights.huggingface": weights is not None and weights.huggingface is not None,
        "continue_from": plan.spec.continue_from is not None,
    }
    return [Problem(EngineCode.UNSUPPORTED, f, rule, fix) for f, given in fields.items() if given]


def _layers(plan: Plan) -> object:
    """Whose layers the spec asks for; Transformer Engine's unless it says otherwise."""
    options = {name.replace("_", "-"): value for name, value in plan.spec.engine.options.items()}
    return options.get("transformer-impl", "transformer_engine")


def _unsupported(field: str, what: str, fix: str) -> Problem:
    return Problem(EngineCode.UNSUPPORTED, field, f"Megatron has no {what}.", fix)
