# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Decide if a run can resume from a checkpoint, and what would change. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum

from seatrial.checkpoints.by_engine import format_of
from seatrial.checkpoints.setup import (
    DataOrder,
    ModelShape,
    SavedConstants,
    SavedSchedule,
    Setup,
)


class Resume(StrEnum):
    """The effect of a resume, from best to worst."""

    SAFE = "safe"
    """The run continues as if it had not been interrupted."""
    RESHARDED = "safe with resharding"
    """The state is resharded for a different layout. Losses agree up to rounding."""
    DATA_CHANGES = "data order changes"
    """The checkpoint loads, but the run reads different samples from then on."""
    MODEL_CHANGES = "model changes"
    """The checkpoint loads, but the model computes different outputs from then on."""
    IMPOSSIBLE = "impossible"
    """The engine cannot load the checkpoint into this run."""


class Setting(StrEnum):
    """A setting that a checkpoint and a run can differ in, besides the dimensions of the model."""

    PADDED_VOCAB_SIZE = "padded vocab size"
    CHECKPOINT_FORMAT = "checkpoint format"
    OPTIMIZER = "optimizer"
    OPTIMIZER_SHARDING = "optimizer sharding"
    PRECISION = "precision"
    LAYOUT = "layout"
    GLOBAL_BATCH_SIZE = "global batch size"
    TOKENIZER = "tokenizer"
    # The fields of `SavedConstants`.
    ROTARY_BASE = "rotary base"
    ROTARY_PERCENT = "rotary percent"
    ROTARY_SCALING = "RoPE scaling"
    NORM_EPSILON = "norm epsilon"
    # The fields of `DataOrder`.
    BLEND = "blend"
    SIZES = "data"
    SPLIT = "split"
    SEED = "seed"
    SEQUENCE_LENGTH = "sequence length"
    TRAIN_SAMPLES = "train samples"
    # The fields of `SavedSchedule`.
    PEAK = "learning rate"
    MINIMUM = "minimum learning rate"
    STYLE = "decay style"
    WARMUP_SAMPLES = "warm-up"
    DECAY_SAMPLES = "decay"

    @classmethod
    def of_field(cls, name: str) -> "Setting":
        """Return the setting of a field of `SavedConstants`, `DataOrder` or `SavedSchedule`."""
        return cls[name.upper()]


@dataclass(frozen=True, slots=True)
class ResumeReason:
    """One difference and its effect."""

    outcome: Resume
    """The effect of this difference alone."""
    what: str
    """A `Setting`, or the name of a dimension of the model."""
    saved: str
    wanted: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ResumeVerdict:
    """The verdict and its reasons."""

    outcome: Resume
    """The worst outcome of all reasons."""
    reasons: tuple[ResumeReason, ...]
    """All differences, worst first."""


def verdict(saved: Setup, wanted: Setup) -> ResumeVerdict:
    """Decide if a run with the wanted setup can resume from a checkpoint with the saved setup."""
    order = list(Resume)
    reasons = sorted(_reasons(saved, wanted), key=lambda reason: -order.index(reason.outcome))
    worst = reasons[0].outcome if reasons else Resume.SAFE
    return ResumeVerdict(worst, tuple(reasons))


def other_model(saved: Setup, wanted: Setup) -> list[ResumeReason]:
    """Return why two setups compute different outputs for the same tokens; empty if they do not."""
    found = [one for one in _model(saved, wanted) if one.outcome is Resume.IMPOSSIBLE]
    if saved.constants is not None and wanted.constants is not None:
        found += _constants(saved.constants, wanted.constants)
    return [*found, *_parts(saved, wanted)]


def _reasons(saved: Setup, wanted: Setup) -> Iterator[ResumeReason]:
    yield from _model(saved, wanted)
    yield from _state(saved, wanted)
    yield from _layout(saved, wanted)
    if saved.constants is not None and wanted.constants is not None:
        yield from _constants(saved.constants, wanted.constants)
    yield from _parts(saved, wanted)
    yield from _data(saved.data_order, wanted.data_order)
    if saved.global_batch_size and saved.global_batch_size != wanted.global_batch_size:
        sizes = f"{saved.global_batch_size:,}", f"{wanted.global_batch_size:,}"
        meaning = "each step reads different samples."
        yield ResumeReason(Resume.DATA_CHANGES, Setting.GLOBAL_BATCH_SIZE, *sizes, meaning)
    if saved.schedule is not None and wanted.schedule is not None:
        yield from _schedule(saved.schedule, wanted.schedule)
    if saved.tokenizer != wanted.tokenizer:
        meaning = "the same token IDs represent different text."
        yield ResumeReason(
            Resume.DATA_CHANGES, Setting.TOKENIZER, saved.tokenizer, wanted.tokenizer, meaning
        )


_PADDING = "padded_vocab_size"


def _model(saved: Setup, wanted: Setup) -> Iterator[ResumeReason]:
    for field in fields(ModelShape):
        one, other = getattr(saved.model, field.name), getattr(wanted.model, field.name)
        if one == other:
            continue
        outcome, meaning = Resume.IMPOSSIBLE, "the tensors have different shapes."
        if field.name == _PADDING and format_of(saved).has_flexible_padding:
            meaning = "the optimizer's buffers have a different length."
            if format_of(saved).is_reshardable:
                outcome, meaning = Resume.RESHARDED, "padding rows are added or removed."
        name = field.name.replace("_", " ")
        what = Setting.PADDED_VOCAB_SIZE if field.name == _PADDING else name
        yield ResumeReason(outcome, what, str(one), str(other), meaning)


_TRAINED_WITH = "the checkpoint loads, but its weights were trained with the saved value."


def _constants(saved: SavedConstants, wanted: SavedConstants) -> Iterator[ResumeReason]:
    for field in fields(SavedConstants):
        one, other = getattr(saved, field.name), getattr(wanted, field.name)
        if one != other:
            name, shown = Setting.of_field(field.name), (f"{one:g}", f"{other:g}")
            yield ResumeReason(Resume.MODEL_CHANGES, name, *shown, _TRAINED_WITH)


_TENSOR_PARTS = ("latent_attention.", "mtp_layers", "attention_sinks", "moe.layer_interval")
"""Parts of the architecture that change the names or shapes of tensors."""


def _parts(saved: Setup, wanted: Setup) -> Iterator[ResumeReason]:
    if saved.parts is None or wanted.parts is None:
        return
    for name in sorted(saved.parts.keys() | wanted.parts.keys()):
        one, other = (str(parts.get(name, "none")) for parts in (saved.parts, wanted.parts))
        if one == other:
            continue
        outcome, meaning = Resume.MODEL_CHANGES, _TRAINED_WITH
        if name.startswith(_TENSOR_PARTS):
            outcome, meaning = Resume.IMPOSSIBLE, "the tensors have different names or shapes."
        yield ResumeReason(outcome, name, one, other, meaning)


def _state(saved: Setup, wanted: Setup) -> Iterator[ResumeReason]:
    one, other = saved.checkpoint_format, wanted.checkpoint_format
    known, asked = format_of(saved), format_of(wanted)
    if one != other and not known.is_detected:
        meaning = "the engine reads only the configured format."
        yield ResumeReason(Resume.IMPOSSIBLE, Setting.CHECKPOINT_FORMAT, one, other, meaning)
    if saved.optimizer != wanted.optimizer:
        meaning = "the optimizer state is different."
        yield ResumeReason(
            Resume.IMPOSSIBLE, Setting.OPTIMIZER, saved.optimizer, wanted.optimizer, meaning
        )
    if saved.precision != wanted.precision:
        meaning = "the optimizer keeps different copies of the weights."
        yield ResumeReason(
            Resume.IMPOSSIBLE, Setting.PRECISION, saved.precision, wanted.precision, meaning
        )
    one, other = saved.optimizer_sharding, wanted.optimizer_sharding
    if (one == "none") != (other == "none") or known.optimizer_names != asked.optimizer_names:
        meaning = "the tensors of the optimizer state have different names."
        yield ResumeReason(Resume.IMPOSSIBLE, Setting.OPTIMIZER_SHARDING, one, other, meaning)


def _layout(saved: Setup, wanted: Setup) -> Iterator[ResumeReason]:
    one, other = saved.layout, wanted.layout
    if one == other:
        return
    known, asked = format_of(saved), format_of(wanted)
    model_cut = (one.tp_size, one.pp_size) != (other.tp_size, other.pp_size)
    names = f"{one} on {one.world_size} ranks", f"{other} on {other.world_size} ranks"
    if known.is_bound_to_layout:
        meaning = (
            "the engine's legacy format has one file per rank and loads only with the same layout."
        )
        yield ResumeReason(Resume.IMPOSSIBLE, Setting.LAYOUT, *names, meaning)
    elif model_cut and not known.is_reshardable:
        meaning = (
            f"the optimizer state was saved as {saved.optimizer_sharding}, which loads only "
            "with the same tp and pp."
        )
        yield ResumeReason(Resume.IMPOSSIBLE, Setting.LAYOUT, *names, meaning)
    elif saved.model.experts and known.has_expert_optimizer != asked.has_expert_optimizer:
        meaning = "only one of the two layouts has a separate optimizer for the experts."
        yield ResumeReason(Resume.IMPOSSIBLE, Setting.LAYOUT, *names, meaning)
    else:
        drawn = " Dropout masks change, because tp or pp changes." if model_cut else ""
        meaning = f"the state is resharded; losses agree up to rounding.{drawn}"
        yield ResumeReason(Resume.RESHARDED, Setting.LAYOUT, *names, meaning)


_DATA_MEANING = {
    "blend": "the data or the blend weights differ.",
    "split": "the boundary between training and validation moves.",
    "seed": "samples are shuffled differently.",
    "sequence_length": "samples are split differently.",
    "train_samples": "the shuffle depends on the length of the run, so the order changes.",
    "sizes": "the file sizes differ, so the content has changed.",
}


def _data(saved: DataOrder, wanted: DataOrder) -> Iterator[ResumeReason]:
    for field in fields(DataOrder):
        one, other = getattr(saved, field.name), getattr(wanted, field.name)
        unseen = field.name == "sizes" and not (one and other)
        if one == other or unseen:
            continue
        if field.name == "blend" and any(word.startswith("@") for word in (*one, *other)):
            # The blend file cannot be read here. The worker compares the blend later.
            continue
        name = Setting.of_field(field.name)
        yield ResumeReason(
            Resume.DATA_CHANGES, name, _shown(one), _shown(other), _DATA_MEANING[field.name]
        )


OF_SCHEDULE = frozenset(Setting.of_field(field.name) for field in fields(SavedSchedule))
"""The settings that a reason about the learning-rate schedule can name."""


def _schedule(saved: SavedSchedule, wanted: SavedSchedule) -> Iterator[ResumeReason]:
    """The engine rejects any difference (`OptimizerParamScheduler._check_and_set`, 0.19.2)."""
    for field in fields(SavedSchedule):
        one, other = getattr(saved, field.name), getattr(wanted, field.name)
        if one != other:
            unit = " samples" if field.name.endswith("_samples") else ""
            meaning = "the engine rejects a checkpoint with a different learning-rate schedule."
            shown = f"{_figure(one)}{unit}", f"{_figure(other)}{unit}"
            name = Setting.of_field(field.name)
            yield ResumeReason(Resume.IMPOSSIBLE, name, *shown, meaning)


def _figure(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
