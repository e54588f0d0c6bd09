# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The memory back-test's figures beside their bars.

    python -m scripts.backtest.memory_report [--rows]

With `--rows`, also every verdict that was wrong and every figure that is off by more than 10 %.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scripts.backtest import memory_backtest as backtest
from scripts.backtest import memory_borrowed, memory_ci, memory_ran
from scripts.backtest.line import Line
from scripts.backtest.memory_backtest import Judged, Scored
from scripts.backtest.memory_ran import Ran
from seatrial.planning.memory.parts import Fit

MEDIAN_BAR = 0.05
RISKY_BAR = 0.10
RIGHT_BAR = 0.95
WORTH_A_LINE = 0.10


def memory_lines() -> list[Line]:
    """Every figure of the memory model that has a bar, and what goes with it."""
    left_out = memory_ci.left_out()
    return [
        figure("Memory, BLOOM on A100 (nvidia-smi), sizes held out", backtest.bloom_rows()),
        figure("Memory, nanotron on H100 (reserved), sizes held out", backtest.nanotron()),
        figure("Memory, Megatron CI, dense (allocated), sizes held out", backtest.megatron_ci()),
        without_bar(
            "Memory, Megatron CI, mixtures of experts (allocated), never fitted",
            backtest.megatron_ci_experts(),
        ),
        without_bar(
            "Memory, Megatron CI, fp8 (allocated, models below 1 GiB), never fitted",
            backtest.eight_bit(),
        ),
        without_bar(
            "Memory, Megatron-Bridge, Llama 3 70B in fp8 (allocated, on some rank), never fitted",
            backtest.bridge(),
        ),
        Line(
            "Memory, Megatron CI, rows left out by rule",
            sum(left_out.values()),
            ", ".join(f"{count} {reason}" for reason, count in left_out.most_common()),
            "",
            True,
        ),
        figure("Memory, GPT-2 large on H200 (nvidia-smi), never fitted", backtest.gpt2()),
        *verdict_lines(backtest.layouts()),
        bloom_line(backtest.bloom_outcomes()),
        *ran_lines(memory_ran.runs()),
        *fsdp_lines(memory_ran.fsdp_runs()),
        *borrowed_lines(),
    ]


def figure(title: str, scored: Sequence[Scored]) -> Line:
    """The median error of a source."""
    middle, most = backtest.middle(scored), backtest.most(scored)
    return Line(
        title,
        len(scored),
        f"median {middle:.1%}, nine of ten below {most:.1%}",
        f"median at most {MEDIAN_BAR:.0%}",
        middle <= MEDIAN_BAR,
    )


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
            lines.append(
                Line(
                    f"False out of memory, NVIDIA's timed runs (all ran), {kind}, {said}",
                    len(own),
                    verdict_counts(own),
                    "",
                    True,
                )
            )
    return lines


def fsdp_lines(found: Mapping[str, Sequence[Ran]]) -> list[Line]:
    """The same for runs with FSDP, of which the planner has no constants."""
    return [
        Line(
            f"False out of memory, {source} (all ran), FSDP, by borrowed constants",
            len(runs),
            verdict_counts(runs),
            "",
            True,
        )
        for source, runs in found.items()
    ]


def borrowed_lines() -> list[Line]:
    """Figures of every other stack by the constants of megatron-core, and all of them together."""
    found = memory_borrowed.by_stack()
    lines = [
        without_bar(f"Memory, {name}, by the constants of megatron-core", scored)
        for name, scored in found.items()
    ]
    said = f"nine of ten below {memory_borrowed.borrowed_error():.1%}, every stack counted the same"
    title = "Memory, a stack by the constants of another: the error stated of what was not fitted"
    return [Line(title, sum(map(len, found.values())), said, "", True), *lines]


def verdict_counts(runs: Sequence[Ran]) -> str:
    """How many runs were said to fit, and how many refusals full recomputing would explain."""
    refused = [run for run in runs if run.verdict is Fit.DOES_NOT_FIT]
    risky = sum(run.verdict is Fit.RISKY for run in runs)
    words = f"{len(refused)} refused, {risky} risky, {len(runs) - len(refused) - risky} fit"
    if not refused or all(run.stated for run in refused):
        return words
    explained = sum(run.not_refused_in_full for run in refused)
    return f"{words}; with full recompute {len(refused) - explained} would be refused"


def verdict_lines(judged: Sequence[Judged]) -> list[Line]:
    """How the verdicts on AlephAlpha's sweep came out."""
    sure = [one for one in judged if not one.risky]
    missed = sum(one.missed for one in judged)
    false = sum(one.false for one in judged)
    risky = 1 - len(sure) / len(judged)
    right = 1 - (missed + false) / len(sure)
    undecided = sum((one.ratio <= 1) == one.row.fitted for one in judged) / len(judged)
    ran = sum(one.row.fitted for one in judged)
    title = f"Out of memory, AlephAlpha on A100 80 GB ({ran} ran), sizes held out"
    return [
        Line(
            f"{title}: risky",
            len(judged),
            f"{risky:.1%}",
            f"at most {RISKY_BAR:.0%}",
            risky <= RISKY_BAR,
        ),
        Line(
            f"{title}: of the rest right",
            len(sure),
            f"{right:.1%}: {missed} missed, {false} false out-of-memory",
            f"at least {RIGHT_BAR:.0%}",
            right >= RIGHT_BAR,
        ),
        Line(f"{title}: right if none is risky", len(judged), f"{undecided:.1%}", "", True),
    ]


def bloom_line(judged: Sequence[Judged]) -> Line:
    """The few runs of BLOOM that did not fit."""
    missed, risky = sum(one.missed for one in judged), sum(one.risky for one in judged)
    return Line(
        "Out of memory, BLOOM on A100 (none ran), sizes held out",
        len(judged),
        f"{len(judged) - missed - risky} said so, {risky} risky, {missed} missed",
        "",
        True,
    )


def print_rows() -> None:
    """Every wrong verdict and every large error."""
    sources = (
        backtest.bloom_rows(),
        backtest.nanotron(),
        backtest.megatron_ci(),
        backtest.megatron_ci_experts(),
        backtest.eight_bit(),
        backtest.bridge(),
        backtest.gpt2(),
    )
    for scored in sources:
        for one in sorted(scored, key=lambda s: s.ratio):
            if one.error > WORTH_A_LINE:
                print(f"{one.ratio:6.3f} of {one.row.memory / (1 << 30):6.2f} GiB  {one.row.label}")
    verdicts = backtest.layouts() + backtest.bloom_outcomes()
    for verdict in sorted(verdicts, key=lambda j: j.ratio):
        if (verdict.ratio <= 1) != verdict.row.fitted:
            outcome = "ran" if verdict.row.fitted else "did not fit"
            risky = ", risky" if verdict.risky else ""
            print(f"{verdict.ratio:6.3f} of the GPU, {outcome}{risky}  {verdict.row.label}")
    for run in sorted(memory_ran.runs(), key=lambda r: r.ratio):
        if run.verdict is Fit.DOES_NOT_FIT:
            said = "" if run.stated else ", recompute not stated"
            print(f"{run.ratio:6.3f} of the GPU, ran{said}  {run.row.size} {run.row.gpu}")


def main() -> None:
    """Print the lines, and with --rows the rows that stand out."""
    for line in memory_lines():
        mark = "" if not line.bar else ("met: " if line.met else "NOT MET: ") + line.bar
        print(f"{line.title} ({line.rows} rows): {line.measured}  {mark}".rstrip())
    if "--rows" in sys.argv[1:]:
        print_rows()


if __name__ == "__main__":
    main()
