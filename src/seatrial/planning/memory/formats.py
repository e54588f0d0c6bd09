# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How wide elements are, and what products in 8 or 4 bits change, as Transformer Engine keeps it.

A weight has a copy in the narrow format, kept from one micro batch to the next, because Megatron
says which is the first (`core/extensions/transformer_engine.py` of 0.19.2), and a second one for
the backward pass where that reads it in another order: always with scales per block, and with a
scale per tensor before Blackwell (NVIDIA/TransformerEngine issues 1261 and 1880). The input of a
product is kept in the narrow format instead of 16 bits (issue 1764). All of it was read, and eight
published figures with fp8 are too few to give it an error bar of its own.
"""

from typing import NamedTuple

from seatrial.planning.workload import Workload
from seatrial.spec.training import Precision


class NarrowFormat(NamedTuple):
    """Bytes of an element where products have fewer bits than 16."""

    input_bytes: float
    """Of an input that is kept for the backward pass."""
    weight_bytes: float
    """Of all narrow copies of a weight."""


HALF_BYTES = 2.0
"""Of an element in 16 bits."""
SINGLE_BYTES = 4.0
"""Of an element in fp32."""
EITHER_ORDER = ("b200", "b300", "gb200", "gb300")
"""GPUs that multiply one 8-bit copy in both orders, where a tensor has one scale."""
MXFP8_BYTES = 1 + 1 / 32
"""A scale of one byte for 32 elements."""
NVFP4_BYTES = 1 / 2 + 1 / 16
"""A scale of one byte for 16 elements."""


def element_bytes(workload: Workload) -> float:
    """Bytes of an element of weights and activations outside narrow products."""
    return SINGLE_BYTES if workload.precision is Precision.FP32 else HALF_BYTES


def narrow_format(workload: Workload) -> NarrowFormat | None:
    """The format of a workload's products; nothing where that has 16 bits or more."""
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
    """Bytes that a layer's weight has beyond 16 bits; embedding and output stay in 16.

    With weights that are narrow themselves (Megatron's `--fp8-param-gather`) there is no copy in
    16 bits, and this can be negative.
    """
    narrow = narrow_format(workload)
    if narrow is None:
        return 0.0
    return narrow.weight_bytes - (HALF_BYTES if workload.narrow_weights else 0.0)
