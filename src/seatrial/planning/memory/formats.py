# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The width of elements, and the effect of products in 8 or 4 bits in Transformer Engine.

A weight has a copy in the narrow format that is kept across micro-batches, because Megatron marks
the first one (`core/extensions/transformer_engine.py` in 0.19.2). The backward pass needs a second
copy if it reads the weight in a different order: always with scales per block, and before Blackwell
also with a scale per tensor (NVIDIA/TransformerEngine issues 1261 and 1880). The input of a product
is stored in the narrow format instead of 16 bits (issue 1764). This model comes from the source
code: eight published fp8 figures are too few for a separate error bar.
"""

from typing import NamedTuple

from seatrial.planning.workload import Workload
from seatrial.spec.training import Precision


class NarrowFormat(NamedTuple):
    """Bytes per element in products with fewer than 16 bits."""

    input_bytes: float
    """Bytes per input element that is stored for the backward pass."""
    weight_bytes: float
    """Bytes per weight for all narrow copies."""


HALF_BYTES = 2.0
"""Bytes per 16-bit element."""
SINGLE_BYTES = 4.0
"""Bytes per fp32 element."""
EITHER_ORDER = ("b200", "b300", "gb200", "gb300")
"""GPUs that multiply one 8-bit copy in both orders if a tensor has one scale."""
MXFP8_BYTES = 1 + 1 / 32
"""Bytes per element, including a one-byte scale per 32 elements."""
NVFP4_BYTES = 1 / 2 + 1 / 16
"""Bytes per element, including a one-byte scale per 16 elements."""


def element_bytes(workload: Workload) -> float:
    """Return the bytes per element of weights and activations outside narrow products."""
    return SINGLE_BYTES if workload.precision is Precision.FP32 else HALF_BYTES


def narrow_format(workload: Workload) -> NarrowFormat | None:
    """Return the narrow format of a workload's products; None for 16 bits or more."""
    precision = workload.precision
    if precision is Precision.FP8:
        copies = 1 if workload.hardware.accelerator in EITHER_ORDER else 2
        return NarrowFormat(1.0, float(copies))
    if precision is Precision.MXFP8:
        return NarrowFormat(MXFP8_BYTES, 2 * MXFP8_BYTES)
    if precision is Precision.NVFP4:
        return NarrowFormat(NVFP4_BYTES, 2 * NVFP4_BYTES)
    return None


def layer_weight_bytes(workload: Workload) -> float:
    """Return the bytes per weight in a layer beyond 16 bits; embedding and output stay in 16 bits.

    With narrow weights (Megatron's `--fp8-param-gather`), there is no 16-bit copy, so the result
    can be negative.
    """
    narrow = narrow_format(workload)
    if narrow is None:
        return 0.0
    return narrow.weight_bytes - (HALF_BYTES if workload.narrow_weights else 0.0)
