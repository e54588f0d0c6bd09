# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs that keep every rule, drawn at random: the ground on which one thing is then broken."""

import re
from dataclasses import dataclass
from math import gcd
from random import Random
from typing import Any

from seatrial.spec.parallelism import STAGE_FIELDS

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Machine:
    """A node type of the catalog, with what the draw has to know of it."""

    profile: str
    node_type: str
    gpus: int
    precisions: tuple[str, ...]
    """Number formats that its GPUs compute in, the usual one often."""


MACHINES = (
    Machine("aks", "Standard_ND96amsr_A100_v4", 8, ("bf16", "bf16", "bf16", "fp16", "fp32")),
    Machine("aks", "Standard_ND96isr_H100_v5", 8, ("bf16", "bf16", "bf16", "fp16", "fp8")),
    Machine("eks", "p5.48xlarge", 8, ("bf16",)),
    Machine("eks", "p6-b200.48xlarge", 8, ("bf16", "bf16", "bf16", "mxfp8")),
)


@dataclass(frozen=True, slots=True)
class Grid:
    tp: int
    cp: int
    pp: int
    vp: int
    dp: int

    @property
    def world(self) -> int:
        return self.tp * self.cp * self.pp * self.dp


NEWER = 10_000
"""The first draw with the parts of newer models; those before it stay as they were recorded."""

CUSTOM_LAYOUTS = 6 * NEWER
"""Draws from this number on have a custom pipeline layout."""


def healthy(draw: Random, number: int) -> Spec:
    """A run that breaks no rule, every field of its layout given."""
    machine = draw.choice(MACHINES)
    pp = draw.choice((1, 1, 2, 2, 3, 4, 8))
    vp = draw.choice((1, 1, 1, 2, 3)) if pp > 1 else 1
    tp, cp = draw.choice((1, 1, 2, 4, 8)), draw.choice((1, 1, 1, 2, 4))
    grid = Grid(tp, cp, pp, vp, draw.choice((1, 2, 3, 4, 8)))
    each = gcd(grid.world, machine.gpus)
    parallelism = _parallelism(draw, grid)
    dimensions = _dimensions(draw, grid, parallelism)
    if number >= NEWER:
        _add_newer_parts(draw, grid, parallelism, dimensions)
    if number >= CUSTOM_LAYOUTS:
        _add_custom_layout(draw, grid, parallelism, dimensions)
    training = _training(draw, grid, machine, dimensions)
    if parallelism["sharding"] == "fsdp":
        if training["precision"] in ("fp16", "fp32"):
            training["precision"] = "bf16"
        if grid.pp > 1:
            parallelism["sharding"] = "optimizer"
    return {
        "apiVersion": "seatrial.dev/v1alpha1",
        "name": f"draw-{number}",
        "model": {"dimensions": dimensions},
        "data": {"mock": True},
        "training": training,
        "parallelism": parallelism,
        "cluster": {
            "profile": machine.profile,
            "node_type": machine.node_type,
            "nodes": grid.world // each,
            "processes_per_node": each,
        },
        "checkpoints": {"every_steps": draw.choice((100, 250, 500))},
    }


def _parallelism(draw: Random, grid: Grid) -> Spec:
    """The layout, with stages that are uneven now and then."""
    found: Spec = {
        "tp_size": grid.tp,
        "pp_size": grid.pp,
        "vp_size": grid.vp,
        "cp_size": grid.cp,
        "ep_size": 1,
        "etp_size": 1,
        "sequence_parallel": grid.tp > 1 and draw.random() < 0.7,
        "sharding": draw.choice(("none", "optimizer", "optimizer", "optimizer", "fsdp")),
        "recompute": draw.choice(("none", "selective", "full")),
    }
    if found["recompute"] == "selective" and draw.random() < 0.5:
        found["recompute_modules"] = ["core_attn"]
    if grid.pp > 2 and grid.vp == 1 and draw.random() < 0.3:
        found["first_stage_layers"] = draw.choice((1, 2, 3))
        found["last_stage_layers"] = draw.choice((1, 2, 3))
    elif grid.pp > 1 and draw.random() < 0.2:
        found["embedding_as_layer"] = True
        found["loss_as_layer"] = draw.random() < 0.5
    return found


def _dimensions(draw: Random, grid: Grid, parallelism: Spec) -> Spec:
    head_dim, heads = draw.choice((64, 128)), grid.tp * draw.choice((2, 4))
    family = draw.choice(("gpt", "llama", "llama"))
    found: Spec = {
        "family": family,
        "layers": _layers(draw, grid, parallelism),
        "hidden_size": heads * head_dim,
        "heads": heads,
        "kv_heads": draw.choice((heads, grid.tp)) if family == "llama" else heads,
        "head_dim": head_dim,
        "ffn_hidden_size": grid.tp * draw.choice((512, 1024)),
        "vocab_size": draw.choice((32_000, 50_257, 128_256)),
        "max_positions": draw.choice((4096, 8192)),
    }
    if family == "llama" and draw.random() < 0.4:
        _add_experts(draw, grid, parallelism, found)
    return found


def _layers(draw: Random, grid: Grid, parallelism: Spec) -> int:
    per_chunk = draw.choice((1, 2, 3))
    if "first_stage_layers" in parallelism:
        ends = parallelism["first_stage_layers"] + parallelism["last_stage_layers"]
        return int(ends + (grid.pp - 2) * per_chunk)
    counted = parallelism.get("embedding_as_layer", False) + parallelism.get("loss_as_layer", False)
    # A chunk keeps a layer of its own beside what is counted as one.
    return int(grid.pp * grid.vp * (per_chunk + (counted > 0)) - counted)


def _add_experts(draw: Random, grid: Grid, parallelism: Spec, dimensions: Spec) -> None:
    """Experts that divide over the ranks of a stage, and what they ask of the layout."""
    ranks = grid.tp * grid.cp * grid.dp
    etp = draw.choice((1, 1, grid.tp))
    ep = draw.choice([size for size in (1, 2, 4, 8) if ranks % (size * etp) == 0] or [1])
    etp = etp if ranks % (ep * etp) == 0 else 1
    experts = ep * draw.choice((2, 4))
    parallelism |= {"ep_size": ep, "etp_size": etp, "sequence_parallel": grid.tp > 1}
    dimensions["moe"] = {
        "experts": experts,
        "top_k": draw.choice((1, 2)),
        "expert_ffn_hidden_size": etp * draw.choice((256, 512)),
        "shared_expert_ffn_hidden_size": draw.choice((0, grid.tp * 256)),
        "dense_layers": draw.choice((0, 0, 1)) if dimensions["layers"] > 1 else 0,
    }


def _add_newer_parts(draw: Random, grid: Grid, parallelism: Spec, dimensions: Spec) -> None:
    """Latent attention or a window, another activation, prediction of more tokens, routing."""
    if dimensions["family"] == "gpt":
        dimensions["activation"] = draw.choice(("gelu", "squared-relu"))
        return
    if draw.random() < 0.4:
        del dimensions["head_dim"]
        dimensions["kv_heads"] = dimensions["heads"]
        latent = {"kv_rank": 128, "qk_head_dim": 64, "rope_head_dim": 32, "value_head_dim": 64}
        dimensions["latent_attention"] = latent | draw.choice(({}, {"q_rank": 192}))
        parallelism["sequence_parallel"] = grid.tp > 1
    else:
        dimensions["rotary_fraction"] = draw.choice((1.0, 0.5))
        dimensions["qk_norm"] = draw.random() < 0.5
        if draw.random() < 0.5:
            dimensions["window"] = {"tokens": 256, "full_every": draw.choice((None, 2))}
            dimensions["attention_sinks"] = grid.cp == 1
    dimensions["activation"] = draw.choice(("swiglu", "squared-relu"))
    dimensions["mtp_layers"] = draw.choice((0, 0, 1, 2))
    moe = dimensions.get("moe")
    if moe is not None and draw.random() < 0.6:
        moe |= {"score": "sigmoid", "expert_bias": draw.random() < 0.5, "scaling_factor": 2.5}
        if moe["experts"] % 4 == 0 and moe["top_k"] == 2:
            moe |= {"groups": 2, "groups_per_token": 1}
    if moe is not None and dimensions["layers"] - moe["dense_layers"] > 1:
        moe["layer_interval"] = draw.choice((1, 2))


def _add_custom_layout(draw: Random, grid: Grid, parallelism: Spec, dimensions: Spec) -> None:
    """Stages of random sizes, none of whose ranks is empty, written with or without repetitions."""
    for field in STAGE_FIELDS:
        parallelism.pop(field, None)
    if draw.random() < 0.5:
        del parallelism["vp_size"]
    mtp = dimensions.get("mtp_layers", 0)
    # Multi-token prediction may come before the last stage, but not on the first rank.
    before = 2 if mtp and grid.pp > 2 and draw.random() < 0.5 else 1
    count = grid.pp * grid.vp
    layers = [0] * count
    for rank in range(1, grid.pp - 1):
        layers[rank] = 1
    for _ in range(dimensions["layers"] - sum(layers)):
        layers[draw.randrange(count - before + 1)] += 1
    stages = ["t" * number for number in layers]
    stages[0] = "E" + stages[0]
    stages[-before] += "m" * mtp
    stages[-1] += "L"
    if draw.random() < 0.5:
        stages = [re.sub("t{2,}", lambda run: f"t*{len(run[0])}", stage) for stage in stages]
    parallelism["pipeline_layout"] = draw.choice(("|", ",|", "|,")).join(stages)


def _training(draw: Random, grid: Grid, machine: Machine, dimensions: Spec) -> Spec:
    micro = draw.choice((1, 2, 4))
    batch = micro * grid.dp * draw.choice((1, 2, 4)) * (grid.pp if grid.vp > 1 else 1)
    steps, length = draw.choice((1000, 5000)), draw.choice((1024, 2048, 4096))
    lengths = (
        {"steps": steps},
        {"samples": steps * batch},
        {"tokens": steps * batch * length},
    )
    rate: Spec = {"peak": draw.choice((3e-4, 6e-4)), "warmup": {"fraction": 0.01}}
    rate["style"] = draw.choice(("cosine", "cosine", "linear", "constant", "wsd"))
    if rate["style"] == "wsd":
        rate["anneal"] = {"fraction": 0.1}
    return draw.choice(lengths) | {
        "sequence_length": min(length, dimensions["max_positions"]),
        "micro_batch_size": micro,
        "global_batch_size": batch,
        "precision": draw.choice(machine.precisions),
        "learning_rate": rate,
        "evaluation": {"every_steps": 500, "batches": draw.choice((0, 10))},
    }
