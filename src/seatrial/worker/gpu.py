# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a GPU's process needs before the engine reads its arguments."""

import sys
from importlib.util import find_spec

FUSED_GRADIENTS = "fused_weight_gradient_mlp_cuda"
"""Apex's extension, which adds weight gradients up inside the matrix multiplication."""


def prepare(words: list[str]) -> None:
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
