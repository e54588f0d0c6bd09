# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Turns the result of the engine's own validation into findings about spec fields."""

import re
from collections.abc import Iterator, Mapping

from seatrial.checks.rule import Checked, Situation
from seatrial.codes.checks import CheckCode
from seatrial.engine_process.process import VERDICT_SECONDS, ask_engine, worker_python
from seatrial.engines.registry import ENGINES
from seatrial.findings import Finding, Severity
from seatrial.spec.engine import DEFAULT_ENGINE

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)+")
NOWHERE = "engine"


def refusal(situation: Situation, reason: str) -> Checked:
    """Return the finding for arguments that the engine rejected."""
    field_name = spoken_of(situation, reason)
    message = " ".join(reason.split())
    title = ENGINES[situation.spec.engine.name].title
    rule = f"{title} rejects the arguments of the run: {message}"
    return Checked(
        Finding(
            CheckCode.REFUSED,
            Severity.ERROR,
            situation.loaded.where(field_name),
            rule if rule.endswith(".") else f"{rule}.",
            "",
            "Change the setting that the message names. To list all arguments, run seatrial "
            "rehearse --arguments-only --json.",
        )
    )


def miscounted(situation: Situation, counts: Mapping[int, int]) -> Iterator[Checked]:
    """Report a model whose parameters in the engine differ from the plan."""
    own = situation.plan.stage_parameters
    title = ENGINES[situation.spec.engine.name].title
    wrong = [stage for stage, number in counts.items() if number != own[stage]]
    for stage in wrong[:1]:
        field_name = situation.spec.model.field
        where = f" in stage {stage}" if len(own) > 1 else ""
        rule = (
            f"{title} builds a model with {counts[stage]:,} parameters{where}, but the plan has "
            f"{own[stage]:,}: the two models differ."
        )
        fix = "Look for a model dimension or an engine option that only one of the two uses."
        yield situation.error(CheckCode.REFUSED, field_name, rule, fix, str(counts[stage]))


def unjudged(situation: Situation, reason: str) -> Checked:
    """Return the note that the engine could not run its validation on this host."""
    return Checked(
        Finding(
            CheckCode.UNJUDGED,
            Severity.NOTE,
            situation.loaded.where("engine.name"),
            f"the engine cannot validate the run on this host: {' '.join(reason.split())}.",
            "",
            "No action needed: the engine validates the run on the GPU nodes before training.",
        )
    )


def spoken_of(situation: Situation, reason: str) -> str:
    """Return the field that a message is about: an option in the spec, or any other field."""
    passed = {name.replace("_", "-"): name for name in situation.spec.engine.options}
    words = [word.replace("_", "-").lower() for word in _WORD.findall(reason)]
    for word in words:
        if word in passed:
            return f"engine.options.{passed[word]}"
    engine = ENGINES[situation.spec.engine.name]
    for word in words:
        field_name = engine.message_terms.get(word) or engine.modelled.get(word)
        if field_name:
            return field_name
    # If an assert has no message, an option in the spec is the most likely cause.
    return f"engine.options.{next(iter(passed.values()))}" if passed else NOWHERE


READ = ("CUDA_DEVICE_", "CUDA_GRAPHS_", "NVTE_", "NCCL_", "PYTORCH_CUDA_")
"""Prefixes of the variables that the engine's validation reads."""


def _read_by_engine(situation: Situation) -> dict[str, str]:
    """Return the variables in the spec that the engine's validation may read."""
    env = situation.spec.cluster.env
    return {name: value for name, value in env.items() if name.startswith(READ)}


def require_engine(situation: Situation | None) -> None:
    """Raise an error if the run's engine, or the default engine, is not installed."""
    name = situation.spec.engine.name if situation else DEFAULT_ENGINE
    worker_python(ENGINES[name])


def asked(situation: Situation) -> tuple[Checked, ...]:
    """Let the engine validate the production arguments at the real world size."""
    plan = situation.plan
    engine = ENGINES[plan.spec.engine.name]
    last = plan.layout.pp_size - 1
    answer = ask_engine(
        engine.verdict_arguments(plan),
        plan.layout.world_size,
        sorted({0, last}),
        VERDICT_SECONDS,
        engine.environment(plan) | _read_by_engine(situation),
        engine=engine,
    )
    if answer["accepted"] is None:
        return (unjudged(situation, str(answer["reason"])),)
    if not answer["accepted"]:
        return (refusal(situation, str(answer["reason"])),)
    counts = {int(stage): number for stage, number in answer["parameters"].items()}
    return tuple(miscounted(situation, counts))
