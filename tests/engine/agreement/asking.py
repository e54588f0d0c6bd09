# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the static check says of a draw, and how the engine is asked about the same run."""

import json
from dataclasses import dataclass
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.engines.engine import Arguments
from seatrial.engines.megatron.command_line import command_line, engine_arguments
from seatrial.engines.megatron.engine import engine_environment
from seatrial.engines.megatron.trial import production_arguments
from seatrial.findings import Severity
from seatrial.planning.options import NAMES, given_options
from seatrial.planning.parameters import padded_vocab_size
from seatrial.planning.plan import Plan
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.spec.loader import loads
from tests.engine.agreement.drawing import Draw, value_at
from tests.engine.agreement.healthy import Spec


@dataclass(frozen=True, slots=True)
class Question:
    """A run, as the engine is asked about it."""

    number: int
    world_size: int
    words: tuple[str, ...]
    environment: dict[str, str]
    stages: tuple[int, ...] = ()
    """Stages whose parameters are asked for."""
    options: tuple[str, ...] = ()
    """The performance options of the run that are on."""


def static_errors(draw: Draw, catalog: Catalog) -> tuple[tuple[str, ...], Question]:
    """The codes of the errors, and the question for the engine.

    A run that has a plan is asked about with the plan's own arguments. Of one that has none, the
    arguments are those of the healthy run with what the changed field decides set by hand.
    """
    verdict = check(json.dumps(draw.spec), f"draw {draw.number}", catalog)
    errors = {found.code for found in verdict.findings if found.severity is Severity.ERROR}
    if verdict.situation is not None:
        plan = verdict.situation.plan
        return tuple(sorted(errors)), question_of(plan, draw.number)
    before = plan_run(resolve_basis(loads(json.dumps(draw.healthy), "healthy"), catalog)).plan
    return tuple(sorted(errors)), _by_hand(draw, before)


def question_of(plan: Plan, number: int, stages: tuple[int, ...] = ()) -> Question:
    """The question about a plan, with its own arguments."""
    words = tuple(command_line(production_arguments(engine_arguments(plan))))
    chosen = given_options(plan.spec)
    on = tuple(name for name in NAMES if chosen.is_on(name))
    return Question(number, plan.layout.world_size, words, engine_environment(plan), stages, on)


def _by_hand(draw: Draw, before: Plan) -> Question:
    spec = draw.spec
    arguments = production_arguments(engine_arguments(before))
    arguments |= _changed(draw, spec)
    cluster, layout = spec["cluster"], spec["parallelism"]
    environment = {}
    if layout["sharding"] == "fsdp":
        environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "8"
    elif layout["tp_size"] > 1 or layout["cp_size"] > 1:
        environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    world = cluster["nodes"] * cluster["processes_per_node"]
    return Question(draw.number, world, tuple(command_line(arguments)), environment)


DIRECT = {
    "model.dimensions.layers": "num-layers",
    "model.dimensions.hidden_size": "hidden-size",
    "model.dimensions.head_dim": "kv-channels",
    "model.dimensions.ffn_hidden_size": "ffn-hidden-size",
    "model.dimensions.vocab_size": "vocab-size",
    "model.dimensions.moe.experts": "num-experts",
    "model.dimensions.moe.expert_ffn_hidden_size": "moe-ffn-hidden-size",
    "model.dimensions.moe.shared_expert_ffn_hidden_size": "moe-shared-expert-intermediate-size",
    "model.dimensions.moe.scaling_factor": "moe-router-topk-scaling-factor",
    "model.dimensions.moe.expert_bias": "moe-router-enable-expert-bias",
    "model.dimensions.moe.groups": "moe-router-num-groups",
    "model.dimensions.moe.groups_per_token": "moe-router-group-topk",
    "model.dimensions.latent_attention.kv_rank": "kv-lora-rank",
    "model.dimensions.latent_attention.qk_head_dim": "qk-head-dim",
    "model.dimensions.latent_attention.rope_head_dim": "qk-pos-emb-head-dim",
    "model.dimensions.latent_attention.value_head_dim": "v-head-dim",
    "model.dimensions.norm_epsilon": "norm-epsilon",
    "training.micro_batch_size": "micro-batch-size",
    "training.global_batch_size": "global-batch-size",
    "training.hidden_dropout": "hidden-dropout",
    "training.attention_dropout": "attention-dropout",
    "training.deterministic": "deterministic-mode",
    "training.learning_rate.minimum": "min-lr",
    "training.evaluation.every_steps": "eval-interval",
    "parallelism.tp_size": "tensor-model-parallel-size",
    "parallelism.pp_size": "pipeline-model-parallel-size",
    "parallelism.cp_size": "context-parallel-size",
    "parallelism.ep_size": "expert-model-parallel-size",
    "parallelism.etp_size": "expert-tensor-parallel-size",
    "parallelism.first_stage_layers": "decoder-first-pipeline-num-layers",
    "parallelism.last_stage_layers": "decoder-last-pipeline-num-layers",
    "parallelism.embedding_as_layer": "account-for-embedding-in-pipeline-split",
    "parallelism.loss_as_layer": "account-for-loss-in-pipeline-split",
    "parallelism.pipeline_layout": "pipeline-model-parallel-layout",
    "parallelism.sequence_parallel": "sequence-parallel",
    "checkpoints.every_steps": "save-interval",
}
"""Fields whose value is that of one flag."""
UNSEEN = ("cluster.nodes", "cluster.processes_per_node")
"""Fields that the engine sees only in the world size."""
_NORMS = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm", "layernorm-no-bias": "LayerNorm"}
_POSITIONS = {"learned": "learned_absolute", "rope": "rope", "alibi": "none"}


def _changed(draw: Draw, spec: Spec) -> Arguments:
    change = draw.change
    if change is None or change.field in UNSEEN:
        return {}
    found: Arguments = {}
    if change.field in DIRECT:
        found[DIRECT[change.field]] = change.value
    else:
        found |= _of_several_flags(change.field, change.value, spec)
    model, layout = spec["model"]["dimensions"], spec["parallelism"]
    if change.field in ("parallelism.tp_size", "model.dimensions.vocab_size"):
        found["padded-vocab-size"] = padded_vocab_size(model["vocab_size"], layout["tp_size"], 128)
    return found


def _of_several_flags(field: str, value: Any, spec: Spec) -> Arguments:
    """The flags of a field that decides more than one, or gives its value another name."""
    model = spec["model"]["dimensions"]
    rotary = model.get("positions", "rope" if model["family"] == "llama" else "learned") == "rope"
    heads, shared = model["heads"], model["kv_heads"] != model["heads"]
    positions = max(model["max_positions"], spec["training"]["sequence_length"])
    table: dict[str, Arguments] = {
        "model.dimensions.heads": {
            "num-attention-heads": heads,
            "group-query-attention": shared,
            "num-query-groups": model["kv_heads"] if shared else None,
        },
        "model.dimensions.kv_heads": {
            "group-query-attention": shared,
            "num-query-groups": model["kv_heads"] if shared else None,
        },
        "model.dimensions.max_positions": {
            "max-position-embeddings": positions if rotary else model["max_positions"]
        },
        "training.sequence_length": {
            "seq-length": spec["training"]["sequence_length"],
            "max-position-embeddings": positions if rotary else model["max_positions"],
        },
        "model.dimensions.moe.top_k": {
            "moe-router-topk": value,
            "moe-router-pre-softmax": value == 1,
        },
        "parallelism.vp_size": {
            "num-virtual-stages-per-pipeline-rank": value if value != 1 else None
        },
    }
    if field in table:
        return table[field]
    return _of_words(field, value, spec)


def _of_words(field: str, value: Any, spec: Spec) -> Arguments:
    """The flags of a field whose value is a word, or several."""
    if field == "model.dimensions.moe.dense_layers":
        layers = value_at(spec, "model.dimensions.layers")
        return {"moe-layer-freq": f"([0]*{value}+[1]*{layers - value})"}
    if field == "parallelism.sharding":
        whole = value == "fsdp"
        return {
            "use-distributed-optimizer": value == "optimizer",
            "dist-ckpt-optim-fully-reshardable": value == "optimizer",
            "use-megatron-fsdp": whole,
            "data-parallel-sharding-strategy": "optim_grads_params" if whole else None,
            "ckpt-format": "fsdp_dtensor" if whole else "torch_dist",
        }
    if field == "parallelism.recompute":
        full = value == "full"
        return {
            "recompute-granularity": None if value == "none" else value,
            "recompute-method": "uniform" if full else None,
            "recompute-num-layers": 1 if full else None,
        }
    if field == "parallelism.recompute_modules":
        return {"recompute-modules": tuple(map(str, value))}
    if field == "data.split":
        return {"split": ",".join(f"{share:g}" for share in value)}
    if field == "training.precision":
        return _precision(str(value))
    if field == "training.batch_schedule":
        return _batch_schedule(value, spec["training"])
    if field in ("training.learning_rate.warmup", "training.learning_rate.decay"):
        return _span("lr-warmup" if field.endswith("warmup") else "lr-decay", value, spec)
    words: dict[str, Arguments] = {
        "model.dimensions.norm": {"normalization": _NORMS.get(str(value))},
        "model.dimensions.positions": {"position-embedding-type": _POSITIONS.get(str(value))},
        "model.dimensions.activation": {"swiglu": value == "swiglu"},
        "model.dimensions.linear_bias": {"disable-bias-linear": value is False},
        "model.dimensions.qkv_bias": {"add-qkv-bias": value},
        "model.dimensions.qk_norm": {"qk-layernorm": value},
        "model.dimensions.mtp_layers": {"mtp-num-layers": value or None},
        "model.dimensions.tied_embeddings": {"untie-embeddings-and-output-weights": not value},
        "checkpoints.asynchronous": {"async-save": value, "use-persistent-ckpt-worker": value},
    }
    return words[field]


def _precision(value: str) -> Arguments:
    return {
        "bf16": value in ("bf16", "fp8", "mxfp8", "nvfp4"),
        "fp16": value == "fp16",
        "fp8-format": "hybrid" if value in ("fp8", "mxfp8") else None,
        "fp8-recipe": {"fp8": "delayed", "mxfp8": "mxfp8"}.get(value),
        "fp4-format": "e2m1" if value == "nvfp4" else None,
    }


def _batch_schedule(schedule: list[Spec], training: Spec) -> Arguments:
    """The batch sizes, and the length and the learning rate in samples."""
    batch = training["global_batch_size"]
    starts = [0, *(early["until_tokens"] for early in schedule)]
    sizes = [*(early["global_batch_size"] for early in schedule), batch]
    samples = training.get("samples") or batch * training.get("steps", 1000)
    anneals = training["learning_rate"]["style"] == "wsd"
    words = (f"{start}:{size}" for start, size in zip(starts, sizes, strict=True))
    return {
        "global-batch-size": None,
        "step-batch-size-schedule": ",".join(words),
        "eval-global-batch-size": batch,
        "train-iters": None,
        "train-samples": samples,
        "lr-warmup-iters": None,
        "lr-warmup-samples": samples // 100,
        "lr-decay-iters": None,
        "lr-decay-samples": samples,
        "lr-wsd-decay-iters": None,
        "lr-wsd-decay-samples": samples // 10 if anneals else None,
    }


def _span(flag: str, value: Any, spec: Spec) -> Arguments:
    """A part of the schedule, in the unit in which the run's length is given."""
    training = spec["training"]
    batch = training["global_batch_size"]
    samples = training.get("samples") or batch * training.get("steps", 1)
    if "tokens" in training:
        samples = training["tokens"] // training["sequence_length"]
    given = value.get("samples") or value.get("steps", 0) * batch
    given = given or int(value.get("fraction", 0) * samples)
    if "samples" in training:
        return {f"{flag}-samples": given}
    return {f"{flag}-iters": given // batch}
