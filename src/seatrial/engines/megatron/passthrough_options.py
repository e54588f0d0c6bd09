# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which of Megatron's options a spec may set directly, and which ones a spec field sets."""

from collections.abc import Mapping
from dataclasses import replace

from seatrial.codes.engines import EngineCode
from seatrial.engines.engine import Problem
from seatrial.engines.megatron.flags_from_spec import FLAGS
from seatrial.engines.megatron.parser_options import Takes, known_options
from seatrial.naming import nearest
from seatrial.spec.engine import OptionValue

EQUIVALENT = {
    "valid-data-path": "data.sources",
    "test-data-path": "data.sources",
    "per-split-data-args-path": "data.sources",
    "vocab-file": "data.tokenizer",
    "merge-file": "data.tokenizer",
    "train-data-path": "data.sources",
    "lr-warmup-fraction": "training.learning_rate.warmup",
    "num-layers-per-virtual-pipeline-stage": "parallelism.vp_size",
    "use-torch-fsdp2": "parallelism.sharding",
    "recompute-activations": "parallelism.recompute",
    "finetune": "initial_weights",
    "moe-enable-deepep": "performance.token_dispatcher",
    "enable-cuda-graph": "performance.cuda_graphs",
    "external-cuda-graph": "performance.cuda_graphs",
    "cuda-graph-scope": "performance.cuda_graphs",
    # Removed names: the engine rejects them and names the replacement.
    "batch-size": "training.micro_batch_size",
    "warmup": "training.learning_rate.warmup",
    "model-parallel-size": "parallelism.tp_size",
    "checkpoint-activations": "parallelism.recompute",
    # Aliases for the same argument.
    "persistent-save-interval": "checkpoints.every_steps",
    "encoder-seq-length": "training.sequence_length",
    "decoder-seq-length": "training.sequence_length",
    # The engine would delete checkpoints that keep_last keeps.
    "save-retain-interval": "checkpoints.keep_every_steps",
}
"""Options that Seatrial never sets, because a spec field sets an equivalent option."""

MODELLED = {flag.name: flag.field for flag in FLAGS if flag.field} | EQUIVALENT
"""Options that a spec field sets, with the name of that field."""


RAMP = "rampup-batch-size"
DERIVED = {
    "no-pad-vocab-size": "the plan pads the vocabulary",
    "disable-pad-vocab-size": "the plan pads the vocabulary",
    "make-vocab-size-divisible-by": "the plan pads the vocabulary",
    "encoder-num-layers": "the model sets the layers",
    "decoder-num-layers": "the model sets the layers",
    "hybrid-layer-pattern": "the model sets the layers",
    "hybrid-override-pattern": "the model sets the layers",
    "mtp-hybrid-override-pattern": "the model sets the layers",
    "is-hybrid-model": "the model sets the layers",
    "mtp-use-repeated-layer": "the plan counts a layer for each further token",
    "mtp-standalone": "the plan sets the stages",
    "heterogeneous-layers-config-path": "the model sets the layers",
    "heterogeneous-layers-config-encoded-json": "the model sets the layers",
    "experimental-attention-variant": "the plan does not count the parameters of this attention",
    "linear-attention-freq": "the plan does not count the parameters of linear attention",
    "moe-latent-size": "the plan does not count the parameters of latent experts",
    "tensor-parallel-num-weight-shards": "the plan sets how weights are split",
    "expert-tensor-parallel-num-weight-shards": "the plan sets how weights are split",
    "recompute-method": "the plan's memory estimate assumes that each layer is recomputed",
    "recompute-num-layers": "the plan's memory estimate assumes that each layer is recomputed",
    "use-tp-pp-dp-mapping": "the plan sets the rank order",
    RAMP: "the engine accepts this ramp, and ignores it",
    "eval-global-batch-size": "the plan sets the number of evaluation samples",
    "eval-micro-batch-size": "the plan sets the number of evaluation samples",
    "full-validation": "the plan sets the number of evaluation samples",
    "start-eval-at-iter": "the plan sets the number of evaluation samples",
    "yaml-cfg": "the engine would read all arguments from a different file",
    "use-checkpoint-args": "the engine would read all arguments from a checkpoint",
    "skip-train": "the plan is for training",
    "ckpt-convert-format": "the engine would convert a checkpoint and exit",
    "ckpt-convert-save": "the engine would convert a checkpoint and exit",
    "adlr-autoresume": "this option needs a package that NVIDIA has not published",
    "sft": "the worker trains on whole documents",
    "fim-data": "the worker trains on whole documents",
    "dataloader-inter-document-masking": "the worker attends over whole sequences",
    "hybrid-context-parallel": "the worker splits every sequence in the same way",
    "per-dataset-sequences-path": "the worker counts sequences itself",
    "check-for-spiky-loss": "the worker does not support this check",
    "logits-load-dir": "the worker has no distillation loss",
    "inprocess-restart": "the worker does not support in-process restarts",
    "perform-rl-step": "the worker supports only pretraining",
    "vision-pretraining": "the worker supports only pretraining on text",
    # A restart must be transparent. With these options, the engine would lose state.
    "no-save-optim": "a restarted run would lose its optimizer state",
    "no-load-optim": "a restarted run would lose its optimizer state",
    "load-main-params-from-ckpt": "a restarted run would lose its optimizer state",
    "no-save-rng": "a restarted run would use different random numbers",
    "no-load-rng": "a restarted run would use different random numbers",
    "ckpt-step": "every restart would go back to that step",
    "enable-msc": "checkpoint files would have no digests",
    **dict.fromkeys(
        (
            *("non-persistent-ckpt-type", "non-persistent-save-interval"),
            *("non-persistent-global-ckpt-dir", "non-persistent-local-ckpt-dir"),
            *("non-persistent-local-ckpt-algo", "replication"),
        ),
        "a restart would resume from an unverified checkpoint",
    ),
    "ckpt-format": "the plan sets the checkpoint format",
    "dist-ckpt-format": "the plan sets the checkpoint format",
    "dist-ckpt-save-pre-mcore-014": "checkpoints could not be loaded in a different layout",
}
"""Options that would contradict the plan, with the reason."""

PLANNED_VALUES = {
    "optimizer": (
        ("adam",),
        "the plan assumes the memory and step time of Adam; for Muon, set training.optimizer.name",
    ),
    "transformer-impl": (
        ("local", "transformer_engine"),
        "inference layers cannot be trained",
    ),
}
"""Options for which the plan is valid only with some values: these values, and the reason."""


def option_problems(options: Mapping[str, OptionValue]) -> list[Problem]:
    """Check the options that a spec passes to Megatron."""
    found = (_problem(name, value) for name, value in options.items())
    return [problem for problem in found if problem is not None]


def _problem(name: str, value: OptionValue) -> Problem | None:
    """Check one option; None if it is correct."""
    option = name.replace("_", "-")
    field = f"engine.options.{name}"
    if option in MODELLED:
        elsewhere = MODELLED[option]
        fix = f"Set {elsewhere} instead."
        if elsewhere.startswith("model.dimensions"):
            fix = f"Set {elsewhere} instead; this requires model.dimensions in place of a preset."
        rule = f"{elsewhere} already sets {name}."
        return Problem(EngineCode.MODELLED_OPTION, field, rule, fix)
    if option in DERIVED:
        rule = f"{name} would contradict the plan: {DERIVED[option]}."
        fix = "Set training.batch_schedule instead." if option == RAMP else "Remove this option."
        return Problem(EngineCode.DERIVED_OPTION, field, rule, fix)
    known = known_options().get(option)
    if known is None:
        match = nearest(option, known_options())
        fix = f"Did you mean {match}?" if match else "See the engine's --help for valid options."
        rule = f"Megatron has no option {option}."
        return Problem(EngineCode.UNKNOWN_OPTION, field, rule, fix)
    if option in PLANNED_VALUES:
        values, reason = PLANNED_VALUES[option]
        if str(value) in known.choices and str(value) not in values:
            rule = f"{name}: {value} would contradict the plan: {reason}."
            fix = f"Use {' or '.join(values)}, or remove this option."
            return Problem(EngineCode.DERIVED_OPTION, field, rule, fix)
        known = replace(known, choices=values)
    fix = known.value_fix(value)
    if fix:
        return Problem(
            EngineCode.OPTION_VALUE, field, f"{option} accepts {_TAKES[known.takes]}.", fix
        )
    return None


_TAKES = {
    Takes.SWITCH: "no value, only true or false",
    Takes.TOGGLE: "no value, only true or false",
    Takes.VALUE: "one value",
    Takes.LIST: "a list of values",
}
