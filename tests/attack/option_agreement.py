# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every option of the engine before the static check and before the engine: do they agree?

Switches and choices in all their values, numbers at their default, 0, 1 and -1, in a dense run and
in one with experts. The check must accept what the engine accepts and refuse what it refuses, but
for the classes in `BY_DESIGN` and `UNJUDGED`, which are counted and named.
Needs the worker extra (SEATRIAL_WORKER_PYTHON).
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.codes.engines import EngineCode
from seatrial.engines.megatron.command_line import command_line, engine_arguments
from seatrial.engines.megatron.engine import engine_environment
from seatrial.engines.megatron.trial import production_arguments
from seatrial.findings import Severity
from seatrial.planning.plan import Plan
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.spec.loader import loads
from tests.attack.option_cases import BASES, Case
from tests.engine.agreement.asking import Question
from tests.engine.agreement.compare import Engine

BY_DESIGN = {
    EngineCode.MODELLED_OPTION: "a field of the spec decides the option",
    EngineCode.DERIVED_OPTION: "with the option the plan would be untrue",
    EngineCode.UNSUPPORTED: "the engine accepts it and trains something else",
}
"""Refusals that do not depend on the engine's verdict, and why."""
UNJUDGED = {
    r"No such file or directory": "it names a file, which is in the pods and not here",
    r"gradient accumulation fusion": "fused kernels are off in the judge, which has no GPU",
    r"(TE|[Tt]ransformer.?[Ee]ngine)\b": "it needs Transformer Engine, which needs a GPU to load",
    r"^$": "the judge replaces it: Transformer Engine's layers need a GPU to load",
}
"""Verdicts that come from the judge's own host, by the engine's words, and why."""
REPLACED = ("spec",)
"""Options that the judge sets itself (`production_arguments`)."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What both sides say of a case."""

    case: Case
    errors: tuple[str, ...]
    """The codes of the check's errors."""
    said: str
    """The first of them, with its fix."""
    accepted: bool | None
    """Whether the engine accepts; None if it cannot tell on this host."""
    reason: str
    """Why it does not."""

    @property
    def outcome(self) -> str:
        """Who accepts the case."""
        designed = [reason for code, reason in BY_DESIGN.items() if code in self.errors]
        if designed:
            return f"refused by design: {designed[0]}"
        if self.accepted is None or self.case.option in REPLACED or _names_file(self.reason):
            return f"not judged: {_why(self.reason)}"
        if self.accepted:
            return "refused by check alone" if self.errors else "accepted by both"
        return "refused by both" if self.errors else "refused by the engine alone"

    @property
    def differs(self) -> bool:
        """True if one side accepts what the other refuses, or nobody knows why it is not judged."""
        return self.outcome.endswith("alone") or "UNEXPLAINED" in self.outcome


def _names_file(reason: str) -> bool:
    return "No such file or directory" in reason


def _why(reason: str) -> str:
    """The reason of the class that a verdict is in; the engine's own words if in none."""
    fitting = (why for words, why in UNJUDGED.items() if re.search(words, reason))
    return next(fitting, f"UNEXPLAINED: {reason}")


def engine_options(asked: Engine) -> dict[str, dict[str, Any]]:
    """The engine's own description of its options."""
    return asked.request("options")


def compare(asked: Engine, chosen: Iterable[Case]) -> Iterator[Compared]:
    """Put cases before both sides."""
    catalog = Catalog()
    plans = {
        name: plan_run(resolve_basis(loads(json.dumps(spec), name), catalog)).plan
        for name, spec in BASES.items()
    }
    for number, case in enumerate(chosen):
        asked.send(_question(number, case, plans[case.base]))
        found = check(json.dumps(case.spec), str(case), catalog).findings
        errors = [one for one in found if one.severity is Severity.ERROR]
        said = f"{errors[0].rule} {errors[0].fix}" if errors else ""
        answer = asked.answer()
        codes = tuple(str(one.code) for one in errors)
        yield Compared(case, codes, said, answer["accepted"], answer["reason"])


def _question(number: int, case: Case, base: Plan) -> Question:
    """The run as the engine is asked about it, whether or not the check lets it have a plan."""
    value = tuple(case.value) if isinstance(case.value, list) else case.value
    options = base.spec.engine.model_copy(update={"options": {case.option: value}})
    plan = replace(base, spec=base.spec.model_copy(update={"engine": options}))
    words = tuple(command_line(production_arguments(engine_arguments(plan))))
    return Question(number, plan.layout.world_size, words, engine_environment(plan))


def report(options: Iterable[str], found: list[Compared]) -> str:
    """Each disagreement, how many cases ended how, what was not judged, and the counts."""
    lines = [
        f"{one.outcome}: {one.case}: {one.said or one.reason[:200]}" for one in found if one.differs
    ]
    for outcome, count in Counter(one.outcome for one in found).most_common():
        lines.append(f"{count:>6}  {outcome}")
        if outcome.startswith("not judged"):
            names = sorted({one.case.option for one in found if one.outcome == outcome})
            lines.append(f"        {', '.join(names)}")
    return "\n".join([*lines, figure(options, found)])


def figure(options: Iterable[str], found: list[Compared]) -> str:
    """The counts in one line."""
    differ = sum(one.differs for one in found)
    return f"{len(list(options)):,} options, {len(found):,} cases: {differ} disagreements"
