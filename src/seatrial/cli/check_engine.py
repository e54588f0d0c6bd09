# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Asking the engine itself, for `seatrial check --engine`."""

from seatrial.checks.engine_words import refusal, unjudged
from seatrial.checks.situation import Checked, Situation
from seatrial.engines.megatron.environment import engine_environment
from seatrial.engines.megatron.flags import engine_arguments
from seatrial.rehearsal.drills import VERDICT_TIMEOUT, production_arguments
from seatrial.rehearsal.rehearse import require_megatron
from seatrial.rehearsal.worker_process import ask_engine, worker_python

READ = ("CUDA_DEVICE_", "CUDA_GRAPHS_", "NVTE_", "NCCL_", "PYTORCH_CUDA_")
"""How the variables begin that the engine's validation looks at."""


def _read_by_engine(situation: Situation) -> dict[str, str]:
    """What of the spec's own variables the engine's validation may ask for."""
    env = situation.spec.cluster.env
    return {name: value for name, value in env.items() if name.startswith(READ)}


def require_engine() -> None:
    """Refuse to go on without the worker extra."""
    worker_python()


def asked(situation: Situation) -> tuple[Checked, ...]:
    """What the engine says of the production arguments at the real world size."""
    plan = situation.plan
    require_megatron(plan)
    last = plan.layout.pp_size - 1
    answer = ask_engine(
        production_arguments(engine_arguments(plan)),
        plan.layout.world_size,
        sorted({0, last}),
        VERDICT_TIMEOUT,
        engine_environment(plan) | _read_by_engine(situation),
    )
    if answer["accepted"] is None:
        return (unjudged(situation, str(answer["reason"])),)
    return () if answer["accepted"] else (refusal(situation, str(answer["reason"])),)
