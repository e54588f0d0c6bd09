# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine arguments of Megatron-LM's functional tests, for counting their ranks at full size.

A checkout of Megatron-LM has them in tests/functional_tests/test_cases/*/NAME/model_config.yaml.
`data/megatron_ci.csv` has the arguments that the formulas need, and no more; the golden values in
`data/published_runs.csv` are those of commit d98e8a6.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from backtest import memory_ci
from backtest.memory_rows import Row, of_source
from seatrial.engines.engine import Arguments
from seatrial.engines.megatron.command_line import command_line
from seatrial.engines.megatron.full_size import (
    MEANINGS,
    NARROW,
    WITHOUT_A_GPU,
    WITHOUT_FILES,
)
from seatrial.engines.megatron.performance_flags import ON_CPU

NODE = 8
"""GPUs of a row that states none: the recipes' default."""

Flags = dict[str, Any]
"""Arguments without the leading hyphens."""

DROPPED = re.compile(
    r"(lr|min-lr|log|logging|tensorboard|wandb|data|eval|save|ckpt|dist-ckpt|timing|manual-gc|exit|"
    r"train|use-checkpoint|vocab|merge|tokenizer|init-method|adam|fim|async|decoupled|no-load)-.*|"
    r"load|save|split|seed|finetune|mock-data|.*ckpt.*|no-mmap-bin-files|num-workers|"
    r"use-mcore-models|distributed-backend|distributed-timeout-minutes|weight-decay|clip-grad|"
    r"auto-detect-.*|override-opt_param-scheduler|verify-integrity|manual-gc|use-flash-attn|"
    r"rerun-mode|check-weight-hash-.*|export-.*|te-rng-tracker|no-use-tokenizer-.*|test-mode|"
    r"step-batch-size-schedule|disable-gloo-process-groups|tp-comm-overlap-cfg|cuda-graph-.*"
)
"""Arguments about files, data, logs, the learning rate or processes; none changes what a rank
holds."""
KEPT = frozenset({"data-parallel-sharding-strategy", "log-params-norm", "log-num-zeros-in-grad"})
"""Arguments that match `DROPPED` and do change it."""
NOT_COUNTED = (
    "fine-grained-activation-offloading",
    "use-transformer-engine-op-fuser",
    *(name for name in MEANINGS if name not in NARROW),
)
"""Arguments without which a test is counted."""
OTHER_PROGRAMS = ("grpo", "modelopt", "inference", "static")
"""Parts of names of tests that do not pretrain."""
LARGE_WORKSPACE = 32 << 20
"""Of torch with `:4096:8` and on Hopper, and of Transformer Engine on Hopper and later."""
SMALL_WORKSPACE = (8 << 20) + (128 << 10)
"""Of torch on other GPUs."""
GROUPED_STREAMS = 4
"""Streams of Transformer Engine's grouped products, each with a workspace."""
OVERLAP_STREAMS = 3
"""Workspaces of products that overlap with tensor-parallel communication."""
SEEN = frozenset(
    {
        # Compared with counts before the tests were split.
        "gpt3_7b_tp1_pp4_memory_speed",
        "gpt3_7b_tp4_pp1_memory_speed",
        # The first score of the held-out half: 61 rows, which were then looked at.
        "gpt3_mcore_cp2_pp2_ep2_te_4experts2parallel_nondeterministic_dp_last",
        "gpt3_mcore_te_tp1_pp4_frozen_swiglu",
        "gpt3_mcore_te_tp1_pp4_swiglu",
        "gpt3_mcore_te_tp2_pp1_cp2_nondeterministic",
        "gpt3_mcore_te_tp2_pp1_frozen_te_8experts2parallel_dist_optimizer",
        "gpt3_mcore_te_tp2_pp1_te_8experts2parallel_dist_optimizer",
        "gpt3_mcore_te_tp2_pp2_cp2",
        "gpt3_mcore_te_tp2_pp2_cp2_etp4_calculate_per_token_loss_nondeterministic_dp_last",
        "gpt3_mcore_te_tp2_pp2_cross_entropy_loss_fusion",
        "gpt3_mcore_te_tp2_pp2_ep4_etp1_attn_cudagraph",
        "gpt3_mcore_tp1_pp1_dist_optimizer_overlap_grad_reduce_param_gather",
        "gpt3_mcore_tp2_pp2_ep2_etp2_te_4experts2parallel_dp_last",
        "gpt3_mcore_tp2_pp2_ep2_te_4experts2parallel",
        "gpt3_mcore_tp2_pp2_uninstall_te",
        "gpt3_mcore_tp4_pp1",
    }
)
"""Tests, without the parts of `SAME_RUN`, whose errors are known; they are not held out."""
SAME_RUN = re.compile(r"_1node|_resume(_torch(_dist)?)?|_github|_sm(?=$|_gb200)")
"""Parts of a name that do not change what is trained."""


@dataclass(frozen=True, slots=True)
class CiTest:
    name: str
    flags: Flags
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CountedCase:
    """A count of a rank: one, or several rows, on GPUs for which the count is the same."""

    test: str
    arguments: tuple[str, ...]
    gpus: int
    attention: str
    """`flash`, `fused`, `unfused`, or `local` for the engine's own."""
    is_deterministic: bool
    without: tuple[str, ...]
    """Arguments of the test that the count leaves out."""
    narrow: str | None = None
    """The format of 8-bit products."""
    has_narrow_weights: bool = False
    has_native_transpose: bool = False
    workspace: str = ""
    """CUBLAS_WORKSPACE_CONFIG of the test."""

    @property
    def key(self) -> str:
        """The same for rows that run the same."""
        facts = [self.gpus, self.attention, self.is_deterministic, *self.options.values()]
        text = json.dumps([self.arguments, facts])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def options(self) -> dict[str, Any]:
        """What the worker's counter is given beside the engine's arguments."""
        return {
            "narrow": self.narrow,
            "has_narrow_weights": self.has_narrow_weights,
            "has_native_transpose": self.has_native_transpose,
        }


def is_held_out(test: str) -> bool:
    """True for the half of the tests that is scored once, and never looked at before.

    A test's name decides, so that all of its GPUs are on one side. Variants that train the same are
    on the same side too.
    """
    stem = SAME_RUN.sub("", test)
    return stem not in SEEN and hashlib.sha256(stem.encode()).digest()[0] % 2 == 1


def read_test(checkout: Path, name: str) -> CiTest | None:
    found = sorted(checkout.glob(f"tests/functional_tests/test_cases/*/{name}/model_config.yaml"))
    if not found:
        return None
    config = YAML(typ="safe").load(found[0].read_text(encoding="utf-8"))
    flags = {key.removeprefix("--"): value for key, value in config["MODEL_ARGS"].items()}
    environment = {key: str(value) for key, value in (config.get("ENV_VARS") or {}).items()}
    return CiTest(name, flags, environment)


def ci_rows() -> list[Row]:
    return [row for row in of_source(memory_ci.SOURCE) if row["measured_mem_gb"]]


def why_not_counted(row: Row) -> str:
    """The reason why a row cannot be counted, or an empty string."""
    test = memory_ci.flags().get(row["model"])
    if test is None:
        return "settings not found"
    if any(word in row["model"] for word in OTHER_PROGRAMS):
        return "not pretraining"
    if test["test_type"] == "release" and not row["n_gpus"]:
        return "GPU count not known"
    if memory_ci.vocabulary(test) is None:
        return "vocabulary not known"
    return ""


def case_of(row: Row, test: CiTest) -> CountedCase:
    """The count that a row is compared with: its last rank."""
    asked = _arguments(test.flags)
    asked["vocab-size"] = str(memory_ci.vocabulary(memory_ci.flags()[row["model"]]))
    without = tuple(name for name in NOT_COUNTED if name in asked)
    arguments = asked | dict.fromkeys((*without, "offload-modules"))
    arguments |= WITHOUT_FILES | ON_CPU | dict.fromkeys(NARROW) | WITHOUT_A_GPU
    arguments["no-masked-softmax-fusion"] = asked.get("no-masked-softmax-fusion")
    if asked.get("moe-token-dispatcher-type") == "flex":
        arguments["moe-token-dispatcher-type"] = "alltoall"
    return CountedCase(
        test.name,
        tuple(command_line(arguments)),
        _gpus(row),
        attention_kernel(row["gpu"], test),
        test.environment.get("NVTE_ALLOW_NONDETERMINISTIC_ALGO") == "0",
        without,
        narrow=str(asked.get("fp8-recipe", "delayed")) if "fp8-format" in asked else None,
        has_narrow_weights="fp8-param-gather" in asked,
        has_native_transpose="fp8-format" in asked and row["gpu"].startswith("GB200"),
        workspace=test.environment.get("CUBLAS_WORKSPACE_CONFIG", ""),
    )


def _gpus(row: Row) -> int:
    """The GPUs of a row; without a stated number, a node, or what the batch is enough for."""
    if row["n_gpus"]:
        return int(row["n_gpus"])
    copy = int(row["tp"]) * int(row["pp"]) * int(row["cp"] or 1)
    batches = int(row["global_batch"] or NODE) // int(row["micro_batch"] or 1)
    return copy * max(1, min(NODE // copy, batches))


def workspaces(gpu: str, attention: str, config: str, without: Collection[str]) -> int:
    """Bytes of cuBLAS workspaces that stay allocated (docs/engine/full-size-kernels.md)."""
    is_old = gpu.startswith("A100")
    # Two threads start torch's products: the main one, and autograd's.
    torch_workspaces = 2 * (LARGE_WORKSPACE if config or not is_old else SMALL_WORKSPACE)
    if attention == "local":
        return torch_workspaces
    streams = 1
    if "moe-grouped-gemm" in without:
        streams += GROUPED_STREAMS
    if "tp-comm-overlap" in without:
        streams += OVERLAP_STREAMS
    return torch_workspaces + streams * (4 << 20 if is_old else LARGE_WORKSPACE + 1024)


def _arguments(flags: Flags) -> Arguments:
    return {
        name: value if value is True else _words(value)
        for name, value in flags.items()
        if value is not False and (name in KEPT or not DROPPED.fullmatch(name))
    }


def _words(value: Any) -> str | tuple[str, ...]:
    text = str(value)
    is_list = text.startswith("[") or re.fullmatch(r"\d+( \d+)+", text)
    return tuple(text.strip("[]").split()) if is_list else text


def attention_kernel(gpu: str, test: CiTest) -> str:
    """The attention kernel that Transformer Engine chooses (docs/engine/full-size-kernels.md)."""
    if test.flags.get("transformer-impl", "transformer_engine") == "local":
        return "local"
    backend = test.flags.get("attention-backend", "auto")
    if backend in ("flash", "fused", "unfused"):
        return str(backend)
    if test.environment.get("NVTE_FUSED_ATTN") == "0" or gpu.startswith("A100"):
        return "flash"
    deterministic = test.environment.get("NVTE_ALLOW_NONDETERMINISTIC_ALGO") == "0"
    drops = float(test.flags.get("attention-dropout", 0.1)) > 0
    return "flash" if gpu.startswith("GB200") and deterministic and drops else "fused"
