# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules that each engine provides, for example about its options and environment variables."""

import json
from collections.abc import Iterator

from seatrial.checks.rule import Checked, Situation, proposed, static
from seatrial.checks.rules.environment_variables import without_variable
from seatrial.codes.checks import CheckCode
from seatrial.engines.engine import RunProblem
from seatrial.engines.registry import ENGINES

OPTION = "engine.options."
VARIABLE = "cluster.env."


def _without_option(situation: Situation, option: str) -> str:
    """Return the override that removes an option and keeps the others."""
    kept = {
        name: value
        for name, value in situation.spec.engine.options.items()
        if name.replace("_", "-") != option.replace("_", "-")
    }
    return f"engine.options={json.dumps(kept)}"


def _checked(situation: Situation, problem: RunProblem) -> Checked:
    """Turn a problem into a finding, with the change that removes it."""
    override = problem.override
    if not override and problem.field.startswith(OPTION):
        override = _without_option(situation, problem.field.removeprefix(OPTION))
    elif not override:
        override = without_variable(situation, problem.field.removeprefix(VARIABLE))
    found = situation.warning if problem.is_warning else situation.error
    return found(
        problem.code, problem.field, problem.rule, problem.fix, problem.value, proposed(override)
    )


def of_engine(situation: Situation) -> Iterator[Checked]:
    """Report settings that the engine would reject or ignore."""
    name = situation.plan.machines.accelerator
    generation = situation.catalog.accelerator(name).architecture if name else ""
    engine = ENGINES[situation.spec.engine.name]
    for problem in engine.run_problems(situation.plan, generation):
        yield _checked(situation, problem)


RULES = (
    static(
        CheckCode.CONNECTIONS,
        CheckCode.ENGINES_OWN,
        CheckCode.OPTION_NEEDS,
        CheckCode.OPTION_AGAINST,
        CheckCode.WIDTHS,
        look=of_engine,
    ),
)
