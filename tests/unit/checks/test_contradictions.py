# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Each contradiction of the engine's options: a run in which it is told, and one in which not."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.engines.megatron.contradictions import CONTRADICTIONS, Contradiction
from tests.unit.checks.examples import BASE, ON_GRACE

EXPERTS = ("model.preset=mixtral-8x7b", "data.tokenizer=null", "parallelism.ep_size=2")
FP8 = "training.precision=fp8"
TP_1 = ("parallelism.tp_size=1", "parallelism.sequence_parallel=false")
PP_2 = "parallelism.pp_size=2"
VP_1 = "parallelism.vp_size=1"
UNSHARDED = "parallelism.sharding=none"
Overrides = tuple[str, ...]


def given(options: str, *more: str) -> Overrides:
    """Overrides with these options of the engine."""
    return (f"engine.options={{{options}}}", *more)


HYBRID = "performance.token_dispatcher=hybridep"
AWARE = "performance.moments=bf16"
GRAPHS = "performance.cuda_graphs=layers"
BIASED = (
    "model={dimensions: {family: llama, layers: 8, hidden_size: 512, heads: 8, vocab_size: 1000, "
    "max_positions: 4096, qkv_bias: true, moe: {experts: 8, top_k: 2, expert_ffn_hidden_size: 64}}}"
)
OVERLAPPED = (*EXPERTS, "performance.expert_overlap=true", "parallelism.recompute=none")
TABLE: dict[tuple[str, str], tuple[Overrides, Overrides]] = {
    ("overlap-param-gather-with-optimizer-step", "distributed checkpoints"): (
        given("overlap-param-gather-with-optimizer-step: true"),
        given("overlap-param-gather-with-optimizer-step: false"),
    ),
    ("fp16-lm-cross-entropy", "fp16"): (
        given("fp16-lm-cross-entropy: true"),
        given("fp16-lm-cross-entropy: true", "training.precision=fp16"),
    ),
    ("fp32-residual-connection", "fp32"): (
        given("fp32-residual-connection: true", "training.precision=fp32"),
        given("fp32-residual-connection: true"),
    ),
    ("log-memory-interval", "multiple"): (
        given("log-memory-interval: 15", "monitoring.log_every_steps=10"),
        given("log-memory-interval: 20", "monitoring.log_every_steps=10"),
    ),
    ("distribute-saved-activations", "tp is 1"): (
        given("distribute-saved-activations: true", *TP_1),
        given("distribute-saved-activations: true"),
    ),
    ("distribute-saved-activations", "full recomputation"): (
        given("distribute-saved-activations: true", "parallelism.recompute=selective"),
        given("distribute-saved-activations: true"),
    ),
    ("main-params-dtype", "precision-aware"): (
        given("main-params-dtype: fp16"),
        given("main-params-dtype: fp16", AWARE),
    ),
    ("main-grads-dtype", "precision-aware"): (
        given("main-grads-dtype: bf16"),
        given("main-grads-dtype: fp32"),
    ),
    ("fp8-param-gather", "not fp8"): (
        given("fp8-param-gather: true"),
        given("fp8-param-gather: true", FP8),
    ),
    ("fp8-param-gather", "sharding none"): (
        given("fp8-param-gather: true", FP8, UNSHARDED),
        given("fp8-param-gather: true", FP8),
    ),
    ("fp4-param-gather", "not nvfp4"): (
        given("fp4-param-gather: true", ON_GRACE),
        given("fp4-param-gather: true", ON_GRACE, "training.precision=nvfp4"),
    ),
    ("num-distributed-optimizer-instances", "expert parallelism"): (
        given("num-distributed-optimizer-instances: 2", *EXPERTS),
        given("num-distributed-optimizer-instances: 2"),
    ),
    ("num-distributed-optimizer-instances", "must be divisible"): (
        given("num-distributed-optimizer-instances: 3"),
        given("num-distributed-optimizer-instances: 2"),
    ),
    ("transformer-impl", "context parallelism"): (
        given("transformer-impl: local", "parallelism.cp_size=2"),
        given("transformer-impl: local"),
    ),
    ("transformer-impl", "8-bit and 4-bit"): (
        given("transformer-impl: local", FP8),
        given("transformer-impl: local"),
    ),
    ("cross-entropy-fusion-impl", "unstable"): (
        given("cross-entropy-fusion-impl: te"),
        given("cross-entropy-fusion-impl: te", "performance.fused_loss=false"),
    ),
    ("defer-embedding-wgrad-compute", "pp is 1"): (
        given("defer-embedding-wgrad-compute: true"),
        given("defer-embedding-wgrad-compute: true", PP_2),
    ),
    ("ddp-average-in-collective", "per token"): (
        given("ddp-average-in-collective: true, calculate-per-token-loss: true"),
        given("ddp-average-in-collective: true"),
    ),
    ("hierarchical-context-parallel-sizes", "product"): (
        given("hierarchical-context-parallel-sizes: [2, 2]"),
        given("hierarchical-context-parallel-sizes: [2, 2]", "parallelism.cp_size=4"),
    ),
    ("cp-comm-type", "hierarchical-context-parallel-sizes"): (
        given("cp-comm-type: a2a+p2p"),
        given("cp-comm-type: a2a+p2p, hierarchical-context-parallel-sizes: [1, 1]"),
    ),
    ("moe-pad-expert-input-to-capacity", "moe-expert-capacity-factor"): (
        given("moe-pad-expert-input-to-capacity: true", *EXPERTS),
        given("moe-pad-expert-input-to-capacity: true, moe-expert-capacity-factor: 1.0", *EXPERTS),
    ),
    **{
        (name, "constant"): (
            given(f"{name}: 0.1"),
            given(f"{name}: 0.1, weight-decay-incr-style: linear"),
        )
        for name in ("start-weight-decay", "end-weight-decay")
    },
    **{
        (name, "stages would not match the plan"): (
            given(f"{name}: true", PP_2),
            given(f"{name}: true"),
        )
        for name in (
            "account-for-embedding-in-pipeline-split",
            "account-for-loss-in-pipeline-split",
        )
    },
    **{
        (name, words): (given(f"{name}: true"), given(f"{name}: false"))
        for name, words in (
            ("init-method-xavier-uniform", "TypeError"),
            ("inference-disable-triton-nvls-kernels", "inference layers"),
            ("inference-fuse-tp-communication", "inference layers"),
            ("mla-down-proj-fusion", "latent"),
        )
    },
    ("batch-invariant-mode", "attention-backend"): (
        given("batch-invariant-mode: true"),
        given("batch-invariant-mode: true, attention-backend: flash"),
    ),
    ("batch-invariant-mode", "flash-attention-version"): (
        given("batch-invariant-mode: true, flash-attention-version: 2"),
        given("batch-invariant-mode: true, flash-attention-version: 3"),
    ),
    ("attention-backend", "spec local"): (
        given("attention-backend: local"),
        given("attention-backend: local, spec: [local]"),
    ),
    ("inference-cuda-graph-scope", "are disabled"): (
        given("inference-cuda-graph-scope: layer"),
        given("inference-cuda-graph-scope: none"),
    ),
    **{
        (name, "expert overlap"): (given(f"{name}: true"), given(f"{name}: true", *OVERLAPPED))
        for name in ("delay-wgrad-compute", "ep-overlap-early-attn-memory-release")
    },
    ("delay-wgrad-compute", "with biases"): (
        given("delay-wgrad-compute: true", *OVERLAPPED, GRAPHS, BIASED),
        given("delay-wgrad-compute: true", *OVERLAPPED, BIASED),
    ),
    ("delay-wgrad-compute", "fused gradient accumulation"): (
        given("delay-wgrad-compute: true", *OVERLAPPED, GRAPHS, "performance.fused_layers=false"),
        given("delay-wgrad-compute: true", *OVERLAPPED, GRAPHS),
    ),
    ("delay-wgrad-compute", "Transformer Engine's layers"): (
        given("delay-wgrad-compute: true, transformer-impl: local", *EXPERTS),
        given("delay-wgrad-compute: true", *OVERLAPPED),
    ),
    ("overlap-p2p-communication-warmup-flush", "virtual stages"): (
        given("overlap-p2p-communication-warmup-flush: true", PP_2, VP_1),
        given("overlap-p2p-communication-warmup-flush: true", PP_2, "parallelism.vp_size=2"),
    ),
    ("fine-grained-activation-offloading", "offload-modules"): (
        given("fine-grained-activation-offloading: true"),
        given("fine-grained-activation-offloading: true, offload-modules: [core_attn]"),
    ),
    ("fp8-output-proj", "only with precision fp8"): (
        given("fp8-output-proj: true"),
        given("fp8-output-proj: true", FP8),
    ),
    ("fsdp-manual-registration", "sharding fsdp"): (
        given("fsdp-manual-registration: true"),
        given("fsdp-manual-registration: true", "parallelism.sharding=fsdp"),
    ),
    ("logits-save-dir", "logits-save-top-k"): (
        given("logits-save-dir: /data/logits"),
        given("logits-save-dir: /data/logits, logits-save-top-k: 10"),
    ),
    ("num-dataset-builder-threads", "at least 1"): (
        given("num-dataset-builder-threads: 0"),
        given("num-dataset-builder-threads: 2"),
    ),
    ("phase-transition-iterations", "comma-separated"): (
        given("phase-transition-iterations: soon"),
        given("phase-transition-iterations: '100, 200'"),
    ),
    ("weight-decay-incr-style", "start-weight-decay and"): (
        given("weight-decay-incr-style: linear, start-weight-decay: 0.0"),
        given("weight-decay-incr-style: linear, start-weight-decay: 0.0, end-weight-decay: 0.1"),
    ),
    **{
        (name, "moe-grouped-gemm"): (given(f"{name}: true"), given(f"{name}: true", *EXPERTS))
        for name in ("moe-single-grouped-weight", "moe-single-grouped-bias")
    },
    ("moe-expert-rank-capacity-factor", "hybridep"): (
        given("moe-expert-rank-capacity-factor: 1.5", *EXPERTS),
        given("moe-expert-rank-capacity-factor: 1.5", HYBRID, *EXPERTS),
    ),
    ("moe-paged-stash", "moe-expert-rank-capacity-factor"): (
        given("moe-paged-stash: true", *EXPERTS),
        given("moe-paged-stash: true, moe-expert-rank-capacity-factor: 1.5", HYBRID, *EXPERTS),
    ),
    **{
        (name, "8-bit or 4-bit precision"): (
            given(f"{name}: true", *EXPERTS),
            given(f"{name}: true", FP8, *EXPERTS),
        )
        for name in ("moe-router-padding-for-fp8", "moe-router-padding-for-quantization")
    },
}


def meant(option: str, words: str) -> Contradiction:
    (found,) = [each for each in CONTRADICTIONS if each.option == option and words in each.rule]
    return found


def test_each_contradiction_is_in_the_table() -> None:
    assert len({meant(*key).rule + key[0] for key in TABLE}) == len(TABLE) == len(CONTRADICTIONS)


@pytest.mark.parametrize("key", TABLE, ids="-".join)
def test_a_contradiction_is_told_where_it_is_one(key: tuple[str, str], catalog: Catalog) -> None:
    rule, field = meant(*key).rule, f"engine.options.{key[0]}"
    for overrides, told in zip(TABLE[key], (True, False), strict=True):
        verdict = check(BASE, "run.yaml", catalog, overrides)
        assert verdict.situation is not None, verdict.findings
        said = [(found.where.field, found.rule) for found in verdict.findings]
        assert ((field, rule) in said) is told, said
