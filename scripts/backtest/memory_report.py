# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The memory back-test's figures beside their bars.

    python -m scripts.backtest.memory_report [--rows]

With `--rows`, also every verdict that was wrong and every figure that is off by more than 10 %.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace

from scripts.backtest import memory_backtest as backtest
from scripts.backtest import memory_ci
from scripts.backtest.line import Line
from scripts.backtest.memory_backtest import Judged, Scored

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
        replace(
            figure(
                "Memory, Megatron CI, mixtures of experts (allocated), never fitted",
                backtest.megatron_ci_experts(),
            ),
            bar="",
            met=True,
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


def main() -> None:
    """Print the lines, and with --rows the rows that stand out."""
    for line in memory_lines():
        mark = "" if not line.bar else ("met: " if line.met else "NOT MET: ") + line.bar
        print(f"{line.title} ({line.rows} rows): {line.measured}  {mark}".rstrip())
    if "--rows" in sys.argv[1:]:
        print_rows()


if __name__ == "__main__":
    main()
