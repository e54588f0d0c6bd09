# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The training section: length, batch size, schedule, precision and evaluation."""

from enum import StrEnum
from itertools import pairwise
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from seatrial.spec.base import DEFAULTS, SpecModel, added_later, broken, defaults, require_one_of
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
    """Number format for matrix multiplications; weights and optimizer keep fp32 master copies."""

    FP32 = "fp32"
    """Single precision throughout."""
    FP16 = "fp16"
    """Half precision with dynamic loss scaling."""
    BF16 = "bf16"
    """bfloat16, without loss scaling."""
    FP8 = "fp8"
    """bf16 with 8-bit matrix multiplications, one scale per tensor; Hopper or newer."""
    MXFP8 = "mxfp8"
    """bf16 with 8-bit matrix multiplications, one scale per block; Blackwell or newer."""
    NVFP4 = "nvfp4"
    """bf16 with 4-bit matrix multiplications; Blackwell or newer."""


class DecayStyle(StrEnum):
    """Shape of the learning-rate curve after the warm-up."""

    COSINE = "cosine"
    """Half a cosine period down to the minimum."""
    LINEAR = "linear"
    """Linear decay to the minimum."""
    CONSTANT = "constant"
    """No decay: the learning rate stays at the peak."""
    INVERSE_SQUARE_ROOT = "inverse-square-root"
    """Proportional to the inverse square root of the step."""
    WSD = "wsd"
    """Constant, then decay at the end of the run (warm-up, stable, decay)."""


class AnnealStyle(StrEnum):
    """Shape of the decay at the end of a run with style `wsd`."""

    LINEAR = "linear"
    """Linear decay to the minimum."""
    COSINE = "cosine"
    """Half a cosine period down to the minimum."""
    EXPONENTIAL = "exponential"
    """Exponential decay: fastest at its start."""
    MINUS_SQUARE_ROOT = "minus-square-root"
    """Proportional to 1 minus the square root of the elapsed fraction: fast at first, then flat."""


class OptimizerName(StrEnum):
    """The optimizer of the weight matrices."""

    ADAM = "adam"
    """AdamW, for all parameters."""
    MUON = "muon"
    """Muon for the matrices in the layers, AdamW for embeddings, the output layer, norms and
    biases. It keeps one momentum per weight instead of two moments."""


class MuonScale(StrEnum):
    """How Muon scales the update of a matrix by its shape."""

    SPECTRAL = "spectral"
    """By the square root of the larger dimension."""
    UNIT_RMS_NORM = "unit_rms_norm"
    """By the square root of outputs over inputs."""
    SHAPE_SCALING = "shape_scaling"
    """By the square root of outputs over inputs, and at least by 1."""


class Span(SpecModel):
    """A part of the run, in exactly one unit."""

    steps: PositiveInt | None = None
    """Length in optimizer steps."""
    samples: Count | None = None
    """Length in sequences."""
    tokens: Count | None = None
    """Length in tokens."""
    fraction: Fraction | None = Field(default=None, validate_default=True)
    """Length as a fraction of the whole run, from 0 to 1."""

    @field_validator("fraction")
    @classmethod
    def _exactly_one(cls, fraction: float | None, info: ValidationInfo) -> float | None:
        require_one_of(info.data, fraction, "steps", "samples", "tokens", "fraction")
        return fraction


class LearningRate(SpecModel):
    """The learning-rate schedule."""

    peak: PositiveFloat | None = None
    """Peak learning rate; defaults to the preset's, otherwise 3e-4."""
    minimum: NonNegativeFloat | None = None
    """Learning rate at the end of the decay; defaults to a tenth of the peak."""
    style: DecayStyle = DecayStyle.COSINE
    """Shape of the decay."""
    warmup: Span = defaults(fraction=0.01)
    """Length of the warm-up from 0 to the peak."""
    decay: Span = defaults(fraction=1.0)
    """Point at which the decay reaches the minimum, measured from the start of the run."""
    anneal: Span | None = Field(default=None, validate_default=True)
    """Length of the decay at the end of the run, for style `wsd` only."""
    anneal_style: AnnealStyle = added_later(AnnealStyle.LINEAR)
    """Shape of the decay at the end of the run, for style `wsd` only."""

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
                "style wsd needs the length of the decay at the end of the run.",
                "Add anneal: {fraction: 0.1}, or a different length.",
                absent=("anneal",),
            )
        if style is not None and style is not DecayStyle.WSD and anneal is not None:
            raise broken(
                f"anneal applies only to style wsd, but the style is {style}.",
                "Remove anneal, or use style: wsd.",
            )
        return anneal

    @field_validator("anneal_style")
    @classmethod
    def _of_wsd_only(cls, anneal_style: AnnealStyle, info: ValidationInfo) -> AnnealStyle:
        style = info.data.get("style")
        if style is not None and style is not DecayStyle.WSD:
            raise broken(
                f"anneal_style applies only to style wsd, but the style is {style}.",
                "Remove anneal_style, or use style: wsd.",
            )
        return anneal_style


class Muon(SpecModel):
    """Muon's hyperparameters; `beta1`, `beta2` and `epsilon` apply to the parameters of AdamW."""

    momentum: BelowOne = 0.95
    """Decay rate of the momentum."""
    nesterov: Flag = True
    """True to use Nesterov momentum."""
    scale: MuonScale = MuonScale.SPECTRAL
    """How the update of a matrix is scaled by its shape."""
    extra_scale: PositiveFloat = 1.0
    """Additional factor of the update; 0.2 with `spectral` gives updates as large as AdamW's."""
    newton_schulz_steps: PositiveInt = 5
    """Newton-Schulz iterations, which make the update orthogonal."""


class Optimizer(SpecModel):
    """The optimizer and its hyperparameters."""

    name: OptimizerName = added_later(OptimizerName.ADAM)
    """The optimizer of the weight matrices."""
    beta1: BelowOne = 0.9
    """Decay rate of the first moment."""
    beta2: BelowOne = 0.95
    """Decay rate of the second moment."""
    epsilon: PositiveFloat = 1e-8
    """Term added to the denominator for numerical stability."""
    weight_decay: NonNegativeFloat = 0.1
    """Decoupled weight decay."""
    clip_grad_norm: NonNegativeFloat = 1.0
    """Maximum gradient norm; larger gradients are clipped to it. 0 disables clipping."""
    muon: Muon | None = added_later()
    """Muon's hyperparameters, for `name: muon` only; defaults to Muon's defaults."""

    @field_validator("muon")
    @classmethod
    def _with_muon_only(cls, muon: Muon | None, info: ValidationInfo) -> Muon | None:
        name = info.data.get("name")
        if muon is not None and name is OptimizerName.ADAM:
            raise broken(
                "muon applies only to the optimizer muon, but the optimizer is adam.",
                "Remove muon, or use name: muon.",
            )
        return muon


class EarlyBatch(SpecModel):
    """An early part of the run with a smaller batch."""

    global_batch_size: PositiveInt
    """Sequences per optimizer step in this part of the run."""
    until_tokens: Count
    """Tokens from the start of the run, such as `250B`, after which the next batch size is used."""


class Evaluation(SpecModel):
    """Loss on the validation split during the run."""

    every_steps: PositiveInt = 1000
    """Steps between evaluations."""
    batches: NonNegativeInt = 10
    """Global batches per evaluation; 0 disables evaluation."""


class TrainingSpec(SpecModel):
    """How the model is trained; set the length with exactly one of steps, samples and tokens."""

    steps: Count | None = None
    """Length in optimizer steps."""
    samples: Count | None = None
    """Length in sequences; a final partial batch is dropped."""
    tokens: Count | None = Field(default=None, validate_default=True)
    """Length in tokens, such as `150B`, rounded up to a whole step."""
    # Left out of dumps while not set, so that specs without it keep their digest.
    benchmark_steps: PositiveInt | None = Field(
        default=None, exclude_if=lambda value: value is None
    )
    """Run a benchmark of this many steps instead: no evaluation, and one save at the end."""
    sequence_length: PositiveInt | None = None
    """Tokens per sequence; defaults to the preset's."""
    micro_batch_size: AutoInt = AUTO
    """Sequences that a data-parallel rank processes at a time."""
    global_batch_size: AutoInt = AUTO
    """Sequences per optimizer step, over all data-parallel ranks."""
    batch_schedule: tuple[EarlyBatch, ...] = added_later(())
    """Smaller batch sizes for the start of the run; `global_batch_size` is used after them."""
    learning_rate: LearningRate = DEFAULTS
    """The learning-rate schedule."""
    optimizer: Optimizer = DEFAULTS
    """The optimizer and its hyperparameters."""
    precision: Precision = Precision.BF16
    """Number format for matrix multiplications."""
    hidden_dropout: BelowOne = 0.0
    """Dropout probability on the residual stream."""
    attention_dropout: BelowOne = 0.0
    """Dropout probability on attention weights."""
    init_std: PositiveFloat = 0.02
    """Standard deviation of the initial weights; if not set, MPT models use their own scheme."""
    evaluation: Evaluation = DEFAULTS
    """Evaluation on the validation split."""
    seed: NonNegativeInt = 1234
    """Random seed for weights, dropout and data order."""
    deterministic: Flag = False
    """True to use only bitwise reproducible kernels, which are slower."""

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
            # The planner chooses the data-parallel size, so the fix cannot state a number.
            raise broken(
                f"{size} sequences cannot be split into micro-batches of {micro}.",
                f"Use a multiple of {micro} times the data-parallel size.",
            )
        return size

    @field_validator("batch_schedule")
    @classmethod
    def _growing(
        cls, schedule: tuple[EarlyBatch, ...], info: ValidationInfo
    ) -> tuple[EarlyBatch, ...]:
        for number, (one, other) in enumerate(pairwise(schedule), 1):
            if other.until_tokens <= one.until_tokens:
                raise broken(
                    f"this batch size ends at {other.until_tokens:,} tokens, but the one before "
                    f"it ends at {one.until_tokens:,}.",
                    "List the batch sizes in the order of the run.",
                    inside=(number, "until_tokens"),
                )
        micro = info.data.get("micro_batch_size")
        sizes = [early.global_batch_size for early in schedule]
        for number, size in enumerate(sizes):
            if isinstance(micro, int) and size % micro:
                raise broken(
                    f"{size} sequences cannot be split into micro-batches of {micro}.",
                    f"Use a multiple of {micro} times the data-parallel size.",
                    inside=(number, "global_batch_size"),
                )
        last = info.data.get("global_batch_size")
        for number, (size, after) in enumerate(zip(sizes, [*sizes[1:], last], strict=False)):
            if isinstance(after, int) and size >= after:
                raise broken(
                    f"{size} sequences are not fewer than the {after} that follow; the batch size "
                    "can only grow.",
                    f"Use less than {after}.",
                    inside=(number, "global_batch_size"),
                )
        return schedule


_BENCHMARK_SCHEDULE = {"warmup": {"fraction": 0.04}, "decay": {"fraction": 0.9}}


def as_benchmark(spec: dict[str, Any], steps: int) -> dict[str, Any]:
    """Return the values of a spec for a benchmark of so many steps."""
    training = _section(spec, "training")
    rate = _section(training, "learning_rate") | _BENCHMARK_SCHEDULE
    if rate.get("anneal") is not None:
        rate["anneal"] = {"fraction": 0.1}
    evaluation = _section(training, "evaluation") | {"batches": 0}
    replaced = ("samples", "tokens", "batch_schedule")
    training = {key: value for key, value in training.items() if key not in replaced}
    training |= {"steps": steps, "learning_rate": rate, "evaluation": evaluation}
    other_intervals = ("every_minutes", "every_hours", "keep_every_steps")
    saves = _section(spec, "checkpoints")
    saves = {key: value for key, value in saves.items() if key not in other_intervals}
    return spec | {
        "training": training,
        "data": _section(spec, "data") | {"split": [100, 0, 0]},
        "checkpoints": saves | {"every_steps": steps},
    }


def _section(around: dict[str, Any], name: str) -> dict[str, Any]:
    value = around.get(name)
    return dict(value) if isinstance(value, dict) else {}
