# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine's own validation says, as a finding at the field that it speaks of."""

import re
from collections.abc import Iterator, Mapping

from seatrial.checks.rule import Checked, Situation
from seatrial.codes.checks import CheckCode
from seatrial.engine_process.process import VERDICT_SECONDS, ask_engine, worker_python
from seatrial.engines.registry import ENGINES
from seatrial.findings import Finding, Severity
from seatrial.spec.engine import DEFAULT_ENGINE

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)+")
_CALLED = {
    "sequence-parallelism": "parallelism.sequence_parallel",
    "world-size": "cluster.nodes",
    "total-model-size": "cluster.nodes",
    "pipeline-model-parallel": "parallelism.pp_size",
    "context-parallelism": "parallelism.cp_size",
}
"""What the engine calls a field in its messages, where that is no option's name."""
NOWHERE = "engine"


def refusal(situation: Situation, reason: str) -> Checked:
    """The finding for arguments that the engine refused."""
    field_name = spoken_of(situation, reason)
    said = " ".join(reason.split())
    title = ENGINES[situation.spec.engine.name].title
    rule = f"{title} refuses the arguments of this run: {said}"
    return Checked(
        Finding(
            CheckCode.REFUSED,
            Severity.ERROR,
            situation.loaded.where(field_name),
            rule if rule.endswith(".") else f"{rule}.",
            "",
            "Change what it speaks of; every argument: seatrial rehearse --arguments-only --json.",
        )
    )


def miscounted(situation: Situation, counts: Mapping[int, int]) -> Iterator[Checked]:
    """The finding for a model that is another one in the engine, by the parameters of a stage."""
    own = situation.plan.stage_parameters
    title = ENGINES[situation.spec.engine.name].title
    wrong = [stage for stage, number in counts.items() if number != own[stage]]
    for stage in wrong[:1]:
        field_name = "model.preset" if situation.spec.model.preset else "model.dimensions"
        where = f" in stage {stage}" if len(own) > 1 else ""
        rule = (
            f"{title} makes a model of {counts[stage]:,} parameters{where} of this, and the plan "
        )
        rule += f"has {own[stage]:,}: one of them has a part that the other has not."
        fix = "Look for a dimension or an option that the engine does not know, or that only it "
        yield situation.error(
            CheckCode.REFUSED, field_name, rule, f"{fix}knows.", str(counts[stage])
        )


def unjudged(situation: Situation, reason: str) -> Checked:
    """The note that the engine could not be asked here."""
    return Checked(
        Finding(
            CheckCode.UNJUDGED,
            Severity.NOTE,
            situation.loaded.where("engine.name"),
            f"the engine cannot be asked on this host: {' '.join(reason.split())}.",
            "",
            "Nothing needs doing; on a node with GPUs it is asked before training.",
        )
    )


def spoken_of(situation: Situation, reason: str) -> str:
    """The field that a message speaks of: an option of the spec first, then a field of its own."""
    passed = {name.replace("_", "-"): name for name in situation.spec.engine.options}
    words = [word.replace("_", "-").lower() for word in _WORD.findall(reason)]
    for word in words:
        if word in passed:
            return f"engine.options.{passed[word]}"
    modelled = ENGINES[situation.spec.engine.name].modelled
    for word in words:
        if word in modelled or word in _CALLED:
            return _CALLED.get(word) or modelled[word]
    # Asserts without a message say nothing; an option that nobody else has is the likeliest.
    return f"engine.options.{next(iter(passed.values()))}" if passed else NOWHERE


READ = ("CUDA_DEVICE_", "CUDA_GRAPHS_", "NVTE_", "NCCL_", "PYTORCH_CUDA_")
"""How the variables begin that the engine's validation looks at."""


def _read_by_engine(situation: Situation) -> dict[str, str]:
    """What of the spec's own variables the engine's validation may ask for."""
    env = situation.spec.cluster.env
    return {name: value for name, value in env.items() if name.startswith(READ)}


def require_engine(situation: Situation | None) -> None:
    """Refuse to go on without the engine of the run, or the default one where there is no run."""
    name = situation.spec.engine.name if situation else DEFAULT_ENGINE
    worker_python(ENGINES[name])


def asked(situation: Situation) -> tuple[Checked, ...]:
    """What the engine says of the production arguments at the real world size."""
    plan = situation.plan
    engine = ENGINES[plan.spec.engine.name]
    last = plan.layout.pp_size - 1
    answer = ask_engine(
        engine.verdict_arguments(plan),
        plan.layout.world_size,
        sorted({0, last}),
        VERDICT_SECONDS,
        engine.environment(plan) | _read_by_engine(situation),
        engine,
    )
    if answer["accepted"] is None:
        return (unjudged(situation, str(answer["reason"])),)
    if not answer["accepted"]:
        return (refusal(situation, str(answer["reason"])),)
    counts = {int(stage): number for stage, number in answer["parameters"].items()}
    return tuple(miscounted(situation, counts))
