# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The start of a program on a CPU, before it loads torch and the engine."""

from collections.abc import Mapping, Sequence

from seatrial.worker.environment import ON_CPU, ONE_THREAD, set_variables
from seatrial.worker.megatron.arguments import read_early_options
from seatrial.worker.process import end_with_parent

ENVIRONMENT = ON_CPU | {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
"""With the engine's own demand for tensor and context parallelism."""


def start_on_cpu(
    arguments: Sequence[str], variables: Mapping[str, str] | None = None, *, is_rank: bool = False
) -> None:
    """Make this process ready for the engine on a CPU.

    Args:
        arguments: What the engine is told.
        variables: What else this program sets in its environment.
        is_rank: Whether it is one of several that share the cores of this host.
    """
    end_with_parent()
    set_variables(variables, unless_set=ENVIRONMENT | (ONE_THREAD if is_rank else {}))
    # Not above: it loads torch, which reads the environment.
    from seatrial.worker.megatron.cpu.runtime import install  # noqa: PLC0415

    install(with_wandb=read_early_options(arguments).uses_wandb)
