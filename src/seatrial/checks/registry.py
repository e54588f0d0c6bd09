# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""All rules of the check, and the codes of the rules that other parts of Seatrial apply before."""

from enum import StrEnum

from seatrial.checks.rules import (
    blend,
    images,
    limits,
    options,
    places,
    prepared,
    resume,
    schedule,
    secrets,
    sources,
    splits,
    surroundings,
    texts,
    unseen,
    variables,
)
from seatrial.checks.rules.site import answers, namespaces, nodes, operators, queues, volumes
from seatrial.checks.situation import Rule, Scope
from seatrial.engines.engine import EngineCode
from seatrial.planning.codes import PlanCode
from seatrial.rendering.codes import RenderCode
from seatrial.spec.codes import SpecCode

RULES: tuple[Rule, ...] = (
    *schedule.RULES,
    *places.RULES,
    *variables.RULES,
    *images.RULES,
    *secrets.RULES,
    *options.RULES,
    *texts.RULES,
    *prepared.RULES,
    *splits.RULES,
    *blend.RULES,
    *surroundings.RULES,
    *limits.RULES,
    *sources.RULES,
    *unseen.RULES,
    *resume.RULES,
    *operators.RULES,
    *queues.RULES,
    *nodes.RULES,
    *volumes.RULES,
    *namespaces.RULES,
    *answers.RULES,
)
"""In the order in which they are applied."""

BEFORE: dict[str, tuple[type[StrEnum], ...]] = {
    "spec": (SpecCode,),
    "plan": (PlanCode, EngineCode),
    "manifests": (RenderCode,),
}
"""What is applied before them, part by part: reading, planning, rendering."""


def codes_of(scope: Scope) -> tuple[str, ...]:
    """The codes of one scope, each once."""
    return tuple(
        dict.fromkeys(code for rule in RULES if rule.scope is scope for code in rule.codes)
    )


def codes_before(part: str) -> tuple[str, ...]:
    """The codes of a part that is applied before the rules."""
    return tuple(str(code) for enum in BEFORE[part] for code in enum)
