# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One process of a run: the engine's own `pretrain`, with our model entry and event log."""

import sys
from importlib.util import find_spec

from seatrial.worker.node.exporters import serving
from seatrial.worker.settings import Device, settings
from seatrial.worker.supervisor.rank import begin_beating

FUSED_GRADIENTS = "fused_weight_gradient_mlp_cuda"
"""Apex's extension, which adds weight gradients up inside the matrix multiplication."""


def prepare_gpu(words: list[str]) -> None:
    """Use what this image has: refuse layers that it lacks, leave out a fusion that it lacks."""
    implementation = "transformer_engine"
    if "--transformer-impl" in words:
        implementation = words[words.index("--transformer-impl") + 1]
    if implementation == "transformer_engine" and find_spec("transformer_engine") is None:
        sys.exit(
            "seatrial: this image has no Transformer Engine, whose layers the run is made of. "
            "Use an image that has it (NVIDIA's PyTorch images do), or set "
            "engine.options.transformer-impl=local in the spec."
        )
    switch = "--no-gradient-accumulation-fusion"
    if find_spec(FUSED_GRADIENTS) is None and switch not in words:
        # The engine has it on, and stops at the first layer without the extension.
        words.append(switch)


def main() -> None:
    """Prepare the device, then hand over to the engine."""
    # First of all, so that the supervisor knows of this process while it loads torch.
    heart = begin_beating()
    chosen = settings()
    if chosen.device is Device.CPU:
        # Before the engine is imported: it decides by torch.cuda what it is made of.
        from seatrial.worker.megatron.cpu.runtime import install  # noqa: PLC0415

        install()
        if chosen.fault and not chosen.trouble:
            from seatrial.worker.megatron import wrong_results  # noqa: PLC0415

            wrong_results.install(wrong_results.Fault(chosen.fault))
    else:
        prepare_gpu(sys.argv)
    # Before the engine is imported, which takes a while that somebody may be looking at.
    with serving(chosen):
        from seatrial.worker.megatron.training import train  # noqa: PLC0415

        train(chosen, heart)
