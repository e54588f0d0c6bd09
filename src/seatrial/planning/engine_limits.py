# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The capabilities of an engine that the planner depends on."""

from dataclasses import dataclass

from seatrial.planning.options import EngineOption
from seatrial.spec.engine import engine_named
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.run import RunSpec


@dataclass(frozen=True, slots=True)
class UnseenRuns:
    """Runs whose step time was predicted before they were seen (`backtest/data/prequential`)."""

    inside: int
    """Runs whose measured time was inside the printed error range."""
    runs: int

    @property
    def share(self) -> float:
        return self.inside / self.runs


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The layouts that an engine supports, and its effects on memory and time."""

    stack: str
    """The software that the fitted constants apply to, such as `megatron-core`."""
    splits_model: bool
    """True if it supports tp, pp and cp; otherwise all ranks are data-parallel."""
    shardings: tuple[tuple[Sharding, ...], ...]
    """Shardings in groups; the first group with a layout that fits wins. On a host without GPUs,
    where no layout is estimated, the last sharding of the first group is used."""
    recomputes: tuple[Recompute, ...]
    """Supported activation recomputation, from the fastest to the least memory."""
    vocab_multiple: int = 1
    """The engine pads the vocabulary to a multiple of this times tp_size."""
    gradient_bytes: int = 4
    """Bytes per gradient element during accumulation."""
    narrow_weights: bool = False
    """True if weights are stored only in the 8 or 4 bits of the GEMMs."""
    has_fsdp_runs: bool = False
    """True if enough published FSDP runs with this engine were used for fitting."""
    unseen: UnseenRuns | None = None
    """The measured coverage of the error range; None if it was not measured with this engine."""
    options: tuple[EngineOption, ...] = ()
    """Its performance options, each after those it depends on."""


def limits_of(spec: RunSpec) -> EngineLimits:
    """Return the capabilities of the engine that a spec uses."""
    limits: EngineLimits = engine_named(spec.engine.name).limits(spec)
    return limits
