# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The training section: length, batch, schedule, precision, evaluation."""

from enum import StrEnum

from pydantic import Field, ValidationInfo, field_validator

from seatrial.spec.base import DEFAULTS, SpecModel, broken, defaults, require_one_of
from seatrial.spec.scalars import (
    AUTO,
    AutoInt,
    BelowOne,
    Count,
    Flag,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)


class Precision(StrEnum):
    """Number format of the matrix products; weights and optimizer keep fp32 master copies."""

    FP32 = "fp32"
    """Single precision throughout."""
    FP16 = "fp16"
    """Half precision with a dynamic loss scale."""
    BF16 = "bf16"
    """bfloat16; needs no loss scale."""
    FP8 = "fp8"
    """bf16 with 8-bit matrix products, one scale per tensor; Hopper or newer."""
    MXFP8 = "mxfp8"
    """bf16 with 8-bit matrix products, one scale per block; Blackwell or newer."""
    NVFP4 = "nvfp4"
    """bf16 with 4-bit matrix products; Blackwell or newer."""


class DecayStyle(StrEnum):
    """Shape of the learning rate after the warm-up."""

    COSINE = "cosine"
    """Half a cosine down to the minimum."""
    LINEAR = "linear"
    """A straight line down to the minimum."""
    CONSTANT = "constant"
    """The peak throughout."""
    INVERSE_SQUARE_ROOT = "inverse-square-root"
    """As one over the square root of the steps."""
    WSD = "wsd"
    """Constant, then down at the end (warm-up, stable, decay)."""


class Span(SpecModel):
    """A part of the run's length, in exactly one unit."""

    steps: PositiveInt | None = None
    """Optimizer steps."""
    samples: Count | None = None
    """Sequences."""
    tokens: Count | None = None
    """Tokens."""
    fraction: Fraction | None = Field(default=None, validate_default=True)
    """Share of the whole run, from 0 to 1."""

    @field_validator("fraction")
    @classmethod
    def _exactly_one(cls, fraction: float | None, info: ValidationInfo) -> float | None:
        require_one_of(info.data, fraction, "steps", "samples", "tokens", "fraction")
        return fraction


class LearningRate(SpecModel):
    """The learning-rate schedule."""

    peak: PositiveFloat | None = None
    """Highest learning rate; the preset's own when absent, else 3e-4."""
    minimum: NonNegativeFloat | None = None
    """Learning rate at the end of the decay; a tenth of the peak when absent."""
    style: DecayStyle = DecayStyle.COSINE
    """Shape of the decay."""
    warmup: Span = defaults(fraction=0.01)
    """How long the rate rises from 0 to its peak."""
    decay: Span = defaults(fraction=1.0)
    """When the decay has reached the minimum, counted from the start of the run."""
    anneal: Span | None = Field(default=None, validate_default=True)
    """How long the rate falls at the end; for style `wsd` only."""

    @field_validator("minimum")
    @classmethod
    def _not_above_peak(cls, minimum: float | None, info: ValidationInfo) -> float | None:
        peak = info.data.get("peak")
        if minimum is not None and peak is not None and minimum > peak:
            raise broken(
                f"the minimum {minimum:g} is above the peak {peak:g}.",
                f"Use at most {peak:g}; {peak / 10:g} is usual.",
            )
        return minimum

    @field_validator("anneal")
    @classmethod
    def _with_wsd_only(cls, anneal: Span | None, info: ValidationInfo) -> Span | None:
        style = info.data.get("style")
        if style is DecayStyle.WSD and anneal is None:
            raise broken(
                "style wsd holds the rate, and nothing says how long it falls at the end.",
                "Add anneal: {fraction: 0.1}, or another length.",
                absent=("anneal",),
            )
        if style is not None and style is not DecayStyle.WSD and anneal is not None:
            raise broken(
                f"only style wsd falls at the end, and the style is {style}.",
                "Remove anneal, or write style: wsd.",
            )
        return anneal


class Optimizer(SpecModel):
    """AdamW and its constants."""

    beta1: BelowOne = 0.9
    """Decay of the first moment."""
    beta2: BelowOne = 0.95
    """Decay of the second moment."""
    epsilon: PositiveFloat = 1e-8
    """Added to the denominator."""
    weight_decay: NonNegativeFloat = 0.1
    """Decoupled weight decay."""
    clip_grad_norm: NonNegativeFloat = 1.0
    """Gradients are scaled down to this norm; 0 switches it off."""


class Evaluation(SpecModel):
    """Loss on the validation share while the run goes on."""

    every_steps: PositiveInt = 1000
    """Steps between evaluations."""
    batches: NonNegativeInt = 10
    """Global batches of each evaluation; 0 switches evaluation off."""


class TrainingSpec(SpecModel):
    """How the model is trained; the length is exactly one of steps, samples and tokens."""

    steps: Count | None = None
    """Length in optimizer steps."""
    samples: Count | None = None
    """Length in sequences; a last, partial batch is left out."""
    tokens: Count | None = Field(default=None, validate_default=True)
    """Length in tokens, such as `150B`; the last step that is begun is finished."""
    sequence_length: PositiveInt | None = None
    """Tokens of one sequence; the preset's own when absent."""
    micro_batch_size: AutoInt = AUTO
    """Sequences that one data-parallel rank processes at a time."""
    global_batch_size: AutoInt = AUTO
    """Sequences per optimizer step, over all data-parallel ranks."""
    learning_rate: LearningRate = DEFAULTS
    """The learning-rate schedule."""
    optimizer: Optimizer = DEFAULTS
    """AdamW and its constants."""
    precision: Precision = Precision.BF16
    """Number format of the matrix products."""
    hidden_dropout: BelowOne = 0.0
    """Dropout on the residual stream."""
    attention_dropout: BelowOne = 0.0
    """Dropout on attention weights."""
    init_std: PositiveFloat = 0.02
    """Standard deviation of the initial weights; an MPT has its own scheme when absent."""
    evaluation: Evaluation = DEFAULTS
    """Loss on the validation share."""
    seed: NonNegativeInt = 1234
    """Seed of weights, dropout and data order."""
    deterministic: Flag = False
    """Whether only kernels that repeat bit for bit are used; slower."""

    @field_validator("tokens")
    @classmethod
    def _exactly_one_length(cls, tokens: int | None, info: ValidationInfo) -> int | None:
        require_one_of(info.data, tokens, "steps", "samples", "tokens")
        return tokens

    @field_validator("global_batch_size")
    @classmethod
    def _multiple_of_micro_batch(cls, size: int | str, info: ValidationInfo) -> int | str:
        micro = info.data.get("micro_batch_size")
        if isinstance(size, int) and isinstance(micro, int) and size % micro:
            # How many ranks share it is the planner's to say, so that no number is named here.
            raise broken(
                f"{size} sequences cannot be split into micro batches of {micro}.",
                f"Use a multiple of {micro} times the data-parallel size.",
            )
        return size
