# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One process of a run: the engine's `pretrain`, with Seatrial's model script and event log."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from seatrial.worker.environment import set_variables
from seatrial.worker.megatron.arguments import EarlyOptions, read_early_options
from seatrial.worker.megatron.cpu.start import start_on_cpu
from seatrial.worker.megatron.save_processes import shield_managers
from seatrial.worker.node import nccl_log
from seatrial.worker.node.exporters import serving
from seatrial.worker.process import UNFINISHED, UNSUITABLE
from seatrial.worker.settings import Device, settings
from seatrial.worker.supervisor.exit_records import recording_exit
from seatrial.worker.supervisor.rank import master_address, start_heartbeat


def main(arguments: Sequence[str]) -> None:
    """Prepare the device, then call the engine."""
    # Start the heartbeat first, so that the supervisor sees this process while it loads torch.
    heart = start_heartbeat()
    chosen = settings()
    nccl_file = None
    if chosen.device is Device.CPU:
        start_on_cpu(arguments, master_address(), is_rank=True)
        if chosen.fault and not chosen.trouble:
            # Import late: this imports the engine, which checks torch.cuda at import.
            from seatrial.worker.megatron.cpu import deliberate_bugs  # noqa: PLC0415

            deliberate_bugs.install(deliberate_bugs.Bug(chosen.fault))
    else:
        refuse_missing_layers(read_early_options(arguments))
        nccl_file = nccl_log.choose_file() if chosen.writes_events else None
        set_variables(master_address() | nccl_log.variables(nccl_file))
    # Do this before importing the engine, which takes a while.
    with serving(chosen):
        from seatrial.worker.megatron.training import train  # noqa: PLC0415

        train(chosen, arguments, heart, nccl_file)


def refuse_missing_layers(options: EarlyOptions) -> None:
    """Exit with a message if this environment does not include the layers that the run needs."""
    wanted = options.transformer_impl == "transformer_engine"
    if wanted and find_spec("transformer_engine") is None:
        sys.stderr.write(
            "seatrial: this environment does not include Transformer Engine, which the run's "
            "layers need. Use an image that includes it, such as NVIDIA's PyTorch images, or set "
            "engine.options.transformer-impl=local in the spec.\n"
        )
        sys.exit(UNSUITABLE)


def main_in_pod(arguments: Sequence[str]) -> None:
    """Train, with an exit code that distinguishes an early exit from a finished run.

    After SIGTERM, the engine saves a checkpoint on all ranks and exits with 0
    (`megatron/training/training.py`, checkpoint_and_decide_exit). Kubernetes would treat the job as
    succeeded, so evicting one pod would end the run. If training finished, the engine returns;
    otherwise it exits, and this function sets a code that makes the operator restart the job.
    """
    with recording_exit():
        shield_managers()
        try:
            main(arguments)
        except SystemExit as end:
            if end.code in (None, 0) and not read_early_options(arguments).ends_early:
                sys.stderr.write("seatrial: saved a checkpoint and stopped before the last step.\n")
                sys.exit(UNFINISHED)
            raise
