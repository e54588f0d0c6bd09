# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a spec's engine says of it, as findings at the fields of the file."""

from seatrial.engines.engine import EngineCode, Problem
from seatrial.engines.registry import ENGINES
from seatrial.findings import Finding, Severity
from seatrial.planning.plan import Plan
from seatrial.spec.loader import LoadedSpec


def option_findings(loaded: LoadedSpec) -> list[Finding]:
    """What is wrong with the options that are passed through."""
    engine = ENGINES[loaded.spec.engine.name]
    options = loaded.spec.engine.options
    return [
        _finding(loaded, problem, str(options[problem.field.removeprefix("engine.options.")]))
        for problem in engine.option_problems(options)
    ]


def plan_findings(loaded: LoadedSpec, plan: Plan) -> list[Finding]:
    """What the engine cannot do of the plan."""
    engine = ENGINES[loaded.spec.engine.name]
    return [_finding(loaded, problem, "") for problem in engine.plan_problems(plan)]


def _finding(loaded: LoadedSpec, problem: Problem, value: str) -> Finding:
    unchecked = problem.code is EngineCode.UNCHECKED_OPTION
    severity = Severity.WARNING if unchecked else Severity.ERROR
    where = loaded.where(problem.field)
    return Finding(problem.code, severity, where, problem.rule, value, problem.fix)
