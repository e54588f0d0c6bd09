# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Prepare a program for CPU, before it loads torch and the engine."""

from collections.abc import Mapping, Sequence

from seatrial.worker.environment import ON_CPU, ONE_THREAD, set_variables
from seatrial.worker.megatron.arguments import read_early_options
from seatrial.worker.process import end_with_parent

ENVIRONMENT = ON_CPU | {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
"""Includes a variable that the engine requires for tensor and context parallelism."""


def start_on_cpu(
    arguments: Sequence[str], variables: Mapping[str, str] | None = None, *, is_rank: bool = False
) -> None:
    """Prepare this process for the engine on CPU.

    Args:
        arguments: The engine's arguments.
        variables: Other environment variables for this program.
        is_rank: True if this process is one of several ranks that share the host's cores.
    """
    end_with_parent()
    set_variables(variables, unless_set=ENVIRONMENT | (ONE_THREAD if is_rank else {}))
    # Import late: this loads torch, which reads the environment.
    from seatrial.worker.megatron.cpu.runtime import install  # noqa: PLC0415

    install(with_wandb=read_early_options(arguments).uses_wandb)
