# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the memory model's constants, fitted to all published rows, for the planner.

    python -m backtest.memory_write

Writes `src/seatrial/planning/data/memory.toml`. Error bars are those of the held-out rows.
"""

from dataclasses import asdict, replace
from pathlib import Path

from backtest import memory_backtest as backtest
from backtest import memory_ci, memory_ran, memory_sources
from backtest.memory_backtest import MOST_LIKELY, VERDICT_ERROR, Scored
from backtest.memory_fit import fit_figures
from backtest.memory_stacks import (
    DEEPSPEED_BF16,
    DEEPSPEED_FP16,
    MEGATRON_CORE,
    NANOTRON,
    SCALING,
    Stack,
)
from seatrial.planning.memory.constants import StackConstants

FILE = Path(__file__).parents[1] / "src/seatrial/planning/data/memory.toml"
DIGITS = 4

HEAD = """\
# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
# Constants of the memory model per training stack; their meaning is in
# planning/memory/constants.py.
# Made by backtest/memory_write.py from published rows: change the script, not this file.
# `fitted` names what the rows decided; the rest was read in `source`. Context, communicators and
# fragmentation of megatron-core are judgement: its rows have live tensors only.
# `borrowed_error` is for what has no constants of its own, and for FSDP and fp32, which were never
# fitted: nine of ten figures of other stacks stay below it by the constants of `stand_in`.

version = 1
stand_in = "megatron-core"
borrowed_error = {borrowed}
"""


def main() -> None:
    FILE.write_text(text(), "utf-8")


def text() -> str:
    """The file: every stack fitted to all its rows."""
    parts = [HEAD.format(borrowed=_number(backtest.borrowed_error()))]
    figures = {
        MEGATRON_CORE: (memory_ci.rows(), backtest.megatron_ci()),
        NANOTRON: (memory_sources.nanotron_rows(), backtest.nanotron()),
    }
    for stack in (DEEPSPEED_FP16, DEEPSPEED_BF16):
        figures[stack] = memory_sources.bloom_rows(stack.name), backtest.bloom(stack)
    for stack, (rows, scored) in figures.items():
        known = fit_figures(rows, stack.base, stack.free)
        error = backtest.most(scored)
        known = replace(known, error=error, expert_error=max(error, expert_error(stack)))
        parts.append(_table(stack.name, stack, known, len(rows), _accuracy(scored)))
    outcomes = memory_sources.layout_rows()
    wrong = sum((one.ratio <= 1) != one.row.fitted for one in backtest.layouts())
    for name, known in backtest.fitted_scaling(outcomes).items():
        accuracy = f"{wrong} of {len(outcomes)} outcomes wrong"
        known = replace(known, error=VERDICT_ERROR, expert_error=VERDICT_ERROR)
        parts.append(_table(name, SCALING, known, len(outcomes), accuracy))
    return "\n".join(parts)


def expert_error(stack: Stack) -> float:
    """The error that nine of ten mixtures of experts stay below; nothing where there are none.

    Of figures, and of runs that ran: with a lesser bar more than one of ten would be refused.
    """
    if stack is not MEGATRON_CORE:
        return 0.0
    least = sorted(run.least_error for run in memory_ran.runs() if run.row.moe)
    return max(backtest.most(backtest.megatron_ci_experts()), least[int(MOST_LIKELY * len(least))])


def _accuracy(scored: tuple[Scored, ...]) -> str:
    return f"median {backtest.middle(scored):.1%}, nine of ten below {backtest.most(scored):.1%}"


def _table(name: str, stack: Stack, known: StackConstants, rows: int, accuracy: str) -> str:
    fitted = ", ".join(f'"{one.name}"' for one in stack.free)
    lines = [
        f"[stacks.{name}]",
        f'source = "{stack.source}"',
        f"fitted = [{fitted}]",
        f"rows = {rows}",
        f'held_out = "{accuracy}"',
        "",
        f"[stacks.{name}.constants]",
        *(f"{field} = {_number(value)}" for field, value in asdict(known).items()),
        "",
    ]
    return "\n".join(lines)


def _number(value: float) -> str:
    """Four digits, whole where that is the same."""
    rounded = float(f"{value:.{DIGITS}g}")
    return str(int(rounded)) if rounded == int(rounded) else str(rounded)


if __name__ == "__main__":
    main()
