# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One process of a run: the engine's own `pretrain`, with our model entry and event log."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from seatrial.worker.environment import set_variables
from seatrial.worker.megatron.arguments import EarlyOptions, read_early_options
from seatrial.worker.megatron.cpu.start import start_on_cpu
from seatrial.worker.megatron.save_processes import shield_managers
from seatrial.worker.node import nccl_log
from seatrial.worker.node.exporters import serving
from seatrial.worker.process import UNFINISHED
from seatrial.worker.settings import Device, settings
from seatrial.worker.supervisor.exit_records import telling_end
from seatrial.worker.supervisor.rank import begin_beating, master_address


def main(arguments: Sequence[str]) -> None:
    """Prepare the device, then hand over to the engine."""
    # First of all, so that the supervisor knows of this process while it loads torch.
    heart = begin_beating()
    chosen = settings()
    nccl_file = None
    if chosen.device is Device.CPU:
        start_on_cpu(arguments, master_address(), is_rank=True)
        if chosen.fault and not chosen.trouble:
            # Not above: it imports the engine, which decides by torch.cuda what it is made of.
            from seatrial.worker.megatron.cpu import deliberate_bugs  # noqa: PLC0415

            deliberate_bugs.install(deliberate_bugs.Bug(chosen.fault))
    else:
        refuse_missing_layers(read_early_options(arguments))
        nccl_file = nccl_log.choose_file() if chosen.writes_events else None
        set_variables(master_address() | nccl_log.variables(nccl_file))
    # Before the engine is imported, which takes a while that somebody may be looking at.
    with serving(chosen):
        from seatrial.worker.megatron.training import train  # noqa: PLC0415

        train(chosen, arguments, heart, nccl_file)


def refuse_missing_layers(options: EarlyOptions) -> None:
    """Refuse a run whose layers this image lacks."""
    wanted = options.transformer_impl == "transformer_engine"
    if wanted and find_spec("transformer_engine") is None:
        sys.exit(
            "seatrial: this image has no Transformer Engine, whose layers the run is made of. "
            "Use an image that has it (NVIDIA's PyTorch images do), or set "
            "engine.options.transformer-impl=local in the spec."
        )


def main_in_pod(arguments: Sequence[str]) -> None:
    """Train, with an exit code that tells an early end from a finished run.

    Asked to end by SIGTERM, the engine saves a checkpoint on all ranks and exits with 0
    (`megatron/training/training.py`, checkpoint_and_decide_exit). To Kubernetes that is a job that
    has succeeded: the eviction of one pod would end the run. A training that was finished returns;
    one that was not exits, and gets a code here that makes the operator start it again.
    """
    with telling_end():
        shield_managers()
        try:
            main(arguments)
        except SystemExit as end:
            if end.code in (None, 0) and not read_early_options(arguments).ends_early:
                sys.stderr.write("seatrial: saved and ended before the last step.\n")
                sys.exit(UNFINISHED)
            raise
