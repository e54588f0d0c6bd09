# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which of Megatron's own options a spec may pass through, and which a field of it covers."""

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
    # Names that the engine has given up: it refuses them and says which replaces them.
    "batch-size": "training.micro_batch_size",
    "warmup": "training.learning_rate.warmup",
    "model-parallel-size": "parallelism.tp_size",
    "checkpoint-activations": "parallelism.recompute",
    # Other names of the same argument.
    "persistent-save-interval": "checkpoints.every_steps",
    "encoder-seq-length": "training.sequence_length",
    "decoder-seq-length": "training.sequence_length",
    # The engine would delete what keep_last promises to keep.
    "save-retain-interval": "checkpoints.keep_every_steps",
}
"""Options that we never set, because a field of the spec says the same through another one."""

MODELLED = {flag.name: flag.field for flag in FLAGS if flag.field} | EQUIVALENT
"""Options that a spec sets through a field of its own, and that field."""


DERIVED = {
    "no-pad-vocab-size": "the vocabulary is padded by the plan",
    "disable-pad-vocab-size": "the vocabulary is padded by the plan",
    "make-vocab-size-divisible-by": "the vocabulary is padded by the plan",
    "encoder-num-layers": "the layers are those of the model",
    "decoder-num-layers": "the layers are those of the model",
    "mtp-num-layers": "its layers are not counted by the plan",
    "multi-latent-attention": "its parameters are not counted by the plan",
    "squared-relu": "the activation is that of the model",
    "hybrid-layer-pattern": "the layers are those of the model",
    "hybrid-override-pattern": "the layers are those of the model",
    "mtp-hybrid-override-pattern": "the layers are those of the model",
    "is-hybrid-model": "the layers are those of the model",
    "heterogeneous-layers-config-path": "the layers are those of the model",
    "heterogeneous-layers-config-encoded-json": "the layers are those of the model",
    "quick-geglu": "the activation is that of the model",
    "experimental-attention-variant": "its parameters are not counted by the plan",
    "linear-attention-freq": "its parameters are not counted by the plan",
    "moe-latent-size": "its parameters are not counted by the plan",
    "tensor-parallel-num-weight-shards": "the weights are split as the plan says",
    "expert-tensor-parallel-num-weight-shards": "the weights are split as the plan says",
    "recompute-method": "the plan counts the memory of recomputing each layer by itself",
    "recompute-num-layers": "the plan counts the memory of recomputing each layer by itself",
    "use-tp-pp-dp-mapping": "the order of ranks is that of the plan",
    "pipeline-model-parallel-layout": "the stages are those of the plan",
    "rampup-batch-size": "the plan counts steps of one batch size",
    "step-batch-size-schedule": "the plan counts steps of one batch size",
    "eval-global-batch-size": "the plan counts the samples of an evaluation",
    "eval-micro-batch-size": "the plan counts the samples of an evaluation",
    "full-validation": "the plan counts the samples of an evaluation",
    "start-eval-at-iter": "the plan counts the samples of an evaluation",
    "yaml-cfg": "the engine would read everything from another file",
    "use-checkpoint-args": "the engine would take everything from a checkpoint",
    "skip-train": "the plan is one of training",
    "ckpt-convert-format": "the engine would convert a checkpoint and end",
    "ckpt-convert-save": "the engine would convert a checkpoint and end",
    "adlr-autoresume": "it needs a package that NVIDIA has not published",
    "sft": "the worker trains on whole documents",
    "fim-data": "the worker trains on whole documents",
    "dataloader-inter-document-masking": "the worker attends over whole sequences",
    "hybrid-context-parallel": "the worker cuts every sequence alike",
    "per-dataset-sequences-path": "the worker counts sequences itself",
    "check-for-spiky-loss": "the worker does not look for it",
    "logits-load-dir": "the worker has no distillation loss",
    "inprocess-restart": "the worker does not wrap the training in one",
    "perform-rl-step": "the worker pretrains",
    "vision-pretraining": "the worker pretrains on text",
    # A restart must go on as if nothing had happened; without these the engine starts afresh.
    "no-save-optim": "a restarted run would go on without its optimizer's state",
    "no-load-optim": "a restarted run would go on without its optimizer's state",
    "load-main-params-from-ckpt": "a restarted run would go on without its optimizer's state",
    "no-save-rng": "a restarted run would draw other random numbers",
    "no-load-rng": "a restarted run would draw other random numbers",
    "ckpt-step": "a restarted run would go back to that step every time",
    "enable-msc": "files of checkpoints would be written past the digests of their ranks",
    **dict.fromkeys(
        (
            *("non-persistent-ckpt-type", "non-persistent-save-interval"),
            *("non-persistent-global-ckpt-dir", "non-persistent-local-ckpt-dir"),
            *("non-persistent-local-ckpt-algo", "replication"),
        ),
        "a restart would go on from a checkpoint that nothing has verified",
    ),
    "ckpt-format": "the format of checkpoints is the plan's",
    "dist-ckpt-format": "the format of checkpoints is the plan's",
    "dist-ckpt-save-pre-mcore-014": "checkpoints could not be loaded in another layout",
}
"""Options that would make what the plan says untrue, and why."""

PLANNED_VALUES = {
    "optimizer": (("adam",), "the plan counts the memory and the time of Adam"),
    "transformer-impl": (
        ("local", "transformer_engine"),
        "layers that are made for inference cannot be trained",
    ),
}
"""Options of which the plan is true for some values alone: those, and why."""


def option_problems(options: Mapping[str, OptionValue]) -> list[Problem]:
    """What is wrong with options that a spec passes through."""
    found = (_problem(name, value) for name, value in options.items())
    return [problem for problem in found if problem is not None]


def _problem(name: str, value: OptionValue) -> Problem | None:
    """What is wrong with one option, if anything."""
    option = name.replace("_", "-")
    field = f"engine.options.{name}"
    if option in MODELLED:
        elsewhere = MODELLED[option]
        fix = f"Set {elsewhere} instead."
        if elsewhere.startswith("model.dimensions"):
            fix = f"Set {elsewhere} instead; a preset is replaced by its dimensions for that."
        rule = f"{name} is what {elsewhere} says."
        return Problem(EngineCode.MODELLED_OPTION, field, rule, fix)
    if option in DERIVED:
        rule = f"{name} would contradict the plan: {DERIVED[option]}."
        return Problem(EngineCode.DERIVED_OPTION, field, rule, "Remove it.")
    known = known_options().get(option)
    if known is None:
        match = nearest(option, known_options())
        fix = f"Did you mean {match}?" if match else "Look it up in the engine's --help."
        rule = f"Megatron has no option {option}."
        return Problem(EngineCode.UNKNOWN_OPTION, field, rule, fix)
    if option in PLANNED_VALUES:
        values, reason = PLANNED_VALUES[option]
        if str(value) in known.choices and str(value) not in values:
            rule = f"{name}: {value} would contradict the plan: {reason}."
            fix = f"Write {' or '.join(values)}, or remove it."
            return Problem(EngineCode.DERIVED_OPTION, field, rule, fix)
        known = replace(known, choices=values)
    fix = known.value_fix(value)
    if fix:
        return Problem(
            EngineCode.OPTION_VALUE, field, f"{option} takes {_TAKES[known.takes]}.", fix
        )
    return None


_TAKES = {
    Takes.SWITCH: "no value: it is on or off",
    Takes.TOGGLE: "no value: it is on or off",
    Takes.VALUE: "one value",
    Takes.LIST: "a list of values",
}
