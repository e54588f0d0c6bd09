# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what a run on this host needs: GPUs, a container runtime, packages for GPUs."""

import subprocess
from shutil import which

from seatrial.catalog.node_types import detected_gpus
from seatrial.checks.rules.host import HostFacts
from seatrial.engine_process.process import worker_python
from seatrial.engines.registry import ENGINES
from seatrial.errors import MissingExtraError
from seatrial.planning.plan import Plan

_LACKS = (
    "import sys; from importlib.util import find_spec;"
    "print(*(one for one in sys.argv[1:] if find_spec(one) is None))"
)
_LONGEST_ANSWER = 60.0


def look_at_host(plan: Plan) -> HostFacts:
    """Read the facts that a plan needs. Without GPUs in the plan, no process is started."""
    runtime = plan.spec.cluster.container
    if not plan.machines.accelerator:
        return HostFacts(0, has_runtime=runtime is None or which(runtime) is not None)
    gpus = len(detected_gpus())
    return HostFacts(
        gpus,
        runtime is None or which(runtime) is not None,
        _missing_packages(plan) if gpus and runtime is None else (),
    )


def _missing_packages(plan: Plan) -> tuple[str, ...]:
    """Return the titles of the packages for GPUs that the engine's environment lacks."""
    engine = ENGINES[plan.spec.engine.name]
    needed = engine.gpu_packages(plan)
    try:
        python = worker_python(engine)
        answer = subprocess.run(  # noqa: S603  (our own argv, no shell)
            [python, "-c", _LACKS, *needed],
            capture_output=True,
            text=True,
            timeout=_LONGEST_ANSWER,
            check=True,
        )
    except (MissingExtraError, OSError, subprocess.SubprocessError):
        # The launch reports an engine that is not installed or does not start.
        return ()
    return tuple(needed[name] for name in answer.stdout.split())
