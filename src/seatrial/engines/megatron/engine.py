# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's own training loop, from the megatron-core package."""

import re
import shlex
from collections.abc import Mapping

from seatrial.checkpoints.naming import directory_name
from seatrial.codes.engines import EngineCode
from seatrial.engines.engine import (
    Arguments,
    DataFormat,
    Engine,
    Installation,
    Problem,
    RunProblem,
    Trial,
    WorkerModules,
)
from seatrial.engines.megatron.command_line import command_line, engine_arguments, switched_on
from seatrial.engines.megatron.parser_options import VERSION
from seatrial.engines.megatron.passthrough_options import MODELLED, option_problems
from seatrial.engines.megatron.run_rules import run_problems
from seatrial.engines.megatron.trial import (
    CPU_ARGUMENTS,
    one_rank_arguments,
    production_arguments,
    trial_arguments,
)
from seatrial.planning.engine_limits import EngineLimits
from seatrial.planning.parameters import VOCAB_MULTIPLE
from seatrial.planning.plan import Plan, parent_location
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.engine import OptionValue
from seatrial.spec.model import Norm, Positions
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.run import RunSpec
from seatrial.spec.training import Precision

NARROW_WEIGHTS = frozenset({"fp8-param-gather", "fp4-param-gather"})
"""Options that keep no 16-bit copy of a weight."""


def engine_limits(spec: RunSpec) -> EngineLimits:
    """Return all degrees, with FSDP for models that do not fit otherwise.

    Sharding the optimizer costs no time and saves memory. FSDP cannot be rehearsed on a CPU, no
    published run shows its cost, and it does not support fp16.
    """
    options = {name.replace("_", "-") for name, on in spec.engine.options.items() if on}
    whole = ((Sharding.FSDP,),) if spec.training.precision is not Precision.FP16 else ()
    return EngineLimits(
        stack="megatron-core",
        splits_model=True,
        shardings=((Sharding.OPTIMIZER,), *whole),
        recomputes=(Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL),
        vocab_multiple=VOCAB_MULTIPLE,
        gradient_bytes=_gradient_bytes(spec, options),
        narrow_weights=not NARROW_WEIGHTS.isdisjoint(options),
    )


def _gradient_bytes(spec: RunSpec, options: set[str]) -> int:
    """Return the size of a gradient in bytes while it is accumulated.

    fp32 with bf16 and narrower formats by default, and fp16 with fp16
    (`megatron/training/arguments.py` of 0.19.2).
    """
    halved = "grad-reduce-in-bf16" in options
    if spec.training.precision is Precision.FP16:
        halved = "accumulate-allreduce-grads-in-fp32" not in options
    return 2 if halved else 4


def engine_environment(plan: Plan) -> dict[str, str]:
    """Return variables without which the engine rejects the plan or changes it.

    Tensor and context parallelism need one connection, so that communication is issued in order.
    FSDP needs more than one (`megatron/training/arguments.py`, validate_args).
    """
    wanted = {}
    if plan.sharding is Sharding.FSDP:
        wanted["CUDA_DEVICE_MAX_CONNECTIONS"] = "8"
    elif plan.layout.tp_size > 1 or plan.layout.cp_size > 1:
        wanted["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    revision = tokenizer_name(plan.model.tokenizer)[1]
    if revision:
        # The engine has no flag for it. The worker downloads that revision first.
        wanted["SEATRIAL_TOKENIZER_REVISION"] = revision
    return wanted | _beginning(plan)


def _beginning(plan: Plan) -> dict[str, str]:
    """Return the source of weights for the worker, for which the engine has no flag."""
    weights, parent = plan.spec.initial_weights, plan.spec.continue_from
    if weights is not None and weights.huggingface is not None:
        return {"SEATRIAL_INITIAL_WEIGHTS": weights.huggingface}
    if parent is None:
        return {}
    told = {"SEATRIAL_CONTINUE_FROM": parent_location(plan.spec)}
    if parent.step != "latest":
        told["SEATRIAL_CONTINUE_STEP"] = str(parent.step)
    if parent.reset_schedule:
        told["SEATRIAL_CONTINUE_ANEW"] = "1"
    return told


class MegatronEngine(Engine):
    """Megatron-LM, the default engine."""

    name: str = "megatron"
    title = "Megatron"
    version = VERSION
    package = f"megatron-core {version}"
    splits_model = True
    data_format = DataFormat.INDEXED
    takes_hub_weights = True
    is_version_bound = True
    has_resume_checks = True
    installation = Installation(
        "SEATRIAL_WORKER_PYTHON",
        ("torch", "megatron"),
        "pip install '.[worker]' in a checkout of Seatrial",
        "worker.txt",
        "worker",
    )
    modules = WorkerModules(
        process="seatrial.worker.megatron",
        pod="seatrial.worker.megatron.pod",
        verdict="seatrial.worker.megatron.verdict",
        compare="seatrial.worker.checkpointing.compare",
        logits="seatrial.worker.megatron.logits",
        import_weights="seatrial.worker.megatron.import_weights",
        index_cache="seatrial.worker.megatron.index_cache",
    )
    checkpoint_class = "seatrial.engines.megatron.checkpoints:MegatronCheckpoints"
    log_class = "seatrial.engines.megatron.log_format:MegatronLog"
    # The engine deletes NCCL_COLLNET_ENABLE at startup, and sets it again only for this option
    # (megatron/core/parallel_state.py, initialize_model_parallel).
    sharp_option = "use-sharp"
    blend_option = "data-args-path"
    modelled: Mapping[str, str] = MODELLED
    """Options that a field of the spec sets, with that field."""

    def limits(self, spec: RunSpec) -> EngineLimits:
        """Return all degrees, with FSDP for models that do not fit otherwise."""
        return engine_limits(spec)

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """Check the options that a spec passes to Megatron."""
        return option_problems(options)

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """Return what Megatron does not support."""
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
        options = switched_on(plan)
        per_token = "calculate-per-token-loss" in options
        if plan.layout.cp_size > 1 and "eod-mask-loss" in options and not per_token:
            # Measured with the CPU runtime: the loss differs from that of one rank by 1e-2.
            rule = "with context parallelism, masked tokens weigh differently on each rank."
            fix = "Add engine.options.calculate-per-token-loss=true."
            field = "engine.options.eod-mask-loss"
            found.append(Problem(EngineCode.UNSUPPORTED, field, rule, fix))
        if "reset-attention-mask" in options and _layers(plan) != "local":
            # NVIDIA/Megatron-LM issue 2357: the layers request a causal mask from Transformer
            # Engine, which then ignores the mask it is given.
            rule = (
                "Transformer Engine ignores the mask: documents of a sample would see each other."
            )
            fix = "Remove it, or add engine.options.transformer-impl=local."
            field = "engine.options.reset-attention-mask"
            found.append(Problem(EngineCode.UNSUPPORTED, field, rule, fix))
        # An unsupported plan has no arguments to check.
        return found or _hyphens_in_lists(plan)

    def run_problems(self, plan: Plan, generation: str) -> list[RunProblem]:
        """Return what its own validation or Transformer Engine would reject."""
        return run_problems(plan, generation)

    def environment(self, plan: Plan) -> dict[str, str]:
        """Return variables without which Megatron rejects the plan or changes it."""
        return engine_environment(plan)

    def arguments(self, plan: Plan) -> Arguments:
        """Return the flags of a plan."""
        return engine_arguments(plan)

    def pod_arguments(self, plan: Plan, *, on_cpu: bool, scratch: str) -> Arguments:
        """Return the flags of a plan in a pod."""
        arguments = engine_arguments(plan)
        if on_cpu:
            arguments |= CPU_ARGUMENTS
        # On SIGTERM the engine saves before it exits. The pod's grace period allows for that.
        arguments.setdefault("exit-signal-handler", True)
        return arguments

    def verdict_arguments(self, plan: Plan) -> Arguments:
        """Return the flags without files that validation would load."""
        return production_arguments(engine_arguments(plan))

    def trial_arguments(self, plan: Plan, trial: Trial) -> Arguments:
        """Return the flags of a drill on a CPU."""
        return trial_arguments(plan, trial)

    def one_rank_arguments(self, arguments: Arguments) -> Arguments:
        """Return the flags for one rank in fp32 without saving."""
        return one_rank_arguments(arguments)

    def command_line(self, arguments: Arguments) -> list[str]:
        """Format flags and their values."""
        return command_line(arguments)

    def text(self, arguments: Arguments) -> str:
        """Format one flag per line, as in a shell script."""
        words = command_line(arguments)
        return "".join(
            f"\n{shlex.quote(word)}" if word.startswith("--") else f" {shlex.quote(word)}"
            for word in words
        ).lstrip("\n")

    def no_rehearsal(self, plan: Plan) -> str:
        """Reject FSDP, which needs a GPU."""
        if plan.sharding is Sharding.FSDP:
            return (
                "Megatron's FSDP needs a GPU and cannot be rehearsed on a CPU. "
                "Rehearse with parallelism.sharding=optimizer."
            )
        return ""

    def cpu_precision(self, precision: Precision) -> Precision:
        """Return bf16 for 8-bit and 4-bit formats, which need a GPU."""
        narrow = (Precision.FP8, Precision.MXFP8, Precision.NVFP4)
        return Precision.BF16 if precision in narrow else precision

    def data_files(self, prepared: str) -> tuple[str, ...]:
        """Return the token file and its index."""
        return f"{prepared}.bin", f"{prepared}.idx"

    def hub_tokenizer(self, plan: Plan) -> tuple[str, str] | None:
        """Return the tokenizer that `HuggingFaceTokenizer` loads."""
        arguments = engine_arguments(plan)
        if arguments["tokenizer-type"] != "HuggingFaceTokenizer":
            return None
        return str(arguments["tokenizer-model"]), tokenizer_name(plan.model.tokenizer)[1]

    def checkpoint_name(self, step: int) -> str:
        """Return the directory of a step."""
        return directory_name(step)


def _fsdp_beginning(plan: Plan) -> list[Problem]:
    """Reject starts that FSDP does not support: its checkpoints have their own format."""
    weights, fix = plan.spec.initial_weights, "Use parallelism.sharding=optimizer."
    rule = "Megatron's FSDP reads only checkpoints of its own format, and would start from scratch."
    fields = {
        "initial_weights.huggingface": weights is not None and weights.huggingface is not None,
        "continue_from": plan.spec.continue_from is not None,
    }
    return [Problem(EngineCode.UNSUPPORTED, f, rule, fix) for f, given in fields.items() if given]


def _layers(plan: Plan) -> object:
    """Return the layer implementation that the spec requests; Transformer Engine by default."""
    options = {name.replace("_", "-"): value for name, value in plan.spec.engine.options.items()}
    return options.get("transformer-impl", "transformer_engine")


_NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")
"""Text that argparse parses as a negative number, not as an option."""


def _hyphens_in_lists(plan: Plan) -> list[Problem]:
    """Reject texts in lists that Megatron's parser would take for options."""
    return [
        Problem(
            EngineCode.OPTION_VALUE,
            MODELLED.get(name, f"engine.options.{name}"),
            f"{text} starts with a hyphen, so Megatron takes it for an option.",
            "Write ./ before it if it is a path; otherwise use another name.",
        )
        for name, value in engine_arguments(plan).items()
        if isinstance(value, tuple)
        for text in value
        if isinstance(text, str) and text.startswith("-") and not _NEGATIVE.fullmatch(text)
    ]


def _unsupported(field: str, what: str, fix: str) -> Problem:
    return Problem(EngineCode.UNSUPPORTED, field, f"Megatron has no {what}.", fix)
