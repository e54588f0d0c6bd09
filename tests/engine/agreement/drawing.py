# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Numbered draws: a healthy run, or one in which a single field was set to something else."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.planning.options import Options
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.spec.loader import loads
from seatrial.spec.performance import PerformanceSpec
from tests.engine.agreement.healthy import CUSTOM_LAYOUTS, NEWER, Spec, healthy

SEED = 20_260_711
"""All draws follow from it and their number."""
BROKEN_SHARE = 0.6
"""How many draws change a field."""

NewValue = Callable[[Random, Any], Any]
"""The other value of a field, from what it was."""


@dataclass(frozen=True, slots=True)
class Change:
    field: str
    value: Any


@dataclass(frozen=True, slots=True)
class Draw:
    number: int
    healthy: Spec
    change: Change | None
    """What was changed; nothing where the run stays as it is."""

    @property
    def spec(self) -> Spec:
        found = deepcopy(self.healthy)
        if self.change is not None:
            *path, last = self.change.field.split(".")
            section = found
            for key in path:
                section = section.setdefault(key, {})
            section[last] = self.change.value
        return found


def value_at(spec: Spec, field: str) -> Any:
    """What a field of a run is; nothing where it is not given."""
    found: Any = spec
    for key in field.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _one_of(*values: Any) -> NewValue:
    """One of some values, and not the old one; a switch that is on already is turned off."""
    return lambda draw, old: draw.choice([value for value in values if value != old] or [False])


def _near(draw: Random, old: Any) -> int:
    """A number beside the old one, a multiple of it, or a part of it."""
    number = int(old or 1)
    return draw.choice((number + 1, max(1, number - 1), number * 2, number * 3, number + 7))


def _size(draw: Random, old: Any) -> int:
    return draw.choice([size for size in (1, 2, 3, 4, 5, 6, 8, 12, 16) if size != old])


CHANGES: dict[str, NewValue] = {
    "model.dimensions.layers": _near,
    "model.dimensions.hidden_size": _near,
    "model.dimensions.heads": _near,
    "model.dimensions.kv_heads": _size,
    "model.dimensions.head_dim": _one_of(32, 63, 80, 96, 256),
    "model.dimensions.ffn_hidden_size": _near,
    "model.dimensions.max_positions": _one_of(512, 1024, 2048, 3000, 16_384),
    "model.dimensions.vocab_size": _near,
    "model.dimensions.positions": _one_of("learned", "rope", "alibi"),
    "model.dimensions.norm": _one_of("layernorm", "rmsnorm", "layernorm-no-bias"),
    "model.dimensions.activation": _one_of("gelu", "swiglu"),
    "model.dimensions.linear_bias": _one_of(True, False),
    "model.dimensions.qkv_bias": _one_of(True),
    "model.dimensions.qk_norm": _one_of(True),
    "model.dimensions.tied_embeddings": _one_of(True, False),
    "model.dimensions.moe.experts": _size,
    "model.dimensions.moe.top_k": _size,
    "model.dimensions.moe.expert_ffn_hidden_size": _near,
    "model.dimensions.moe.shared_expert_ffn_hidden_size": _near,
    "model.dimensions.moe.dense_layers": _size,
    "training.sequence_length": _one_of(1000, 1023, 1536, 2050, 6144, 8192, 16_384),
    "training.micro_batch_size": _size,
    "training.global_batch_size": _near,
    "training.precision": _one_of("fp32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"),
    "training.hidden_dropout": _one_of(0.1, 1.0),
    "training.attention_dropout": _one_of(0.1, 1.0),
    "training.deterministic": _one_of(True),
    "training.learning_rate.minimum": _one_of(0.0, 1e-5, 1e-3),
    "training.learning_rate.warmup": _one_of(
        {"steps": 10}, {"steps": 100_000}, {"samples": 4096}, {"fraction": 0.5}, {"fraction": 1.0}
    ),
    "training.learning_rate.decay": _one_of(
        {"steps": 5}, {"steps": 100_000}, {"fraction": 0.5}, {"samples": 1000}
    ),
    "training.evaluation.every_steps": _one_of(1, 7, 100_000),
    "parallelism.tp_size": _size,
    "parallelism.pp_size": _size,
    "parallelism.vp_size": _size,
    "parallelism.cp_size": _size,
    "parallelism.ep_size": _size,
    "parallelism.etp_size": _size,
    "parallelism.sequence_parallel": _one_of(True, False),
    "parallelism.sharding": _one_of("none", "optimizer", "fsdp"),
    "parallelism.recompute": _one_of("none", "selective", "full"),
    "parallelism.recompute_modules": _one_of(
        ["core_attn"],
        ["layernorm"],
        ["mlp"],
        ["moe"],
        ["moe_act"],
        ["shared_experts"],
        ["mla_up_proj"],
        ["core_attn", "moe_act"],
    ),
    "parallelism.first_stage_layers": _size,
    "parallelism.last_stage_layers": _size,
    "parallelism.embedding_as_layer": _one_of(True),
    "parallelism.loss_as_layer": _one_of(True),
    "cluster.nodes": _size,
    "cluster.processes_per_node": _size,
    "checkpoints.every_steps": _one_of(1, 7, 999, 100_000),
    "checkpoints.asynchronous": _one_of(True, False),
    "data.split": _one_of([100, 0, 0], [98, 2, 0], [0, 100, 0], [99.5, 0.5, 0]),
}
"""The fields that are changed, and to what."""
NEWER_CHANGES: dict[str, NewValue] = {
    "model.dimensions.mtp_layers": _one_of(0, 1, 3),
    "model.dimensions.latent_attention.kv_rank": _near,
    "model.dimensions.latent_attention.qk_head_dim": _near,
    "model.dimensions.latent_attention.rope_head_dim": _near,
    "model.dimensions.latent_attention.value_head_dim": _near,
    "model.dimensions.moe.scaling_factor": _one_of(0.5, 1.0, 16.0),
    "model.dimensions.moe.expert_bias": _one_of(True, False),
    "model.dimensions.moe.groups": _size,
    "model.dimensions.moe.groups_per_token": _size,
    "model.dimensions.norm_epsilon": _one_of(1e-6, 1e-5),
}
"""Those of newer models, in draws from `NEWER` on."""
OPTIONS = 3 * NEWER
"""Draws from this number on change only performance options, of all models."""
OPTION_CHANGES: dict[str, NewValue] = {
    "performance.gradient_overlap": _one_of(True, False),
    "performance.parameter_overlap": _one_of(True, False),
    "performance.tensor_overlap": _one_of(True, False),
    "performance.pipeline_overlap": _one_of(True, False),
    "performance.expert_overlap": _one_of(True, False),
    "performance.shared_expert_overlap": _one_of(True, False),
    "performance.token_dispatcher": _one_of("alltoall", "allgather", "deepep", "hybridep"),
    "performance.grouped_experts": _one_of(True, False),
    "performance.fused_routing": _one_of(True, False),
    "performance.fused_loss": _one_of(True, False),
    "performance.fused_layers": _one_of(True, False),
    "performance.cuda_graphs": _one_of("none", "layers", "step"),
    "performance.moments": _one_of("fp32", "bf16"),
    "performance.optimizer_offload": _one_of(0.25, 1.0),
    "performance.activation_offload": _one_of(1, 2, 1000),
}
"""The performance options, and what they are set to."""
COMBINED = 4 * NEWER
"""Draws from this number on have several performance options, all of which the rules allow."""
SCHEDULES = 5 * NEWER
"""Draws from this number on change only the batch schedule, until `CUSTOM_LAYOUTS`."""
SEVERAL = ("global_batch_size", "samples", "tokens")
"""What grows with the batch."""


def _batch_schedule(draw: Random, training: Spec) -> list[Spec]:
    """One or two early batch sizes: some fit, others do not divide, shrink or are never used."""
    batch, length = training["global_batch_size"], training["sequence_length"]
    sizes = [batch // 2, batch // 2, batch // 4, batch // 3, batch - 1, 2 * batch]
    found, tokens = [], 0
    for _ in range(draw.choice((1, 1, 2))):
        size = max(1, draw.choice(sizes))
        tokens += draw.choice((0.5, 3, 100, 100, 10**6)) * size * length
        found.append({"global_batch_size": size, "until_tokens": int(tokens)})
    return found if draw.random() < 0.9 else found[::-1]


def _other_layout(draw: Random, old: Any) -> str:
    """A layout with something left out, doubled, moved or added."""
    text = str(old)
    at = draw.randrange(len(text))
    before, letter, after = text[:at], text[at], text[at + 1 :]
    moved = draw.randrange(len(before + after) + 1)
    rest = before + after
    return draw.choice(
        (
            rest,
            before + 2 * letter + after,
            rest[:moved] + letter + rest[moved:],
            before + draw.choice("EtmLx|,(*) 2") + letter + after,
            before + draw.choice("EtmL|") + after,
            f"({text})*2",
            text.lower(),
        )
    )


LAYOUT_CHANGES: dict[str, NewValue] = {
    "parallelism.pipeline_layout": _other_layout,
    "parallelism.pp_size": _size,
    "parallelism.vp_size": _size,
    "parallelism.first_stage_layers": _size,
    "parallelism.last_stage_layers": _size,
    "parallelism.embedding_as_layer": _one_of(True),
    "parallelism.loss_as_layer": _one_of(True),
    "parallelism.recompute": _one_of("none", "selective", "full"),
    "model.dimensions.layers": _near,
    "model.dimensions.mtp_layers": _one_of(0, 1, 3),
}
"""What concerns a custom layout, in draws from `CUSTOM_LAYOUTS` on."""


def combined(number: int, catalog: Catalog) -> Draw:
    """A healthy run with options at random, in any combination that the rules allow."""
    draw = Random(f"{SEED}:{number}")
    run = healthy(draw, number)
    basis = resolve_basis(loads(json.dumps(run), "draw"), catalog)
    plan = plan_run(basis).plan
    case = basis.option_chooser().case(
        plan.layout,
        sequence_parallel=plan.sequence_parallel,
        sharding=plan.sharding,
        recompute=plan.recompute,
    )
    given = {}
    for option in basis.limits.options:
        value = OPTION_CHANGES[f"performance.{option.name}"](draw, None)
        asked = replace(case, options=with_values(case.options, {option.name: value}))
        if not option.problems(asked) and draw.random() >= BROKEN_SHARE / 2:
            case, given[option.name] = asked, value
    return Draw(number, run, Change("performance", given))


def with_values(options: Options, values: dict[str, Any]) -> Options:
    """The options with some values, as a spec would have them."""
    spec = PerformanceSpec.model_validate(values)
    return replace(options, **{name: getattr(spec, name) for name in values})


def _changes(number: int) -> dict[str, NewValue]:
    if number >= CUSTOM_LAYOUTS:
        return LAYOUT_CHANGES
    if number >= OPTIONS:
        return OPTION_CHANGES
    return CHANGES if number < NEWER else CHANGES | NEWER_CHANGES


def drawn(number: int) -> Draw:
    """The draw of a number; the same at any time."""
    draw = Random(f"{SEED}:{number}")
    run = healthy(draw, number)
    if draw.random() >= BROKEN_SHARE:
        return Draw(number, run, None)
    if SCHEDULES <= number < CUSTOM_LAYOUTS:
        # Batches that can be divided once more.
        given = run["training"]
        several = {name: 4 * given[name] for name in SEVERAL if name in given}
        run["training"] = given | several
        schedule = _batch_schedule(draw, run["training"])
        return Draw(number, run, Change("training.batch_schedule", schedule))
    changes = _changes(number)
    absent = [
        f".{part}."
        for part in ("moe", "latent_attention")
        if value_at(run, f"model.dimensions.{part}") is None
    ]
    fields = [field for field in changes if not any(part in field for part in absent)]
    field = draw.choice(fields)
    if number >= CUSTOM_LAYOUTS and draw.random() < 0.6:
        field = "parallelism.pipeline_layout"
    return Draw(number, run, Change(field, changes[field](draw, value_at(run, field))))
