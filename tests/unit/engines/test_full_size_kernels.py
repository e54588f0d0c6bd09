# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The kernels that a full-size count imitates are those of the plan's GPU."""

import pytest

from seatrial.engines.megatron.full_size import full_size_arguments
from tests.conftest import resolved

A100 = ("cluster.node_type=p4d.24xlarge",)
H100 = ("cluster.node_type=p5.48xlarge",)
B200 = ("cluster.node_type=p6-b200.48xlarge",)
DETERMINISTIC = ("training.deterministic=true",)
DROPOUT = ("training.attention_dropout=0.1",)
NO_DROPOUT = ("training.attention_dropout=0.0",)


@pytest.mark.parametrize(
    ("overrides", "kernel"),
    [
        (A100, "flash"),
        (H100, "fused"),
        ((*H100, *DETERMINISTIC, *DROPOUT), "fused"),
        ((*B200, *DROPOUT), "fused"),
        ((*B200, *DETERMINISTIC, *DROPOUT), "flash"),
        ((*B200, *DETERMINISTIC, *NO_DROPOUT), "fused"),
    ],
)
def test_attention(overrides: tuple[str, ...], kernel: str) -> None:
    plan = resolved(*overrides)
    assert full_size_arguments(plan, 1).arguments["attention"] == kernel


@pytest.mark.parametrize(
    ("overrides", "narrow", "native"),
    [
        (H100, None, False),
        ((*H100, "training.precision=fp8"), "delayed", False),
        ((*B200, "training.precision=fp8"), "delayed", True),
        ((*B200, "training.precision=mxfp8"), "mxfp8", True),
    ],
)
def test_narrow_products(overrides: tuple[str, ...], narrow: str | None, native: bool) -> None:
    arguments = full_size_arguments(resolved(*overrides), 1).arguments
    assert arguments["narrow"] == narrow
    assert arguments["native-transpose"] is native
    assert arguments["fp8-format"] is None
