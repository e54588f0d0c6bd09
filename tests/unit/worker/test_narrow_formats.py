# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Sizes of 8-bit and 4-bit tensors, as Transformer Engine's shapes give them."""

import pytest

from seatrial.worker.megatron.full_size.formats import (
    QuantizedFormat,
    column_bytes,
    history_bytes,
    input_bytes,
    row_bytes,
    weight_bytes,
)

ROWS, COLUMNS = 4096, 512


@pytest.mark.parametrize(
    ("kind", "by_rows", "by_columns"),
    [
        (QuantizedFormat.DELAYED, 2_097_156, 2_097_156),
        (QuantizedFormat.TENSORWISE, 2_097_156, 2_097_156),
        # fp32 scales: 4 blocks of 128 columns and 4096 rows; 32 blocks of rows and 512 columns.
        (QuantizedFormat.BLOCKWISE, 2_097_152 + 65_536, 2_097_152 + 65_536),
        # One byte for each 32 values.
        (QuantizedFormat.MXFP8, 2_097_152 + 65_536, 2_097_152 + 65_536),
        # Half a byte for a value, and one byte for each 16.
        (QuantizedFormat.NVFP4, 1_048_576 + 131_072 + 4, 1_048_576 + 131_072 + 4),
    ],
)
def test_both_ways_of_a_matrix(kind: QuantizedFormat, by_rows: int, by_columns: int) -> None:
    assert row_bytes(kind, ROWS, COLUMNS) == by_rows
    assert column_bytes(kind, ROWS, COLUMNS) == by_columns
    assert input_bytes(kind, ROWS, COLUMNS) == by_columns


def test_scales_are_padded() -> None:
    assert row_bytes(QuantizedFormat.MXFP8, 100, 32) == 3200 + 128 * 4
    assert column_bytes(QuantizedFormat.MXFP8, 32, 100) == 3200 + 4 * 128
    assert row_bytes(QuantizedFormat.NVFP4, 1, 16) == 8 + 128 * 4 + 4


def test_a_gpu_that_reads_both_ways_keeps_one_copy_of_a_weight() -> None:
    before = weight_bytes(QuantizedFormat.TENSORWISE, ROWS, COLUMNS, has_native_transpose=False)
    after = weight_bytes(QuantizedFormat.TENSORWISE, ROWS, COLUMNS, has_native_transpose=True)
    assert before == 2 * after
    both = weight_bytes(QuantizedFormat.MXFP8, ROWS, COLUMNS, has_native_transpose=True)
    assert both == row_bytes(QuantizedFormat.MXFP8, ROWS, COLUMNS) + column_bytes(
        QuantizedFormat.MXFP8, ROWS, COLUMNS
    )


def test_weights_have_scales_for_squares_of_128() -> None:
    found = weight_bytes(QuantizedFormat.BLOCKWISE, ROWS, COLUMNS, has_native_transpose=False)
    assert found == 2 * ROWS * COLUMNS + 4 * (32 * 4 + 4 * 32)


def test_only_delayed_scaling_keeps_a_history() -> None:
    assert history_bytes(QuantizedFormat.DELAYED) == 4 * 1024 * 5
    assert history_bytes(QuantizedFormat.TENSORWISE) == 0
