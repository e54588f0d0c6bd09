# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The constants for Megatron-core on A100, of which nobody published a run.

Six sources ran ancestors and relatives of it on many nodes of A100. What is shipped is what the fit
to all sources together says of an A100 source that it never saw, and how wrong that is, is measured
on these six, each held out with its family. A fit to the six alone, with shared rates of links and
networks, was worse at that: they are too few, and differ too much, for what remains of them to say
where one that is held out will be.
"""

from dataclasses import replace

from backtest.fitting import errors
from backtest.groups import fit_pool
from backtest.rows import timed_rows
from seatrial.planning.timing.rates import Rates

SOURCES = (
    "Megatron-LM SC21 Table 1",
    "Korthikanti 2205.05198 Table 5",
    "vTrain multi-node",
    "BigScience BLOOM tr11",
    "AlephAlpha parallel layouts",
    "InternEvo",
)
"""Sources with several nodes of A100 and tensor or pipeline parallelism."""
TODAY = "flash_attention2 + RMS kernel"
"""Of the kernels that AlephAlpha compares, what Megatron-core has today."""


def shipped_rates() -> Rates:
    """The rates for Megatron-core on A100: those of no source in particular."""
    example = next(row for row in timed_rows() if row.kernel == TODAY)
    return fit_pool(frozenset()).of(replace(example, source=""))


def errors_by_source(rates: Rates) -> list[list[float]]:
    """Relative errors of rates on the rows of each of the sources."""
    found = []
    for source in SOURCES:
        own = [row for row in timed_rows() if row.source == source]
        found.append([abs(float(error)) for error in errors(own, [rates] * len(own))])
    return found
