# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Asking the engine itself, for `seatrial check --engine`."""

from seatrial.checks.engine_words import miscounted, refusal, unjudged
from seatrial.checks.situation import Checked, Situation
from seatrial.engines.registry import ENGINES
from seatrial.rehearsal.drills import VERDICT_TIMEOUT
from seatrial.rehearsal.worker_process import ask_engine, worker_python
from seatrial.spec.engine import EngineName

READ = ("CUDA_DEVICE_", "CUDA_GRAPHS_", "NVTE_", "NCCL_", "PYTORCH_CUDA_")
"""How the variables begin that the engine's validation looks at."""


def _read_by_engine(situation: Situation) -> dict[str, str]:
    """What of the spec's own variables the engine's validation may ask for."""
    env = situation.spec.cluster.env
    return {name: value for name, value in env.items() if name.startswith(READ)}


def require_engine(situation: Situation | None) -> None:
    """Refuse to go on without the engine of the run; Megatron where there is no run to ask."""
    name = situation.spec.engine.name if situation else EngineName.MEGATRON
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
        VERDICT_TIMEOUT,
        engine.environment(plan) | _read_by_engine(situation),
        engine,
    )
    if answer["accepted"] is None:
        return (unjudged(situation, str(answer["reason"])),)
    if not answer["accepted"]:
        return (refusal(situation, str(answer["reason"])),)
    counts = {int(stage): number for stage, number in answer["parameters"].items()}
    return tuple(miscounted(situation, counts))
