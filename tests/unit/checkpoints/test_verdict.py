# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a run can go on from, and why."""

from dataclasses import replace

import pytest

from seatrial.checkpoints.setup import SavedConstants, SavedSchedule, Setup
from seatrial.checkpoints.verdict import Resume, verdict
from tests.unit.checkpoints.made import SETUP

MOE = replace(SETUP, model=replace(SETUP.model, experts=4, expert_ffn_hidden_size=64))
BUCKETS = replace(SETUP, optimizer_sharding="dp_reshardable")
OLD = replace(SETUP, checkpoint_format="torch")
RATE = replace(SETUP, schedule=SavedSchedule(1e-4, 1e-5, "cosine", 40, 400))
ROTATED = replace(SETUP, constants=SavedConstants(10000.0, 1.0, 0.0, 1e-5))

WINDOWED = replace(SETUP, parts={"window.tokens": 128})
LATENT = replace(SETUP, parts={"latent_attention.kv_rank": 512})


def with_constants(**values: float) -> Setup:
    assert ROTATED.constants is not None
    return replace(ROTATED, constants=replace(ROTATED.constants, **values))


def with_layout(setup: Setup, **degrees: int) -> Setup:
    return replace(setup, layout=replace(setup.layout, **degrees))


def padded(setup: Setup, rows: int) -> Setup:
    return replace(setup, model=replace(setup.model, padded_vocab_size=rows))


def with_rate(**values: object) -> Setup:
    assert RATE.schedule is not None
    return replace(RATE, schedule=replace(RATE.schedule, **values))  # type: ignore[arg-type]


def with_data(**values: object) -> Setup:
    return replace(SETUP, data_order=replace(SETUP.data_order, **values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("saved", "wanted", "outcome", "what"),
    [
        (SETUP, SETUP, Resume.SAFE, ""),
        (SETUP, with_layout(SETUP, tp_size=2, dp_size=1), Resume.RESHARDED, "layout"),
        (SETUP, with_layout(SETUP, dp_size=4), Resume.RESHARDED, "layout"),
        (BUCKETS, with_layout(BUCKETS, dp_size=4), Resume.RESHARDED, "layout"),
        (BUCKETS, with_layout(BUCKETS, tp_size=2, dp_size=1), Resume.IMPOSSIBLE, "layout"),
        (MOE, with_layout(MOE, pp_size=2, dp_size=1), Resume.RESHARDED, "layout"),
        (MOE, with_layout(MOE, ep_size=2), Resume.IMPOSSIBLE, "layout"),
        (SETUP, with_data(seed=1), Resume.DATA_CHANGES, "seed"),
        (SETUP, with_data(blend=("2", "/data/a")), Resume.DATA_CHANGES, "blend"),
        (SETUP, with_data(sequence_length=32), Resume.DATA_CHANGES, "sequence length"),
        (SETUP, with_data(train_samples=800), Resume.DATA_CHANGES, "train samples"),
        (SETUP, with_data(split="98,2,0"), Resume.DATA_CHANGES, "split"),
        # Files that cannot be seen from here say nothing.
        (SETUP, with_data(sizes=(5,)), Resume.SAFE, ""),
        (with_data(sizes=(4,)), with_data(sizes=(5,)), Resume.DATA_CHANGES, "data"),
        (SETUP, with_data(blend=("@/data/blend.txt",)), Resume.SAFE, ""),
        (SETUP, replace(SETUP, tokenizer="other"), Resume.DATA_CHANGES, "tokenizer"),
        (SETUP, replace(SETUP, precision="bf16"), Resume.IMPOSSIBLE, "precision"),
        (SETUP, replace(SETUP, optimizer_sharding="none"), Resume.IMPOSSIBLE, "optimizer sharding"),
        # The engine finds out the old format, whose files are those of the ranks that saved them.
        (OLD, SETUP, Resume.SAFE, ""),
        (OLD, with_layout(SETUP, dp_size=4), Resume.IMPOSSIBLE, "layout"),
        (
            replace(SETUP, checkpoint_format="torch_dcp"),
            SETUP,
            Resume.IMPOSSIBLE,
            "checkpoint format",
        ),
        (RATE, RATE, Resume.SAFE, ""),
        (RATE, with_rate(peak=2e-4), Resume.IMPOSSIBLE, "learning rate"),
        (RATE, with_rate(minimum=2e-5), Resume.IMPOSSIBLE, "minimum learning rate"),
        (RATE, with_rate(decay_samples=800), Resume.IMPOSSIBLE, "decay"),
        (RATE, with_rate(warmup_samples=80), Resume.IMPOSSIBLE, "warm-up"),
        (RATE, with_rate(style="linear"), Resume.IMPOSSIBLE, "decay style"),
        # A record from before the schedule was written down says nothing of it.
        (SETUP, RATE, Resume.SAFE, ""),
        (SETUP, replace(SETUP, global_batch_size=8), Resume.DATA_CHANGES, "global batch size"),
        (ROTATED, ROTATED, Resume.SAFE, ""),
        (ROTATED, with_constants(rotary_base=500000.0), Resume.MODEL_CHANGES, "rotary base"),
        (ROTATED, with_constants(rotary_percent=0.5), Resume.MODEL_CHANGES, "rotary percent"),
        (ROTATED, with_constants(rotary_scaling=8.0), Resume.MODEL_CHANGES, "RoPE scaling"),
        (ROTATED, with_constants(norm_epsilon=1e-6), Resume.MODEL_CHANGES, "norm epsilon"),
        # Neither does one from before the constants were.
        (SETUP, ROTATED, Resume.SAFE, ""),
        (WINDOWED, WINDOWED, Resume.SAFE, ""),
        (WINDOWED, replace(SETUP, parts={}), Resume.MODEL_CHANGES, "window.tokens"),
        (WINDOWED, LATENT, Resume.IMPOSSIBLE, "latent_attention.kv_rank"),
        (SETUP, LATENT, Resume.SAFE, ""),
        (SETUP, padded(SETUP, 256), Resume.RESHARDED, "padded vocab size"),
        (BUCKETS, padded(BUCKETS, 256), Resume.IMPOSSIBLE, "padded vocab size"),
        (
            SETUP,
            replace(SETUP, model=replace(SETUP.model, layers=3)),
            Resume.IMPOSSIBLE,
            "layers",
        ),
    ],
)
def test_the_answer_and_its_first_reason(
    saved: Setup, wanted: Setup, outcome: Resume, what: str
) -> None:
    answer = verdict(saved, wanted)
    assert answer.outcome is outcome
    assert (answer.reasons[0].what if answer.reasons else "") == what


def test_the_worst_reason_comes_first_and_all_are_told() -> None:
    wanted = replace(with_data(seed=1), precision="bf16", layout=replace(SETUP.layout, tp_size=2))
    answer = verdict(SETUP, wanted)
    assert [reason.outcome for reason in answer.reasons] == [
        Resume.IMPOSSIBLE,
        Resume.DATA_CHANGES,
        Resume.RESHARDED,
    ]
