# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What imitated kernels keep, counted by the engine (docs/engine/full-size-kernels.md)."""

from pathlib import Path

import pytest

from seatrial.planning.counted import RankCount
from seatrial.planning.layout import Axis
from tests.engine.full_size_layouts import PLAIN, SPEC, count, planned

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

H100, A100 = "Standard_ND96isr_H100_v5", "Standard_ND96amsr_A100_v4"
LAYERS, HIDDEN, TP, SEQUENCE, BATCH = 6, 512, 2, 1024, 2
KEPT_BATCHES = 2
"""Micro-batches whose activations the first of two stages keeps."""


def first_stage(directory: Path, node: str = H100, precision: str = "bf16") -> RankCount:
    """Count the first stage of a small model with two sequences in a micro-batch."""
    text = SPEC.format(
        model="gpt3-65m",
        batch=16,
        more="",
        parallelism="tp_size: 2, pp_size: 2, vp_size: 1, cp_size: 1, sequence_parallel: true, "
        "recompute: none",
        nodes=1,
        performance=PLAIN,
    )
    text = text.replace("micro_batch_size: 1", f"micro_batch_size: {BATCH}")
    text = text.replace(H100, node).replace("precision: bf16", f"precision: {precision}")
    run = planned(text, directory)
    return count(run, run.plan.layout.rank({Axis.PP: 0}), 4, directory)


def test_flash_attention_keeps_a_second_copy_of_its_output(tmp_path: Path) -> None:
    fused, flash = first_stage(tmp_path), first_stage(tmp_path, A100)
    copies = LAYERS * KEPT_BATCHES * 2 * SEQUENCE * BATCH * HIDDEN // TP
    assert flash.at_peak.activations - fused.at_peak.activations == copies
    assert flash.at_peak.weights == fused.at_peak.weights


@pytest.mark.slow
def test_narrow_products_keep_half_of_their_inputs_and_two_copies_of_weights(
    tmp_path: Path,
) -> None:
    wide, narrow = first_stage(tmp_path), first_stage(tmp_path, precision="fp8")
    weights = LAYERS * 12 * HIDDEN * HIDDEN // TP
    added = narrow.at_peak.buffers - wide.at_peak.buffers
    histories = LAYERS * 4 * 4 * 1024 * 5
    assert 2 * weights <= added <= 2 * weights + 2 * histories
    assert narrow.at_peak.activations < wide.at_peak.activations
    assert "8-bit and 4-bit products" in narrow.imitated
