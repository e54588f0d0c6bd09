# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron's own options: which exist, and which of them a field of the spec covers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from seatrial.engines.engine import EngineCode, Problem
from seatrial.engines.megatron.flags import FLAGS, USUAL
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
    # The engine would delete what keep_last promises to keep.
    "save-retain-interval": "checkpoints.keep_every_steps",
}
"""Options that we never set, because a field of the spec says the same through another one."""

MODELLED = {flag.name: flag.field for flag in FLAGS} | EQUIVALENT
"""Options that a spec sets through a field of its own, and that field."""


DERIVED = {
    "no-pad-vocab-size": "the vocabulary is padded by the plan",
    "disable-pad-vocab-size": "the vocabulary is padded by the plan",
    "encoder-num-layers": "the layers are those of the model",
    "mtp-num-layers": "its layers are not counted by the plan",
    "multi-latent-attention": "its parameters are not counted by the plan",
    "squared-relu": "the activation is that of the model",
    "hybrid-layer-pattern": "the layers are those of the model",
    "heterogeneous-layers-config-path": "the layers are those of the model",
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
    "no-save-rng": "a restarted run would draw other random numbers",
    "no-load-rng": "a restarted run would draw other random numbers",
    "ckpt-step": "a restarted run would go back to that step every time",
    "enable-msc": "files of checkpoints would be written past the digests of their ranks",
    **dict.fromkeys(
        (
            *("non-persistent-ckpt-type", "non-persistent-save-interval"),
            *("non-persistent-global-ckpt-dir", "non-persistent-local-ckpt-dir"),
            "non-persistent-local-ckpt-algo",
        ),
        "a restart would go on from a checkpoint that nothing has verified",
    ),
    "dist-ckpt-format": "the format of checkpoints is the plan's",
    "dist-ckpt-save-pre-mcore-014": "checkpoints could not be loaded in another layout",
}
"""Options that would make what the plan says untrue, and why."""


class Takes(StrEnum):
    """What follows an option on the engine's command line."""

    SWITCH = "switch"
    """Nothing: it is on or off."""
    VALUE = "value"
    """One value."""
    LIST = "list"
    """Any number of values."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the engine's parser."""

    takes: Takes
    """What follows it."""
    kind: str = "any"
    """The type of its values: int, float, str or any."""
    choices: tuple[str, ...] = ()
    """The values it takes; empty when they are not listed."""


@cache
def known_options() -> dict[str, Option]:
    """Every option of the engine, from the list that was read off its own parser."""
    text = (Path(__file__).parent / "options.txt").read_text()
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, takes, *rest = line.split()
            choices = tuple(rest[1].split(",")) if len(rest) > 1 else ()
            found[name] = Option(Takes(takes), rest[0] if rest else "any", choices)
    return found


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
    # What is on unless the spec objects may also be switched off.
    fix = "" if option in USUAL and value is False else _value_fix(known, value)
    if fix:
        return Problem(
            EngineCode.OPTION_VALUE, field, f"{option} takes {_TAKES[known.takes]}.", fix
        )
    return None


_TAKES = {
    Takes.SWITCH: "no value: it is on or off",
    Takes.VALUE: "one value",
    Takes.LIST: "a list of values",
}


def _value_fix(known: Option, value: OptionValue) -> str:
    """What to write instead, or nothing when the value is one that the engine's parser takes."""
    if known.takes is Takes.SWITCH:
        return "" if value is True else "Write true, or remove the line to leave it off."
    if isinstance(value, bool):
        return "Write the value instead of true or false."
    if known.takes is Takes.VALUE and isinstance(value, tuple):
        return "Write one value instead of a list."
    words = value if isinstance(value, tuple) else (value,)
    for word in words:
        if known.choices and str(word) not in known.choices:
            return f"Use one of: {', '.join(known.choices)}."
        if known.kind == "int" and not isinstance(word, int):
            return "Write a whole number."
        if known.kind == "float" and not isinstance(word, int | float):
            return "Write a number."
    return ""
