# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The state of a run's GPUs while it trains, summarised over the ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Any

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.rank_times import RankFigure, rank_figure, sum_up

FIGURES = ("utilisation", "memory", "power", "clock", "temperature")
"""Values that are summarised: share of time, bytes, watts, MHz, degrees Celsius."""
SENT = (*FIGURES, "throttle", "ecc_errors", "xid")
"""Values that every rank sends to the others, in this order; NaN for what is unknown."""
THROTTLE_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bits of NVML's clock event reasons that mean that a busy GPU is slower than it could be."""
FAULTY = 0x08 | 0x40 | 0x80
"""Reasons that a healthy, cooled GPU does not have. A power cap is part of normal training."""
MOST_RANKS = 16
"""Ranks that an event names for each kind of error."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """The GPUs of a run at one moment."""

    figures: Mapping[str, RankFigure]
    """Summaries of the values in `FIGURES` that are known."""
    throttled: Mapping[int, int]
    """Throttle reasons by rank, for throttled ranks."""
    ecc_errors: Mapping[int, int]
    """Uncorrectable ECC errors by rank, for ranks that have some."""
    xids: Mapping[int, int]
    """The newest Xid error by rank, for ranks with a new one."""
    throttled_ranks: int = 0
    """Number of throttled ranks, including those that are not named."""

    def to_values(self) -> dict[str, Any]:
        """Return the fields of an event."""
        plain: dict[str, Any] = {name: each.to_dict() for name, each in self.figures.items()}
        plain["throttled_ranks"] = self.throttled_ranks
        named = (
            ("throttled", self.throttled),
            ("ecc_errors", self.ecc_errors),
            ("xids", self.xids),
        )
        for name, by_rank in named:
            if by_rank:
                plain[name] = [[rank, value] for rank, value in sorted(by_rank.items())]
        return plain


def summarise_gpus(every: Sequence[Sequence[float]]) -> GpuState:
    """Summarise the values of ranks 0, 1, 2, ..., each in the order of `SENT`."""
    columns = dict(zip(SENT, zip(*every, strict=True), strict=True))
    figures = {name: sum_up(columns[name]) for name in FIGURES}
    masks = {
        rank: int(mask)
        for rank, mask in enumerate(columns["throttle"])
        if not isnan(mask) and throttle_reasons(int(mask))
    }
    return GpuState(
        {name: figure for name, figure in figures.items() if isfinite(figure.median)},
        _first(masks),
        _first(_positive(columns["ecc_errors"])),
        _first(_positive(columns["xid"])),
        len(masks),
    )


def _positive(values: Sequence[float]) -> dict[int, int]:
    return {rank: int(value) for rank, value in enumerate(values) if value > 0}


def _first(by_rank: dict[int, int]) -> dict[int, int]:
    return dict(sorted(by_rank.items())[:MOST_RANKS])


def gpu_state(event: Event) -> GpuState | None:
    """Parse an event; None if it is about something else."""
    if event.kind is not EventKind.GPUS:
        return None
    values = event.values
    found = {name: rank_figure(values.get(name)) for name in FIGURES}
    throttled, count = _by_rank(values.get("throttled")), values.get("throttled_ranks")
    return GpuState(
        {name: figure for name, figure in found.items() if figure is not None},
        throttled,
        _by_rank(values.get("ecc_errors")),
        _by_rank(values.get("xids")),
        count if isinstance(count, int) else len(throttled),
    )


def _by_rank(plain: Any) -> dict[int, int]:
    try:
        return {int(rank): int(value) for rank, value in plain or ()}
    except (TypeError, ValueError, OverflowError):
        return {}


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Return the names of the reasons for which a GPU is throttled."""
    return tuple(name for bit, name in THROTTLE_REASONS.items() if mask & bit)


def gpu_words(state: GpuState) -> str:
    """Describe the GPUs in one line, with as much as is known."""
    parts = []
    for name, unit, factor in (
        ("utilisation", "%", 100.0),
        ("power", "W", 1.0),
        ("clock", "MHz", 1.0),
        ("temperature", "°C", 1.0),
    ):
        figure = state.figures.get(name)
        if figure is not None:
            parts.append(f"{figure.median * factor:.0f} {unit}")
    if state.throttled_ranks:
        masks = 0
        for mask in state.throttled.values():
            masks |= mask
        reasons = ", ".join(throttle_reasons(masks))
        parts.append(f"{state.throttled_ranks} throttled ({reasons})")
    errors = sum(state.ecc_errors.values())
    if errors:
        parts.append(f"{errors} ECC errors")
    if state.xids:
        parts.append("Xid " + ", ".join(map(str, sorted(set(state.xids.values())))))
    return " · ".join(parts)
