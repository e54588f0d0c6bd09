# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The fields of a step's line in a Megatron-LM log, by the label that the engine prints.

From `training_log` in megatron/training/training.py of the tags core_v0.4.0 to core_v0.19.0; the
last group from BigScience's Megatron-DeepSpeed, megatron/training.py. Which of them a line has
depends on the engine's version and options, so a line is read by labels, never by position.
"""

from collections.abc import Callable

Number = int | float


def _from_milliseconds(text: str) -> float:
    # As a decimal, so that 436.9 ms are 0.4369 s and not 0.43689999.
    return float(f"{text.strip()}e-3")


FIELDS: dict[str, tuple[str, Callable[[str], Number]]] = {
    "consumed samples": ("consumed_samples", int),
    "consumed bins": ("consumed_bins", int),
    "skipped samples": ("skipped_samples", int),
    "elapsed time per iteration (ms)": ("seconds", _from_milliseconds),
    "throughput per GPU (TFLOP/s/GPU)": ("tflops_per_gpu", float),
    "energy per GPU (J/iter/GPU)": ("joules_per_gpu", float),
    "power per GPU (W/GPU)": ("watts_per_gpu", float),
    "learning rate": ("learning_rate", float),
    "decoupled learning rate": ("decoupled_learning_rate", float),
    "global batch size": ("global_batch_size", int),
    "lm loss": ("loss", float),
    "loss scale": ("loss_scale", float),
    "grad norm": ("grad_norm", float),
    "num zeros": ("num_zeros", float),
    "params norm": ("params_norm", float),
    "number of skipped iterations": ("skipped", int),
    "number of nan iterations": ("nan", int),
    # Megatron-DeepSpeed.
    "elapsed time per iteration (s)": ("seconds", float),
    "consumed tokens": ("consumed_tokens", int),
    "samples per second": ("samples_per_second", float),
    "TFLOPs": ("tflops_per_gpu", float),
}
"""Our name of each field, and how its text becomes a number."""

REQUIRED = "seconds"
"""Without its time a line is no step's line."""
