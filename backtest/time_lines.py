# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The figures of the step time beside their bars."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import mean, median

from backtest.cross_validation import Prediction
from backtest.extrapolation import widening
from backtest.figures import Figures
from backtest.groups import is_nemo, nemo_dense, source_is
from backtest.layout_choice import choices
from backtest.line import Line
from backtest.rows import Row, left_out, timed_rows
from backtest.unseen import NINE_OF_TEN, Unseen
from seatrial.planning.timing.constants import constants_for
from seatrial.planning.timing.step_time import step_time

Selects = Callable[[Row], bool]


def experts(row: Row) -> bool:
    return is_nemo(row) and row.moe


MEDIANS: tuple[tuple[str, Selects, float | None], ...] = (
    ("vTrain, one node of A100", source_is("vTrain single-node"), 0.05),
    ("vTrain, up to 512 A100", source_is("vTrain multi-node"), 0.08),
    ("BLOOM, A100", source_is("BigScience BLOOM tr11"), 0.05),
    ("AlephAlpha, A100", source_is("AlephAlpha parallel layouts"), 0.08),
    ("llm-foundry FSDP, A100 and H100", source_is("llm-foundry"), 0.08),
    ("NeMo and Megatron-Bridge, dense, H100", nemo_dense("hopper"), 0.05),
    ("NeMo and Megatron-Bridge, dense, Blackwell", nemo_dense("blackwell"), None),
    ("NeMo and Megatron-Bridge, mixtures of experts", experts, 0.15),
    ("Megatron-LM 2021, A100", source_is("Megatron-LM SC21 Table 1"), None),
    ("InternEvo, A100 (one size: never fitted)", source_is("InternEvo"), None),
    ("nanotron, H100", source_is("nanotron ultrascale"), None),
    ("torchtitan FSDP, H100", source_is("torchtitan"), None),
    ("fms-fsdp, A100 and H100", source_is("IBM fms-fsdp"), None),
    ("NeMo AutoModel FSDP, H100", source_is("NeMo AutoModel"), None),
)
"""Titles, rows, and the median that they have to reach."""
MEANS = (
    ("vTrain, one node: mean, vTrain's own is 8.37 %", source_is("vTrain single-node"), 0.0837),
    ("vTrain, many nodes: mean, vTrain's own is 14.73 %", source_is("vTrain multi-node"), 0.1473),
)
"""The mean errors that vTrain (MICRO 2024) states of its own predictions."""
CALCULON = 0.0365
"""Calculon's own mean error on table 5, run again (research notes of the issue)."""
UNSEEN, CALIBRATED, REGRET = 0.15, 0.10, 0.02
FAMILY = " with its family"


def time_lines(figures: Figures) -> list[Line]:
    rows = {row.id: row for row in timed_rows()}
    lines = [
        _figure(f"Step time, {title}, sizes held out", figures.errors, rows, chosen, bar, median)
        for title, chosen, bar in MEDIANS
    ]
    lines += _twin_lines(figures, rows)
    lines += [_figure(f"Step time, {t}", figures.errors, rows, s, b, mean) for t, s, b in MEANS]
    title, chosen, _ = MEDIANS[0]
    title = f"Step time, {title}, without factors by shape"
    lines.append(_figure(title, figures.shapeless, rows, chosen, None, median))
    found, bar = mean(map(abs, figures.table_5.values())), f"mean below {CALCULON:.2%}"
    title = "Step time, arXiv 2205.05198 table 5, each point held out; Calculon's own is 3.65 %"
    lines.append(Line(title, len(figures.table_5), f"mean {found:.2%}", bar, found < CALCULON))
    lines += _unseen_lines(figures.by_source, "source", "")
    lines += [without_bar(line) for line in _unseen_lines(figures.by_family, "family", FAMILY)]
    lines += _ampere_lines(figures.ampere)
    lines += _extrapolation_lines(figures)
    return lines + _choice_lines(figures, rows) + _left_out_lines()


def _figure(
    title: str,
    errors: Mapping[str, float],
    rows: dict[str, Row],
    chosen: Selects,
    bar: float | None,
    middle: Callable[[Sequence[float]], float],
) -> Line:
    """The middle of the errors of some rows beside its bar."""
    own = [abs(error) for number, error in errors.items() if chosen(rows[number])]
    found = middle(own)
    name = "median" if middle is median else "mean"
    word = f"{name} at most" if middle is median else f"{name} below"
    most = sorted(own)[int(NINE_OF_TEN * len(own))]
    return Line(
        title,
        len(own),
        f"{name} {found:.2%}, nine of ten below {most:.1%}",
        f"{word} {bar:.2%}" if bar else "",
        bar is None or found <= bar,
    )


def _twin_lines(figures: Figures, rows: dict[str, Row]) -> list[Line]:
    """The figures that change where models of the same shape leave the fit with the scored one."""
    rescored = dict(figures.errors) | dict(figures.twins)
    return [
        _figure(
            f"Step time, {title}, sizes and their twins held out", rescored, rows, s, bar, median
        )
        for title, s, bar in MEDIANS
        if any(s(rows[number]) for number in figures.twins)
    ]


def _unseen_lines(found: Unseen, word: str, beside: str) -> list[Line]:
    """Sources held out whole: over all, and each."""
    small = "; too small for it: " + ", ".join(found.too_small) if found.too_small else ""
    lines = [
        Line(
            f"Step time, unseen {word}: median over sources, each held out{beside}",
            len(found.sources),
            f"median {found.median:.1%}, nine of ten rows below {found.nine_of_ten:.0%}",
            f"median at most {UNSEEN:.0%}",
            found.median <= UNSEEN,
        ),
        Line(
            f"Step time, unseen {word} after a calibration on five rows of the source",
            len(found.sources) - len(found.too_small),
            f"median {found.calibrated:.1%}, nine of ten rows below "
            f"{found.calibrated_nine_of_ten:.0%}{small}",
            f"median at most {CALIBRATED:.0%}",
            found.calibrated <= CALIBRATED,
        ),
    ]
    for item in found.sources:
        after = "" if item.calibrated is None else f", calibrated {item.calibrated:.1%}"
        said = f"median {item.median:.1%}, bias {item.bias:+.1%}{after}"
        lines.append(Line(f"  unseen {word}: {item.source}", item.rows, said))
    return lines


def without_bar(line: Line) -> Line:
    """A line that nobody set a bar for, with what the bar of its like would say of it.

    The bar is for single sources held out. Whole families go beyond it, and a figure that is known
    to miss a bar which is not its own would hide a new miss in the exit code.
    """
    if not line.bar:
        return line
    said = "meet" if line.met else "miss"
    measured = f"{line.measured}; would {said} the target for single sources, {line.bar}"
    return replace(line, measured=measured, bar="", met=True)


def _ampere_lines(found: Unseen) -> list[Line]:
    """Megatron-core on A100: relatives of it held out with their families, and as shipped."""
    lines = [
        Line(
            "Step time, A100 for Megatron-core: median over its sources, each held out with its "
            "family",
            len(found.sources),
            f"median {found.median:.1%}, nine of ten rows below {found.nine_of_ten:.0%}",
        )
    ]
    for item in found.sources:
        shipped = median(shipped_errors(item.source))
        said = (
            f"median {item.median:.1%}, bias {item.bias:+.1%}; "
            f"by the shipped constants, which have seen it: bias {shipped:+.1%}"
        )
        lines.append(Line(f"  A100, held out: {item.source}", item.rows, said))
    return lines


def shipped_errors(name: str, stack: str = "megatron-core") -> list[float]:
    """Predicted over measured time, less one, of a source's rows by constants that are shipped."""
    found = []
    for row in timed_rows():
        if row.source == name:
            work = row.workload
            constants = constants_for(work.hardware.accelerator, work.precision, stack)
            found.append(step_time(work, constants).total / row.seconds - 1)
    return found


def _extrapolation_lines(figures: Figures) -> list[Line]:
    found = figures.extrapolations
    lines = [
        Line(
            "Step time, beyond the fitted range: growth of the error with every doubling",
            len(found),
            f"times {widening(found):.2f}, upper quartile",
        )
    ]
    for item in found:
        said = (
            f"median {item.beyond:.1%}, {item.within:.1%} up to {item.fitted_up_to:,}: "
            f"times {item.per_doubling:.2f}"
        )
        title = f"  beyond, {item.measure}: {item.group}"
        lines.append(Line(title, item.rows, said))
    return lines


def _left_out_lines() -> list[Line]:
    """Timed rows that take no part, by source, and why."""
    lines = []
    for name, reasons in left_out().items():
        why = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        title = f"Step time, rows left out by rule: {name}"
        lines.append(Line(title, reasons.total(), why))
    return lines


def _choice_lines(figures: Figures, rows: dict[str, Row]) -> list[Line]:
    """What following the predicted best layout costs: over all, and by source."""
    found = choices(Prediction(rows[number], error) for number, error in figures.errors.items())
    whole = mean(choice.regret for choice in found)
    title, bar = "Layout choice, mean regret over all choices", f"mean at most {REGRET:.0%}"
    said = f"mean {whole:.2%}"
    lines = [Line(f"{title}, sizes held out", len(found), said, bar, whole <= REGRET)]
    for name in dict.fromkeys(choice.source for choice in found):
        own = [choice.regret for choice in found if choice.source == name]
        lines.append(
            Line(f"  choices: {name}", len(own), f"mean {mean(own):.2%}, worst {max(own):.0%}")
        )
    return lines
