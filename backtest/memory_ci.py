# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's functional tests: live tensors on the last rank, for dense GPT models.

The published rows name the test; `data/megatron_ci.csv` has its flags. What is left out, and why
(all rules were fixed before anything was scored but one: release tests were left out, 8 rows, when
the first look showed what facts they lack):

- multi-latent attention, multi-token prediction, experts with a capacity, hybrid, T5, BERT,
  retrieval and multimodal models: not what this model describes, or facts are missing;
- reinforcement learning, distillation, inference: another program than pretraining;
- FSDP, offloading, optimizers other than Adam, half-precision optimizer states: not modelled;
- a schedule with its own group size, several optimizer instances: not in a plan;
- vocabularies that no flag and no well-known tokenizer tells;
- release tests, which run on more nodes than one and do not say on how many.

Mixtures of experts and 8-bit products are scored apart from other models and never fitted.

Flags that are absent have Megatron's defaults: dropout 0.1, LayerNorm, biases, learned positions,
tied embeddings, inner width of 4 times the width (2/3 of that in multiples of 64 with SwiGLU),
experts cut as the rest by tp. Where a row has no GPU count, it ran on one node of 8, as the
recipes have it.
"""

import csv
from collections import Counter
from functools import cache

from backtest.memory_rows import (
    Measured,
    MeasuredRow,
    Row,
    Which,
    measured_rows,
    of_source,
    workload,
)
from backtest.rows import DATA
from seatrial.planning.workload import Workload
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.training import Precision

SOURCE = "Megatron-LM CI golden values"
STACK = "megatron-core"
NODE = 8

Flags = dict[str, str]

REFUSED = {
    "multi-latent-attention": "multi-latent attention",
    "mtp-num-layers": "multi-token prediction",
    "is-hybrid-model": "hybrid model",
    "hybrid-override-pattern": "hybrid model",
    "retro-project-dir": "retrieval",
    "use-megatron-fsdp": "FSDP",
    "use-torch-fsdp2": "FSDP",
    "cpu-offloading-num-layers": "offloading",
    "optimizer-cpu-offload": "offloading",
    "use-precision-aware-optimizer": "optimizer state in half precision",
    "microbatch-group-size-per-virtual-pipeline-stage": "schedule with a group size",
    "num-distributed-optimizer-instances": "several optimizer instances",
    "freeze-model": "frozen parameters",
}
EIGHT_BIT = "8-bit products, scored apart"
VOCABULARIES = {"nemotron_2_256k.model": 256_000}
GPT2_VOCABULARY = 50_257


def rows() -> list[MeasuredRow]:
    """The rows of dense pretraining whose facts are known."""
    return _measured(experts=False)


def expert_rows() -> list[MeasuredRow]:
    """The rows of mixtures of experts whose facts are known."""
    return _measured(experts=True)


def _measured(*, experts: bool) -> list[MeasuredRow]:
    """The rows whose facts are known, with experts or without."""
    kept = [
        row
        for row in of_source(SOURCE)
        if not why_left_out(row) and bool(flags()[row["model"]]["num-experts"]) is experts
    ]
    return measured_rows(kept, _workload, Measured.ALLOCATED, Which.LAST)


def eight_bit_rows() -> list[MeasuredRow]:
    """The rows with 8-bit products whose facts are known, of either kind of model."""
    kept = [row for row in of_source(SOURCE) if why_left_out(row) == EIGHT_BIT]
    return measured_rows(kept, _workload, Measured.ALLOCATED, Which.LAST)


def left_out() -> Counter[str]:
    """How many rows are left out, by reason; mixtures of experts are scored apart."""
    reasons = Counter(reason for row in of_source(SOURCE) if (reason := why_left_out(row)))
    return reasons + Counter({"mixture of experts, scored apart": len(expert_rows())})


@cache
def flags() -> dict[str, Flags]:
    with (DATA / "megatron_ci.csv").open(newline="") as file:
        return {row["test"]: row for row in csv.DictReader(file)}


def why_left_out(row: Row) -> str:
    """The reason to leave a row out, or nothing."""
    test = flags().get(row["model"])
    if test is None:
        return "settings not found"
    if test["model_kind"] not in ("gpt", "moe"):
        return "not a GPT"
    if test["test_type"] == "release" and not row["n_gpus"]:
        return "GPU count not known"
    if any(word in row["model"] for word in ("grpo", "modelopt", "inference", "static")):
        return "not pretraining"
    if test["num-experts"] and test["moe-expert-capacity-factor"]:
        return "experts with a capacity"
    for flag, reason in REFUSED.items():
        if test[flag] not in ("", "False", "1" if flag.startswith("num-dist") else ""):
            return reason
    if test["optimizer"] not in ("", "adam"):
        return "another optimizer"
    if not all(row[name] for name in ("layers", "hidden", "heads", "micro_batch", "seq_len")):
        return "sizes not known"
    if vocabulary(test) is None:
        return "vocabulary not known"
    return EIGHT_BIT if test["fp8-format"] else ""


def vocabulary(test: Flags) -> int | None:
    """The entries of a test's tokenizer, where they can be known."""
    if test["tokenizer-type"] == "NullTokenizer":
        # One more than asked for, the end of a document.
        return int(test["vocab-size"]) + 1
    if test["vocab-size"]:
        return int(test["vocab-size"])
    name = test["tokenizer-model"].rpartition("/")[2]
    if name:
        return VOCABULARIES.get(name)
    return GPT2_VOCABULARY if test["vocab-file"] else None


def _set(test: Flags, flag: str) -> bool:
    return test[flag] == "True"


def _model(row: Row, test: Flags) -> Architecture:
    hidden, heads = int(row["hidden"]), int(row["heads"])
    swiglu = _set(test, "swiglu")
    inner = int(4 * hidden * 2 / 3 / 64) * 64 if swiglu else 4 * hidden
    positions = test["position-embedding-type"] or "learned_absolute"
    facts = {
        "family": "gpt",
        "layers": int(row["layers"]),
        "hidden_size": hidden,
        "ffn_hidden_size": int(test["ffn-hidden-size"] or inner),
        "heads": heads,
        "kv_heads": int(test["num-query-groups"] or heads)
        if _set(test, "group-query-attention")
        else heads,
        "head_dim": int(test["kv-channels"] or hidden // heads),
        "vocab_size": vocabulary(test),
        "max_positions": int(test["max-position-embeddings"] or row["seq_len"]),
        "positions": "learned" if positions == "learned_absolute" else "rope",
        "norm": "rmsnorm" if test["normalization"] == "RMSNorm" else "layernorm",
        "activation": "swiglu" if swiglu else "gelu",
        "linear_bias": not _set(test, "disable-bias-linear"),
        "tied_embeddings": not _set(test, "untie-embeddings-and-output-weights"),
        "moe": _experts(test, int(test["ffn-hidden-size"] or inner)),
    }
    return Architecture.model_validate(facts)


def _experts(test: Flags, inner: int) -> dict[str, int] | None:
    if not test["num-experts"]:
        return None
    return {
        "experts": int(test["num-experts"]),
        "top_k": int(test["moe-router-topk"] or 2),
        "expert_ffn_hidden_size": int(test["moe-ffn-hidden-size"] or inner),
        "shared_expert_ffn_hidden_size": int(test["moe-shared-expert-intermediate-size"] or 0),
    }


def _stage_layers(layers: int, stages: int, test: Flags) -> list[int]:
    """Layers of each stage, as the flags share them out and count embedding and loss in."""
    embedding = _set(test, "account-for-embedding-in-pipeline-split")
    loss = _set(test, "account-for-loss-in-pipeline-split")
    first = test["decoder-first-pipeline-num-layers"]
    last = test["decoder-last-pipeline-num-layers"]
    if first or last:
        rest = layers - int(first or 0) - int(last or 0)
        share = rest // max(1, stages - bool(first) - bool(last))
        sizes = [share] * stages
        sizes[0] = int(first or share)
        sizes[-1] = int(last or share)
        return sizes
    return [(layers + embedding + loss) // stages] * stages


def _chunks(sizes: list[int], test: Flags) -> int:
    if test["num-virtual-stages-per-pipeline-rank"]:
        return int(test["num-virtual-stages-per-pipeline-rank"])
    per_chunk = test["num-layers-per-virtual-pipeline-stage"]
    return max(sizes) // int(per_chunk) if per_chunk and len(sizes) > 1 else 1


def _recompute(test: Flags) -> Recompute:
    granularity = test["recompute-granularity"]
    return Recompute(granularity) if granularity in ("full", "selective") else Recompute.NONE


def _modules(test: Flags) -> frozenset[RecomputeModule]:
    names = test["recompute-modules"].strip("[]").split()
    return frozenset(RecomputeModule(name) for name in names)


def _precision(row: Row, test: Flags) -> Precision:
    if test["fp8-format"]:
        return Precision.FP8
    fp16 = test["fp16"] == "True" or row["precision"] == "fp16"
    return Precision.FP16 if fp16 else Precision.BF16


def _workload(row: Row) -> Workload:
    test = flags()[row["model"]]
    model = _model(row, test)
    stages = int(row["pp"])
    sizes = _stage_layers(model.layers, stages, test)
    gpus = int(row["n_gpus"] or NODE)
    dp = max(1, gpus // (int(row["tp"]) * stages * int(row["cp"] or 1)))
    if row["global_batch"]:
        # No more copies than the batch has micro batches for.
        dp = min(dp, int(row["global_batch"]) // int(row["micro_batch"]))
    batch = int(row["global_batch"] or int(row["micro_batch"]) * dp * stages)
    precision = _precision(row, test)
    fp32_gradients = precision is not Precision.FP16 or _set(
        test, "accumulate-allreduce-grads-in-fp32"
    )
    return workload(
        row,
        model,
        sizes,
        dp_size=dp,
        micro_batches=max(1, batch // int(row["micro_batch"]) // dp),
        sharding=Sharding.OPTIMIZER if _set(test, "use-distributed-optimizer") else Sharding.NONE,
        recompute=_recompute(test),
        precision=precision,
        stack=STACK,
        vocab_multiple=int(test["make-vocab-size-divisible-by"] or 128),
        gradient_bytes=4 if fp32_gradients and not _set(test, "grad-reduce-in-bf16") else 2,
        flash_attention=test["attention-backend"] != "unfused"
        and test["transformer-impl"] != "local",
        hidden_dropout=float(test["hidden-dropout"] or 0.1) > 0,
        vp_size=_chunks(sizes, test),
        embedding_as_layer=_set(test, "account-for-embedding-in-pipeline-split"),
        loss_as_layer=_set(test, "account-for-loss-in-pipeline-split"),
        recompute_modules=_modules(test),
        narrow_weights=_set(test, "fp8-param-gather"),
        ep_size=int(row["ep"] or 1),
        etp_size=int(test["expert-tensor-parallel-size"] or row["tp"]) if model.moe else 1,
    )
