# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's own training loop, from the megatron-core package."""

import re
import shlex
from collections.abc import Iterator, Mapping

from seatrial.codes.engines import EngineCode
from seatrial.engines.engine import (
    Arguments,
    DataFormat,
    DistinctRank,
    Engine,
    FullSizeArguments,
    Installation,
    Problem,
    RunProblem,
    Trial,
    WorkerModules,
)
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.engines.megatron.command_line import command_line, engine_arguments, switched_on
from seatrial.engines.megatron.full_size import (
    GROUP_KINDS,
    full_size_arguments,
    full_size_ranks,
    no_full_size,
)
from seatrial.engines.megatron.model_flags import VOCAB_MULTIPLE
from seatrial.engines.megatron.model_support import model_problems
from seatrial.engines.megatron.optimizer_flags import (
    has_muon,
    is_layer_wise,
    optimizer_problems,
)
from seatrial.engines.megatron.parser_options import VERSION
from seatrial.engines.megatron.passthrough_options import MODELLED, option_problems
from seatrial.engines.megatron.performance_flags import hybrid_ep_environment, not_on_cpu
from seatrial.engines.megatron.performance_rules import OPTIONS
from seatrial.engines.megatron.run_rules import run_problems
from seatrial.engines.megatron.trial import (
    cpu_arguments,
    one_rank_arguments,
    production_arguments,
    trial_arguments,
)
from seatrial.monitoring.engine_signals import EngineSignals
from seatrial.planning.engine_limits import EngineLimits, UnseenRuns
from seatrial.planning.plan import Plan, parent_location
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.engine import OptionValue
from seatrial.spec.model import Activation
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.run import RunSpec
from seatrial.spec.scalars import AUTO
from seatrial.spec.training import Precision

MESSAGE_TERMS = {
    "sequence-parallelism": "parallelism.sequence_parallel",
    "world-size": "cluster.nodes",
    "total-model-size": "cluster.nodes",
    "pipeline-model-parallel": "parallelism.pp_size",
    "context-parallelism": "parallelism.cp_size",
}
"""What Megatron's error messages call fields of a spec."""
PACKAGES = {
    "transformer_engine": "Transformer Engine",
    "emerging_optimizers": "emerging-optimizers",
    "einops": "einops",
}
"""Modules that a run on GPUs may need in addition to Megatron, and the names of their packages."""
NARROW_WEIGHTS = frozenset({"fp8-param-gather", "fp4-param-gather"})
"""Options that keep no 16-bit copy of a weight."""


def engine_limits(spec: RunSpec) -> EngineLimits:
    """Return the limits: all degrees, and FSDP only for models that do not fit otherwise.

    Sharding the optimizer costs no time and saves memory. No published run shows the cost of FSDP,
    and it supports neither fp16 nor pipeline stages, and fp32 not for every model.
    """
    options = {name.replace("_", "-") for name, on in spec.engine.options.items() if on}
    half = spec.training.precision not in (Precision.FP16, Precision.FP32)
    whole = ((Sharding.FSDP,),) if half and spec.parallelism.pp_size in (AUTO, 1) else ()
    return EngineLimits(
        stack="megatron-core",
        splits_model=True,
        shardings=((Sharding.OPTIMIZER,), *whole),
        recomputes=(Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL),
        vocab_multiple=VOCAB_MULTIPLE,
        gradient_bytes=_gradient_bytes(spec, options),
        narrow_weights=not NARROW_WEIGHTS.isdisjoint(options),
        unseen=UnseenRuns(inside=87, runs=119),
        options=OPTIONS,
    )


def _gradient_bytes(spec: RunSpec, options: set[str]) -> int:
    """Return the size of a gradient in bytes while it is accumulated.

    By default, fp32 for bf16 and narrower formats, and fp16 for fp16
    (`megatron/training/arguments.py` in 0.19.2).
    """
    halved = "grad-reduce-in-bf16" in options
    if spec.training.precision is Precision.FP16:
        halved = "accumulate-allreduce-grads-in-fp32" not in options
    return 2 if halved else 4


def engine_environment(plan: Plan) -> dict[str, str]:
    """Return the environment variables without which the engine rejects or changes the plan.

    Tensor and context parallelism need one connection, so that communication is issued in order.
    FSDP needs more than one (`megatron/training/arguments.py`, validate_args). HybridEP does not
    find out by itself which ranks NVLink connects.
    """
    wanted = hybrid_ep_environment(plan)
    if plan.sharding is Sharding.FSDP:
        wanted["CUDA_DEVICE_MAX_CONNECTIONS"] = "8"
    elif plan.layout.tp_size > 1 or plan.layout.cp_size > 1:
        wanted["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    revision = tokenizer_name(plan.model.tokenizer)[1]
    if revision:
        # The engine has no flag for a revision, so the worker downloads the revision first.
        wanted["SEATRIAL_TOKENIZER_REVISION"] = revision
    return wanted | _beginning(plan)


def _beginning(plan: Plan) -> dict[str, str]:
    """Return the source of the weights as variables for the worker: the engine has no flag."""
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


SIGNALS = EngineSignals(
    step_timer="forward-backward",
    data_timer="batch-generator",
    # Of the rerun state machine (megatron/core/rerun_state_machine.py).
    rejection_exits={
        16: "and saved a checkpoint to repeat the step on a different GPU",
        17: "because it is wrong or not reproducible",
    },
    rejection_lines=(
        re.compile(
            r"Unexpected result (?P<value>\S+) on rank (?P<rank>\d+) at iteration #(?P<step>\d+)"
        ),
        re.compile(
            r"[Rr]ank (?P<rank>\d+),.{0,200}iteration #?(?P<step>\d+): "
            r"(?:Unexpected result (?P<value>\S+)|found NaN)"
        ),
    ),
)


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
    takes_strong_weights = True
    has_resume_checks = True
    installation = Installation(
        "SEATRIAL_WORKER_PYTHON",
        ("torch", "megatron"),
        "pip install '.[worker]' (in a Seatrial checkout)",
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
        full_size="seatrial.worker.megatron.full_size",
    )
    checkpoint_naming = NAMING
    checkpoint_class = "seatrial.engines.megatron.checkpoints:MegatronCheckpoints"
    log_class = "seatrial.engines.megatron.log_format:MegatronLog"
    signals = SIGNALS
    group_kinds = GROUP_KINDS
    # The engine deletes NCCL_COLLNET_ENABLE at startup, and sets it again only for this option
    # (megatron/core/parallel_state.py, initialize_model_parallel).
    sharp_option = "use-sharp"
    blend_option = "data-args-path"
    rank_timeout_option = "distributed-timeout-minutes"
    rank_timeout_minutes = 10
    vocab_multiple = VOCAB_MULTIPLE
    modelled: Mapping[str, str] = MODELLED
    """Options that a spec field sets, with the name of that field."""
    message_terms: Mapping[str, str] = MESSAGE_TERMS

    def limits(self, spec: RunSpec) -> EngineLimits:
        """Return the limits: all degrees, and FSDP only for models that do not fit otherwise."""
        return engine_limits(spec)

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """Check the options that a spec passes to Megatron."""
        return option_problems(options)

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """Return the problems with settings that Megatron does not support."""
        found = [*model_problems(plan), *optimizer_problems(plan)]
        if plan.sharding is Sharding.FSDP:
            found += [*_fsdp_problems(plan), *_fsdp_beginning(plan)]
        options = switched_on(plan)
        per_token = "calculate-per-token-loss" in options
        if plan.layout.cp_size > 1 and "eod-mask-loss" in options and not per_token:
            # Measured with the CPU runtime: the loss differs from the single-rank loss by 1e-2.
            rule = "with context parallelism, masked tokens have a different weight on each rank."
            fix = "Add engine.options.calculate-per-token-loss=true."
            field = "engine.options.eod-mask-loss"
            found.append(Problem(EngineCode.UNSUPPORTED, field, rule, fix))
        if "reset-attention-mask" in options and _layers(plan) != "local":
            # NVIDIA/Megatron-LM issue 2357: the layers request a causal mask from Transformer
            # Engine, which then ignores the mask that is passed.
            rule = (
                "Transformer Engine ignores the mask: documents in a sample would attend to each "
                "other."
            )
            fix = "Remove this option, or add engine.options.transformer-impl=local."
            field = "engine.options.reset-attention-mask"
            found.append(Problem(EngineCode.UNSUPPORTED, field, rule, fix))
        # An unsupported plan has no arguments to check.
        return found or _hyphens_in_lists(plan)

    def run_problems(self, plan: Plan, generation: str, domain: int) -> list[RunProblem]:
        """Return the settings that its own validation or Transformer Engine would reject."""
        return run_problems(plan, generation, domain)

    def growing_decay_option(self, options: Mapping[str, OptionValue]) -> str:
        """Return the option whose growth OptimizerParamScheduler compares with a checkpoint's."""
        given = (name for name in options if name.replace("_", "-") == "weight-decay-incr-style")
        return next((name for name in given if options[name] != "constant"), "")

    def environment(self, plan: Plan) -> dict[str, str]:
        """Return the environment variables without which Megatron rejects or changes the plan."""
        return engine_environment(plan)

    def gpu_packages(self, plan: Plan) -> dict[str, str]:
        """Return the packages of layers, optimizer and sharding that the plan uses."""
        packages = {
            "transformer_engine": _layers(plan) == "transformer_engine",
            "emerging_optimizers": has_muon(plan),
            # FSDP arranges its ranks with it (core/distributed/fsdp/mcore_fsdp_adapter.py).
            "einops": plan.sharding is Sharding.FSDP,
        }
        return {name: PACKAGES[name] for name, needed in packages.items() if needed}

    def arguments(self, plan: Plan) -> Arguments:
        """Return the flags for a plan."""
        return engine_arguments(plan)

    def pod_arguments(self, plan: Plan, *, on_cpu: bool, scratch: str) -> Arguments:
        """Return the flags for a plan in a pod."""
        arguments = engine_arguments(plan)
        if on_cpu:
            arguments |= cpu_arguments(plan)
        # On SIGTERM, the engine saves before it exits. The pod's grace period is long enough.
        arguments.setdefault("exit-signal-handler", True)
        return arguments

    def verdict_arguments(self, plan: Plan) -> Arguments:
        """Return the flags without the files that validation would load."""
        return production_arguments(engine_arguments(plan))

    def trial_arguments(self, plan: Plan, trial: Trial) -> Arguments:
        """Return the flags for a drill on CPU."""
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

    def no_full_size(self, plan: Plan) -> str:
        """Reject FSDP, whose process groups need more than torch's fake one offers."""
        return no_full_size(plan)

    def full_size_ranks(self, plan: Plan) -> tuple[DistinctRank, ...]:
        """Return the first rank of each pipeline stage."""
        return full_size_ranks(plan)

    def full_size_arguments(self, plan: Plan, micro_batches: int) -> FullSizeArguments:
        """Return the flags of the real run, without what needs a GPU, data or files."""
        return full_size_arguments(plan, micro_batches)

    def not_proven(self, plan: Plan) -> tuple[str, ...]:
        """Return what gloo or a CPU cannot do: gloo cannot gather parts that differ in size."""
        parts = {
            "sharing Muon's states over the data-parallel ranks": is_layer_wise(plan),
            "sharding a model before it has weights": plan.sharding is Sharding.FSDP,
        }
        options = ", ".join(not_on_cpu(plan))
        named = (f"performance options that need a GPU: {options}",) if options else ()
        return (*(part for part, applies in parts.items() if applies), *named)

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


def _fsdp_problems(plan: Plan) -> Iterator[Problem]:
    """Yield what Megatron's FSDP rejects, or fails at when it builds the model or saves.

    `_get_dp_tp_mesh` (core/distributed/fsdp/mcore_fsdp_adapter.py in 0.19.2) arranges all ranks
    without pipeline stages. The save splits the weights of SwiGLU by names that a model has only
    inside the wrapper for half precision (core/transformer/fsdp_dtensor_checkpoint.py).
    """
    precision, fix = plan.spec.training.precision, "Use bf16, or sharding: optimizer."
    if precision is Precision.FP16:
        yield _unsupported("training.precision", "FSDP in fp16", fix)
    if precision is Precision.FP32 and plan.model.architecture.activation is Activation.SWIGLU:
        yield _unsupported("training.precision", "saves with FSDP in fp32 and SwiGLU", fix)
    if plan.layout.pp_size > 1:
        fix = "Use pp_size: 1, or sharding: optimizer."
        yield _unsupported("parallelism.pp_size", "FSDP with pipeline stages", fix)


def _fsdp_beginning(plan: Plan) -> list[Problem]:
    """Reject initial checkpoints that FSDP cannot load, because its format is different."""
    weights, fix = plan.spec.initial_weights, "Use parallelism.sharding=optimizer."
    rule = (
        "Megatron FSDP loads only checkpoints in its own format; with any other checkpoint, "
        "training would start from scratch."
    )
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
    """Reject list items that Megatron's parser would interpret as options."""
    return [
        Problem(
            EngineCode.OPTION_VALUE,
            MODELLED.get(name, f"engine.options.{name}"),
            f"{text} starts with a hyphen, so Megatron interprets it as an option.",
            "If it is a path, prefix it with ./; otherwise use a different name.",
        )
        for name, value in engine_arguments(plan).items()
        if isinstance(value, tuple)
        for text in value
        if isinstance(text, str) and text.startswith("-") and not _NEGATIVE.fullmatch(text)
    ]


def _unsupported(field: str, what: str, fix: str) -> Problem:
    return Problem(EngineCode.UNSUPPORTED, field, f"Megatron does not support {what}.", fix)
