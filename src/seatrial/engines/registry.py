# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engines by name, and the problems that they find in a spec, as findings."""

from collections.abc import Iterator, Mapping

from seatrial.codes.engines import EngineCode
from seatrial.engines.engine import Engine, Problem
from seatrial.findings import Finding, Severity
from seatrial.planning.options import NAMES, given_options
from seatrial.planning.plan import Plan
from seatrial.spec.engine import REGISTERED_ENGINES, engine_named
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.run import RunSpec


class _Registry(Mapping[str, Engine]):
    """The engines from the table in `spec/engine.py`, each imported on first use."""

    def __getitem__(self, name: str) -> Engine:
        engine: Engine = engine_named(name)
        return engine

    def __iter__(self) -> Iterator[str]:
        return iter(REGISTERED_ENGINES)

    def __len__(self) -> int:
        return len(REGISTERED_ENGINES)


ENGINES: Mapping[str, Engine] = _Registry()
"""All engines that a spec can name."""


def option_findings(loaded: LoadedSpec) -> list[Finding]:
    """Check the engine options in a spec."""
    engine = ENGINES[loaded.spec.engine.name]
    options = loaded.spec.engine.options
    return [
        _finding(loaded, problem, str(options[problem.field.removeprefix("engine.options.")]))
        for problem in engine.option_problems(options)
    ]


def plan_findings(loaded: LoadedSpec, plan: Plan) -> list[Finding]:
    """Report the settings in the plan that the engine does not support."""
    engine = ENGINES[loaded.spec.engine.name]
    problems = (*engine.plan_problems(plan), *_options_it_lacks(loaded.spec, engine))
    return [_finding(loaded, problem, "") for problem in problems]


def _options_it_lacks(spec: RunSpec, engine: Engine) -> Iterator[Problem]:
    """Report performance options in a spec that its engine does not have."""
    has = {option.name for option in engine.limits(spec).options}
    options = given_options(spec)
    for name in NAMES:
        if options.is_on(name) and name not in has:
            rule = f"{engine.title} does not have this option."
            yield Problem(EngineCode.UNSUPPORTED, f"performance.{name}", rule, "Remove it.")


def _finding(loaded: LoadedSpec, problem: Problem, value: str) -> Finding:
    unchecked = problem.code is EngineCode.UNCHECKED_OPTION
    severity = Severity.WARNING if unchecked else Severity.ERROR
    where, fix = loaded.where(problem.field), problem.fix
    if loaded.spec.model.huggingface is not None and problem.field.startswith("model.dimensions."):
        fix += " Change it in a copy of the config.json, and set model.huggingface to that file."
    return Finding(problem.code, severity, where, problem.rule, value, fix)
