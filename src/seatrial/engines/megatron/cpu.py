# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine must be told beside a plan's own flags to train on a CPU."""

from seatrial.engines.engine import Arguments

CPU_ARGUMENTS: Arguments = {
    # Layers without Transformer Engine, and ours where those lack something.
    "transformer-impl": "local",
    "spec": ("seatrial.worker.cpu.layers", "gpt_spec"),
    "attention-backend": "unfused",
    "distributed-backend": "gloo",
    "use-cpu-initialization": True,
    # Fused kernels that exist only for a GPU.
    "no-gradient-accumulation-fusion": True,
    "no-masked-softmax-fusion": True,
    "no-bias-dropout-fusion": True,
    "no-bias-gelu-fusion": True,
    "no-bias-swiglu-fusion": True,
    "no-persist-layer-norm": True,
    "no-rope-fusion": True,
    "moe-grouped-gemm": None,
    # The layers without Transformer Engine want the mask that it makes itself.
    "no-create-attention-mask-in-dataloader": None,
    # Loading in the process itself keeps the order of random draws.
    "num-workers": 0,
}
"""Flags that replace a GPU's kernels and transport; only rounding changes by them."""
