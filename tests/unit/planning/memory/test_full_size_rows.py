# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Counts of Megatron-LM's functional tests: arguments, halves, record and errors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from backtest import full_size_rows
from backtest.ci_tests import (
    SEEN,
    CiTest,
    CountedCase,
    attention_kernel,
    case_of,
    ci_rows,
    is_held_out,
    read_test,
    why_not_counted,
    workspaces,
)
from backtest.full_size_rows import ScoredRow, count_all, errors, quantiles, remainders

CONFIG = """
ENV_VARS:
  NVTE_ALLOW_NONDETERMINISTIC_ALGO: 0
MODEL_ARGS:
  --num-layers: 12
  --swiglu: true
  --rotary-interleaved: false
  --recompute-modules: "[layernorm moe_act]"
  --moe-layer-freq: ([0]*3+[1]*11)
  --data-path: ${DATA_PATH}/text
  --data-parallel-sharding-strategy: optim_grads_params
  --lr: 0.00015
  --transformer-impl: transformer_engine
  --moe-grouped-gemm: true
  --fp8-format: hybrid
  --log-params-norm: true
  --vocab-file: ${DATA_PATH}/vocab.json
"""
NAME = "gpt3_mcore_te_tp2_pp2"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    file = tmp_path / "tests/functional_tests/test_cases/gpt" / NAME / "model_config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(CONFIG, encoding="utf-8")
    return tmp_path


def test_arguments_keep_what_changes_memory_and_drop_files_and_logs(checkout: Path) -> None:
    test = read_test(checkout, NAME)
    assert test is not None
    row = next(row for row in ci_rows() if row["model"] == NAME)
    case = case_of(row, test)
    words = " ".join(case.arguments)
    for kept in (
        "--num-layers 12",
        "--swiglu",
        "--recompute-modules layernorm moe_act",
        "--moe-layer-freq ([0]*3+[1]*11)",
        "--data-parallel-sharding-strategy optim_grads_params",
        "--log-params-norm",
        "--vocab-size 50257",
        "--fake-process-group",
        "--transformer-impl local",
    ):
        assert kept in words
    for dropped in ("rotary-interleaved", "data-path", "vocab-file", "fp8", "$"):
        assert dropped not in words
    assert case.without == ("moe-grouped-gemm",)
    assert case.narrow == "delayed"
    assert case.is_deterministic
    assert case.gpus == 8


def test_a_row_without_a_number_of_gpus_has_no_more_than_its_batch_needs(checkout: Path) -> None:
    test = read_test(checkout, NAME)
    row = next(row for row in ci_rows() if row["model"] == "gpt3_mcore_reruns_resume_check_grads")
    assert test is not None
    assert not row["n_gpus"]
    assert case_of(row, test).gpus == 1
    unstated = next(row for row in ci_rows() if row["model"] == NAME and not row["n_gpus"])
    assert case_of(unstated, test).gpus == 8


def test_a_test_that_the_checkout_does_not_have_is_none(checkout: Path) -> None:
    assert read_test(checkout, "gpt3_other") is None


@pytest.mark.parametrize(
    ("gpu", "flags", "environment", "kernel"),
    [
        ("A100", {}, {}, "flash"),
        ("H100-80GB", {}, {"NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0"}, "fused"),
        ("GB200", {}, {"NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0"}, "flash"),
        ("GB200", {}, {"NVTE_ALLOW_NONDETERMINISTIC_ALGO": "1"}, "fused"),
        (
            "GB200",
            {"attention-dropout": 0.0},
            {"NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0"},
            "fused",
        ),
        ("H100-80GB", {"attention-backend": "unfused"}, {}, "unfused"),
        ("H100-80GB", {"transformer-impl": "local"}, {}, "local"),
        ("H100-80GB", {}, {"NVTE_FUSED_ATTN": "0"}, "flash"),
    ],
)
def test_the_attention_kernel_follows_gpu_determinism_and_dropout(
    gpu: str, flags: dict[str, Any], environment: dict[str, str], kernel: str
) -> None:
    assert attention_kernel(gpu, CiTest("test", flags, environment)) == kernel


def test_enough_is_held_out_and_variants_share_a_side() -> None:
    rows = [row for row in ci_rows() if not why_not_counted(row)]
    held_out = [row for row in rows if is_held_out(row["model"])]
    assert len(rows) == 436
    assert len(held_out) > 100
    for row in rows:
        assert is_held_out(f"{row['model']}_1node") is is_held_out(row["model"])
    assert not any(map(is_held_out, SEEN))


def _case(test: str) -> CountedCase:
    return CountedCase(test, ("--num-layers", test), 8, "flash", False, ())


def test_counting_continues_where_it_stopped(tmp_path: Path) -> None:
    record = tmp_path / "counts.jsonl"
    cases = {case.key: (case, {"1": 0}) for case in map(_case, "abc")}
    called = []

    def count(case: CountedCase) -> Mapping[str, Any]:
        called.append(case.test)
        return {"error": "refused"} if case.test == "b" else {"peak": 1}

    assert count_all(cases, record, count, limit=2) == 2
    assert count_all(cases, record, count) == 1
    assert called == ["a", "b", "c"]
    assert [line.get("peak") for line in full_size_rows.read_record(record)] == [1, None, 1]


def test_the_remainder_of_a_gpu_is_added_before_errors_are_taken() -> None:
    rows = [
        ScoredRow("1", "a", "A100", 110.0, 100.0, True, 1.1),
        ScoredRow("2", "b", "A100", 60, 50, True, 1),
    ]
    assert remainders(rows)["A100"] == (10.0, 10.0, 10.0)
    assert errors(rows, {"A100": 10.0}) == [0.0, 0.0]
    assert errors(rows, {}) == pytest.approx([1 / 11, 1 / 6])
    assert quantiles([0.01, 0.02, 0.03]) == "median 2.0%, nine of ten below 3.0% (3 rows)"


@pytest.mark.parametrize(
    ("gpu", "attention", "config", "without", "mebibytes"),
    [
        ("A100", "flash", ":4096:8", (), 68),
        ("H100-80GB", "fused", ":4096:8", (), 96),
        ("GB200", "fused", "", ("moe-grouped-gemm",), 224),
        ("H100-80GB", "fused", "", ("tp-comm-overlap",), 192),
        ("A100", "local", "", (), 16),
    ],
)
def test_workspaces_follow_gpu_and_kernels(
    gpu: str, attention: str, config: str, without: tuple[str, ...], mebibytes: int
) -> None:
    assert workspaces(gpu, attention, config, without) >> 20 == mebibytes


def test_counting_needs_the_tests_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        full_size_rows.main(["count"])
    assert "--checkout" in capsys.readouterr().err
