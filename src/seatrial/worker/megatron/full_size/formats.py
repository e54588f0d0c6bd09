# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Sizes of Transformer Engine's 8-bit and 4-bit tensors (docs/engine/full-size-kernels.md).

A tensor has data and scales for reading it by rows, and others for reading it by columns. Forward
products read by rows, the products of the backward pass by columns.
"""

from enum import StrEnum
from math import ceil


class QuantizedFormat(StrEnum):
    """Narrow formats, under the engine's names of their recipes."""

    DELAYED = "delayed"
    TENSORWISE = "tensorwise"
    BLOCKWISE = "blockwise"
    MXFP8 = "mxfp8"
    NVFP4 = "nvfp4"


HISTORY = 1024
"""Steps for which delayed scaling keeps maxima."""
FORWARD_MAXIMA, BACKWARD_MAXIMA = 3, 2
"""Tensors of one product that have a history."""


def _up(size: float, multiple: int) -> int:
    return ceil(size / multiple) * multiple


def row_bytes(kind: QuantizedFormat, rows: int, columns: int) -> int:
    """Bytes for reading a matrix by rows."""
    if kind is QuantizedFormat.BLOCKWISE:
        return rows * columns + 4 * ceil(columns / 128) * _up(rows, 4)
    if kind is QuantizedFormat.MXFP8:
        return rows * columns + _up(rows, 128) * _up(columns // 32, 4)
    if kind is QuantizedFormat.NVFP4:
        return rows * columns // 2 + _up(rows, 128) * _up(ceil(columns / 16), 4) + 4
    return rows * columns + 4


def column_bytes(kind: QuantizedFormat, rows: int, columns: int) -> int:
    """Bytes for reading a matrix by columns."""
    if kind is QuantizedFormat.BLOCKWISE:
        return rows * columns + 4 * ceil(rows / 128) * _up(columns, 4)
    if kind is QuantizedFormat.MXFP8:
        return rows * columns + _up(rows // 32, 4) * _up(columns, 128)
    if kind is QuantizedFormat.NVFP4:
        return rows * columns // 2 + _up(columns, 128) * _up(ceil(rows / 16), 4) + 4
    return rows * columns + 4


def input_bytes(kind: QuantizedFormat, rows: int, columns: int) -> int:
    """Bytes that a product keeps of its input for the backward pass: one of the two ways."""
    return column_bytes(kind, rows, columns)


def weight_bytes(
    kind: QuantizedFormat, rows: int, columns: int, *, has_native_transpose: bool
) -> int:
    """Bytes that a product keeps of its weight between micro-batches.

    Args:
        kind: The format.
        rows: Rows of the weight.
        columns: Columns of the weight.
        has_native_transpose: True if the GPU reads 8-bit data both ways, as Blackwell does.
    """
    if kind is QuantizedFormat.BLOCKWISE:
        scales = ceil(rows / 128) * _up(ceil(columns / 128), 4)
        turned = ceil(columns / 128) * _up(ceil(rows / 128), 4)
        return 2 * rows * columns + 4 * (scales + turned)
    if kind in (QuantizedFormat.DELAYED, QuantizedFormat.TENSORWISE) and has_native_transpose:
        return row_bytes(kind, rows, columns)
    return row_bytes(kind, rows, columns) + column_bytes(kind, rows, columns)


def history_bytes(kind: QuantizedFormat) -> int:
    """Bytes of the maxima that one product keeps for good."""
    if kind is not QuantizedFormat.DELAYED:
        return 0
    return 4 * HISTORY * (FORWARD_MAXIMA + BACKWARD_MAXIMA)
