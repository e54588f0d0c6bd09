# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Record what Megatron-LM's functional tests run with, beside the memory that they measured.

    python -m scripts.backtest.record_megatron_ci GIT_DIRECTORY

The published rows of Megatron's continuous integration lack facts: the vocabulary, biases,
dropout, which GPU count. Each test's own `model_config.yaml`, at the commit that the citations
name, states them. Writes `data/megatron_ci.csv`, one line for each test, flags as the file has
them and empty where the file leaves Megatron's default.
"""

import csv
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

DATA = Path(__file__).parent / "data"
CITATION = re.compile(
    r"github\.com/NVIDIA/Megatron-LM@(\w+) (tests/functional_tests/test_cases/.+)/golden_values"
)
FLAGS = (
    "num-layers",
    "hidden-size",
    "ffn-hidden-size",
    "num-attention-heads",
    "num-query-groups",
    "group-query-attention",
    "kv-channels",
    "seq-length",
    "max-position-embeddings",
    "position-embedding-type",
    "micro-batch-size",
    "global-batch-size",
    "tensor-model-parallel-size",
    "pipeline-model-parallel-size",
    "num-layers-per-virtual-pipeline-stage",
    "num-virtual-stages-per-pipeline-rank",
    "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",
    "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",
    "microbatch-group-size-per-virtual-pipeline-stage",
    "context-parallel-size",
    "expert-model-parallel-size",
    "expert-tensor-parallel-size",
    "num-experts",
    "moe-router-topk",
    "moe-ffn-hidden-size",
    "moe-shared-expert-intermediate-size",
    "moe-layer-freq",
    "moe-expert-capacity-factor",
    "moe-layer-recompute",
    "overlap-moe-expert-parallel-comm",
    "sequence-parallel",
    "use-distributed-optimizer",
    "num-distributed-optimizer-instances",
    "use-megatron-fsdp",
    "use-torch-fsdp2",
    "recompute-granularity",
    "recompute-method",
    "recompute-num-layers",
    "recompute-modules",
    "swiglu",
    "squared-relu",
    "normalization",
    "disable-bias-linear",
    "untie-embeddings-and-output-weights",
    "hidden-dropout",
    "attention-dropout",
    "attention-backend",
    "use-flash-attn",
    "transformer-impl",
    "bf16",
    "fp16",
    "fp8-format",
    "fp8-param-gather",
    "accumulate-allreduce-grads-in-fp32",
    "grad-reduce-in-bf16",
    "use-precision-aware-optimizer",
    "main-grads-dtype",
    "cross-entropy-loss-fusion",
    "no-gradient-accumulation-fusion",
    "multi-latent-attention",
    "mtp-num-layers",
    "tokenizer-type",
    "tokenizer-model",
    "vocab-size",
    "vocab-file",
    "make-vocab-size-divisible-by",
    "freeze-model",
    "cpu-offloading-num-layers",
    "optimizer-cpu-offload",
    "optimizer",
    "is-hybrid-model",
    "hybrid-override-pattern",
    "retro-project-dir",
    "model",
)


def main() -> None:
    """Read every cited test's settings, write the table."""
    git = ["git", f"--git-dir={sys.argv[1]}"]
    tests: dict[str, str] = {}
    with (DATA / "citations.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if found := CITATION.match(row["where"]):
                tests[found[2]] = found[1]
    with (DATA / "megatron_ci.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["test", "model_kind", "test_type", *FLAGS])
        for folder, commit in sorted(tests.items()):
            shown = subprocess.run(
                [*git, "show", f"{commit}:{folder}/model_config.yaml"],
                check=False,
                capture_output=True,
                text=True,
            )
            if shown.returncode:
                print(f"no settings: {folder}", file=sys.stderr)
                continue
            reader = YAML(typ="safe")
            # Some tests set a flag twice; the last one wins, as on a command line.
            reader.allow_duplicate_keys = True
            settings: dict[str, Any] = reader.load(StringIO(shown.stdout))
            arguments = settings.get("MODEL_ARGS") or {}
            values = [str(arguments.get(f"--{flag}", "")) for flag in FLAGS]
            kind = settings.get("TEST_TYPE", "")
            writer.writerow([Path(folder).name, Path(folder).parent.name, kind, *values])


if __name__ == "__main__":
    main()
