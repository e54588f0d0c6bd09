# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of performance options (`make options`).

    python -m docs.tools.performance_options           # print them
    python -m docs.tools.performance_options --write   # and put them into the page

For each option: what Megatron requires, how many runs with it the engine accepted, whether the twin
executes it, by how much it changes the prediction of some plans, how many rows this was fitted to,
and how often published configurations agree with the planner. For each published configuration, its
layout beside the planner's. Exits with 1 if the engine refused an option or no run had it, if an
option changes nothing, or if a difference to a publication has no explanation.
"""

import argparse
import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from backtest.option_labels import counts
from backtest.tuned_layouts import HEAD, Compared, comparisons, layout_rows
from backtest.tuned_options import Difference, configurations, differences
from docs.tools.page_parts import ROOT, put, table
from seatrial.catalog.catalog import Catalog
from seatrial.docstrings import field_docs
from seatrial.engines.megatron.performance_flags import EXECUTED_ON_CPU
from seatrial.engines.megatron.performance_rules import OPTIONS
from seatrial.planning.memory.estimate import memory
from seatrial.planning.options import NAMES, Options
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.timing.option_effects import EFFECTS, HOST_SOURCE, never
from seatrial.planning.timing.step_time import step_time
from seatrial.spec.loader import loads
from seatrial.spec.performance import CudaGraphs, MomentPrecision, PerformanceSpec, TokenDispatcher

PAGE = ROOT / "docs/guides/performance-options.md"
ANSWERS = ROOT / "docs/figures/options.json"
"""What the engine said of runs with each option; the file has the command that wrote it."""
RUNS = {
    "Llama 3.1 70B, 128 H100": ("llama3.1-70b", "p5.48xlarge", 16, ""),
    "DeepSeek-V3, 256 B200, ep 32": ("deepseek-v3", "p6-b200.48xlarge", 32, "ep_size: 32"),
    "Qwen3 30B-A3B, 16 B200": ("qwen3-30b-a3b", "p6-b200.48xlarge", 2, "ep_size: 8"),
}
"""The plans whose prediction is compared."""
OTHER: dict[str, Any] = {
    "token_dispatcher": TokenDispatcher.DEEPEP,
    "cuda_graphs": CudaGraphs.LAYERS,
    "moments": MomentPrecision.BF16,
    "optimizer_offload": 0.5,
    "activation_offload": 4,
}
"""Values of options that are not switches, other than off."""


@dataclass(frozen=True, slots=True)
class Change:
    """What changes if an option is switched."""

    seconds: float
    """Relative change of the step time."""
    bytes: float
    """Relative change of the fullest stage's memory."""


Changes = dict[str, Change | None]


def changes(preset: str, node_type: str, nodes: int, layout: str) -> Changes:
    """Return what changes in a plan if each option is switched; None if the engine rejects it."""
    spec = f"""
apiVersion: seatrial.dev/v1alpha1
name: options
model: {{preset: {preset}}}
data: {{mock: true}}
training: {{steps: 100}}
parallelism: {{{layout}}}
cluster: {{profile: eks, node_type: {node_type}, nodes: {nodes}}}
"""
    basis = resolve_basis(loads(spec, "options.yaml"), Catalog())
    run = plan_run(basis)
    if run.chosen is None or run.constants is None:
        raise SystemExit(f"{preset} on {node_type} has no prediction.")
    workload, constants = run.chosen.workload, run.constants
    before = step_time(workload, constants).total
    held = memory(workload).fullest.total
    case = basis.option_chooser().case(
        run.plan.layout,
        sequence_parallel=run.plan.sequence_parallel,
        sharding=run.plan.sharding,
        recompute=run.plan.recompute,
    )
    found: Changes = {}
    for option in OPTIONS:
        name = option.name
        other = replace(workload, options=_switched(workload.options or Options(), name))
        if option.problems(replace(case, options=other.options or Options())):
            found[name] = None
            continue
        found[name] = Change(
            step_time(other, constants).total / before - 1, memory(other).fullest.total / held - 1
        )
    return found


def _switched(options: Options, name: str) -> Options:
    """Return the options with one of them switched on or off."""
    off = getattr(Options(), name)
    changed: dict[str, Any] = {name: off if options.is_on(name) else OTHER.get(name, True)}
    return replace(options, **changed)


Answers = dict[str, dict[str, int]]


def engine_answers() -> Answers:
    """Return, by option, how many runs with it the engine accepted, refused or could not judge."""
    found: Answers = json.loads(ANSWERS.read_text("utf-8"))["options"]
    return found


def option_table(predicted: dict[str, Changes], answers: Answers) -> str:
    """Return the table of options."""
    docs = field_docs(PerformanceSpec)
    rules = {option.name: option for option in OPTIONS}
    effects = {effect.option: effect for effect in EFFECTS}
    rows = []
    for name in NAMES:
        cells = [_change(each[name]) for each in predicted.values()]
        needs = "<br>".join(rule.rule for rule in rules[name].rules)
        executed = "✓" if name in EXECUTED_ON_CPU else "needs a GPU"
        effect = effects.get(name)
        source = effect.source if effect else HOST_SOURCE
        rows.append(
            (
                *(f"`{name}`", docs[name], needs, _accepted(answers[name]), executed),
                *(*cells, str(_fitted_rows(name)), source),
            )
        )
    head = ("option", "what it does", "off if", "engine accepts", "twin", *predicted)
    return table((*head, "fitted on rows", "size of the change"), rows)


def _accepted(answer: dict[str, int]) -> str:
    asked = answer["accepted"] + answer["refused"]
    words = f"{answer['accepted']} of {asked}"
    unknown = answer["not validated"]
    return f"{words}; {unknown} need a GPU" if unknown else words


def _fitted_rows(name: str) -> int:
    """Return the number of rows with known values that the size of an effect was fitted to."""
    fitted = {effect.option for effect in EFFECTS if effect.is_fitted is not never}
    return sum(counts(experts=True)[name]) if name in fitted else 0


REJECTED = "not allowed"


def _change(change: Change | None) -> str:
    """Return a change of time and memory, with a sign."""
    if change is None:
        return REJECTED
    words = [f"{100 * change.seconds:+.1f} % time"] if abs(change.seconds) > 5e-5 else []
    if abs(change.bytes) > 5e-5:
        words.append(f"{100 * change.bytes:+.1f} % memory")
    return ", ".join(words) or "–"


def comparison_table(found: list[Difference]) -> str:
    """Return how often published configurations have the planner's options."""
    rows, published = [], configurations()
    for name in NAMES:
        stated = sum(bool(row[name]) for row in published)
        own = [each for each in found if each.option == name]
        reasons = Counter(f"{each.ours} instead of {each.theirs}: {each.reason}" for each in own)
        words = "<br>".join(f"{count} × {reason}" for reason, count in reasons.most_common())
        rows.append((f"`{name}`", f"{stated - len(own)} of {stated}", words))
    return table(("option", "equal", "differences, and why"), rows)


def main() -> None:
    """Print the tables, or put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    predicted = {title: changes(*facts) for title, facts in RUNS.items()}
    catalog = Catalog()
    found = [each for row in configurations() for each in differences(row, catalog)]
    answers = engine_answers()
    layouts = comparisons()
    parts = {
        "options": option_table(predicted, answers),
        "tuned": comparison_table(found),
        "layouts": table(HEAD, list(layout_rows(layouts))),
    }
    for name, made in parts.items():
        print(f"{name}\n{made}\n")
    if write:
        put(PAGE, parts)
    wrong = open_points(predicted, found, answers) + unexplained(layouts)
    if wrong:
        raise SystemExit("\n".join(wrong))


def open_points(
    predicted: dict[str, Changes], found: list[Difference], answers: Answers
) -> list[str]:
    """Return the options that the engine refuses, that change nothing or are not explained."""
    wrong = []
    for name in NAMES:
        if answers[name]["refused"]:
            wrong.append(f"{name}: the engine refused {answers[name]['refused']} runs with it.")
        elif not sum(answers[name].values()):
            wrong.append(f"{name}: the engine was not asked about a run with it.")
        if all(_change(each[name]) in ("–", REJECTED) for each in predicted.values()):
            wrong.append(f"{name}: it changes no prediction.")
    return wrong + [f"not explained: {each}" for each in found if not each.reason]


def unexplained(layouts: list[Compared]) -> list[str]:
    """Return the configurations whose layout is faster than the planner's without a reason."""
    return [f"not explained: {each.model}, {each.machines}" for each in layouts if not each.phrase]


if __name__ == "__main__":
    main()
