# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an engine can do, as the planner takes it: a value that the engine of the spec gives."""

from dataclasses import dataclass

from seatrial.spec.engine import engine_named
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.run import RunSpec


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The layouts that an engine has, and what memory and time of a spec depend on in it."""

    stack: str
    """The software under which its fitted constants are filed, such as `megatron-core`."""
    splits_model: bool
    """Whether it has tp, pp and cp; else every rank is a data-parallel one."""
    shardings: tuple[tuple[Sharding, ...], ...]
    """What it can share out among data-parallel ranks: alternatives, of which the first that fits
    wins. On a host without GPUs, where nothing is priced, the last of the first alternative."""
    recomputes: tuple[Recompute, ...]
    """What it can compute again, from the fastest to the one that needs least memory."""
    vocab_multiple: int = 1
    """It pads the vocabulary to a multiple of this times tp_size."""
    gradient_bytes: int = 4
    """Bytes of a gradient while it is accumulated."""
    narrow_weights: bool = False
    """Whether weights are kept only in the products' own 8 or 4 bits."""
    has_fsdp_runs: bool = False
    """Whether published runs of it that share out everything were fitted."""


def limits_of(spec: RunSpec) -> EngineLimits:
    """What the engine of a spec can do."""
    limits: EngineLimits = engine_named(spec.engine.name).limits(spec)
    return limits
