# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The memory back-test's figures beside their bars."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from backtest import memory_backtest as backtest
from backtest import memory_ci, memory_ran, memory_sources
from backtest.line import Line
from backtest.memory_backtest import Judged, Scored
from backtest.memory_ran import Ran
from seatrial.planning.memory.breakdown import MemoryFit

MEDIAN_BAR = 0.05
RISKY_BAR = 0.10
RIGHT_BAR = 0.95


def memory_lines() -> list[Line]:
    """Every figure of the memory model that has a bar, and what goes with it."""
    left_out = memory_ci.left_out()
    reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.most_common())
    ci, bridge = "Memory, Megatron CI", "Memory, Megatron-Bridge, Llama 3 70B in fp8"
    experts = backtest.megatron_ci_experts()
    narrow = backtest.never_fitted(memory_ci.eight_bit_rows())
    llama = backtest.never_fitted(memory_sources.bridge_rows())
    gpt2 = backtest.never_fitted(memory_sources.gpt2_rows())
    return [
        figure("Memory, BLOOM on A100 (nvidia-smi), sizes held out", backtest.bloom_rows()),
        figure("Memory, nanotron on H100 (reserved), sizes held out", backtest.nanotron()),
        figure(f"{ci}, dense (allocated), sizes held out", backtest.megatron_ci()),
        without_bar(f"{ci}, mixtures of experts (allocated), never fitted", experts),
        without_bar(f"{ci}, fp8 (allocated, models below 1 GiB), never fitted", narrow),
        without_bar(f"{bridge} (allocated, on some rank), never fitted", llama),
        Line(f"{ci}, rows left out by rule", sum(left_out.values()), reasons),
        figure("Memory, GPT-2 large on H200 (nvidia-smi), never fitted", gpt2),
        *verdict_lines(backtest.layouts()),
        bloom_line(backtest.bloom_outcomes()),
        *ran_lines(memory_ran.runs()),
        *fsdp_lines(memory_ran.fsdp_runs()),
        *borrowed_lines(),
    ]


def figure(title: str, scored: Sequence[Scored]) -> Line:
    middle, most = backtest.middle(scored), backtest.most(scored)
    said = f"median {middle:.1%}, nine of ten below {most:.1%}"
    bar = f"median at most {MEDIAN_BAR:.0%}"
    return Line(title, len(scored), said, bar, middle <= MEDIAN_BAR)


def without_bar(title: str, scored: Sequence[Scored]) -> Line:
    """The same for a source that nobody set a bar for."""
    return replace(figure(title, scored), bar="", met=True)


def ran_lines(runs: Sequence[Ran]) -> list[Line]:
    """Verdicts on runs that are known to have run: each refusal is false."""
    lines = []
    for experts in (False, True):
        for stated in (True, False):
            own = [run for run in runs if run.row.moe is experts and run.stated is stated]
            kind = "mixtures of experts" if experts else "dense"
            said = "recompute stated" if stated else "recompute not stated, taken as none"
            title = f"False out of memory, NVIDIA's timed runs (all ran), {kind}, {said}"
            lines.append(Line(title, len(own), verdict_counts(own)))
    return lines


def fsdp_lines(found: Mapping[str, Sequence[Ran]]) -> list[Line]:
    """The same for runs with FSDP, of which the planner has no constants."""
    title = "False out of memory, {} (all ran), FSDP, by borrowed constants"
    return [Line(title.format(s), len(runs), verdict_counts(runs)) for s, runs in found.items()]


def borrowed_lines() -> list[Line]:
    """Figures of every other stack by the constants of megatron-core, and all of them together."""
    found = backtest.borrowed()
    lines = [
        without_bar(f"Memory, {name}, by the constants of megatron-core", scored)
        for name, scored in found.items()
    ]
    said = f"nine of ten below {backtest.borrowed_error():.1%}, every stack counted the same"
    title = "Memory, a stack by the constants of another: the error stated of what was not fitted"
    return [Line(title, sum(map(len, found.values())), said), *lines]


def verdict_counts(runs: Sequence[Ran]) -> str:
    """How many runs were said to fit, and how many refusals full recomputing would explain."""
    refused = [run for run in runs if run.verdict is MemoryFit.DOES_NOT_FIT]
    risky = sum(run.verdict is MemoryFit.RISKY for run in runs)
    words = f"{len(refused)} refused, {risky} risky, {len(runs) - len(refused) - risky} fit"
    if not refused or all(run.stated for run in refused):
        return words
    explained = sum(run.not_refused_in_full for run in refused)
    return f"{words}; with full recompute {len(refused) - explained} would be refused"


def verdict_lines(judged: Sequence[Judged]) -> list[Line]:
    sure = [one for one in judged if not one.risky]
    missed = sum(one.missed for one in judged)
    false = sum(one.false for one in judged)
    risky = 1 - len(sure) / len(judged)
    right = 1 - (missed + false) / len(sure)
    undecided = sum((one.ratio <= 1) == one.row.fitted for one in judged) / len(judged)
    ran = sum(one.row.fitted for one in judged)
    title = f"Out of memory, AlephAlpha on A100 80 GB ({ran} ran), sizes held out"
    few, many = f"at most {RISKY_BAR:.0%}", f"at least {RIGHT_BAR:.0%}"
    said = f"{right:.1%}: {missed} missed, {false} false out-of-memory"
    return [
        Line(f"{title}: risky", len(judged), f"{risky:.1%}", few, risky <= RISKY_BAR),
        Line(f"{title}: of the rest right", len(sure), said, many, right >= RIGHT_BAR),
        Line(f"{title}: right if none is risky", len(judged), f"{undecided:.1%}"),
    ]


def bloom_line(judged: Sequence[Judged]) -> Line:
    """The few runs of BLOOM that did not fit."""
    missed, risky = sum(one.missed for one in judged), sum(one.risky for one in judged)
    said = f"{len(judged) - missed - risky} predicted, {risky} risky, {missed} missed"
    return Line("Out of memory, BLOOM on A100 (none ran), sizes held out", len(judged), said)
