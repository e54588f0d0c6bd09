# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A plan's twin: a scaled-down copy that trains on CPU and runs the same code paths.

Each parallel degree greater than 1 becomes 2. If the degrees together need more than 8 processes,
some of them go into a second twin. Sizes shrink, but keep their relations (which divides which,
which is larger).
"""

from dataclasses import dataclass
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.dataprep.output.tokenizer_copy import TokenizerCopy
from seatrial.engines.engine import DataFormat
from seatrial.engines.registry import ENGINES
from seatrial.planning.layout import Axis, Layout
from seatrial.planning.plan import Plan
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.model import Architecture
from seatrial.spec.model_parts import (
    AttentionWindow,
    LatentAttention,
    MixtureOfExperts,
    RopeScalingKind,
)
from seatrial.spec.pipeline_layout import (
    EMBEDDING,
    LAYER,
    LOSS,
    PREDICTION,
    PipelineLayout,
    parse_layout,
)
from seatrial.spec.run import RunSpec
from seatrial.spec.training import Precision
from seatrial.spec.tree import Node

MAX_PROCESSES = 8
"""Maximum number of processes in a rehearsal."""
STEPS = 20
SAVE_AT = 10
"""The step at which a drill saves and from which it resumes."""
SEQUENCE = 64
PEAK_LEARNING_RATE = 1e-3
"""Large enough to change the loss within twenty steps."""
MOCK_VOCABULARY = 997
"""A prime number, so that padding is exercised."""
QK_HEAD, ROPE_HEAD = 16, 8
"""The sizes of a head's query and key in latent attention."""
LONGEST_PERIOD = 8
"""Maximum number of layers after which a pattern of layers repeats."""


def degrees_of(layout: Layout) -> dict[str, int]:
    """Return the degrees that identify a twin: tp, pp, cp and dp."""
    return {axis.value: layout.size(axis) for axis in (Axis.TP, Axis.PP, Axis.CP, Axis.DP)}


def degree_words(layout: Layout) -> str:
    """Format the degrees above 1, such as `tp 2 · dp 2`."""
    above = (f"{name} {size}" for name, size in degrees_of(layout).items() if size > 1)
    return " · ".join(above) or "one rank"


@dataclass(frozen=True, slots=True)
class TwinData:
    """The data that a plan's twins read."""

    files: tuple[str, ...] = ()
    """The spec's data, without `.bin` and `.idx`; empty for the engine's mock data."""
    tokenizer_trouble: str = ""
    """Why the tokenizer cannot be loaded. If set, the twin uses a NullTokenizer."""
    copy: TokenizerCopy | None = None
    """The data set's copy of the tokenizer, if it has one."""

    @property
    def real(self) -> bool:
        """True if the twin reads the spec's data."""
        return bool(self.files)

    @property
    def null_tokenizer(self) -> bool:
        """True if a NullTokenizer replaces the real tokenizer."""
        return not self.real or bool(self.tokenizer_trouble)


@dataclass(frozen=True, slots=True)
class Twin:
    """A scaled-down copy of a plan."""

    plan: Plan
    data: TwinData
    replaced: tuple[str, ...]
    """Differences from the plan other than sizes, as text."""

    @property
    def layout_words(self) -> str:
        """Format the whole layout, such as `tp 2 · dp 2 · ep 2, sequence parallel`."""
        small = self.plan.layout
        chunks = [f"vp {small.vp_size}"] * (small.vp_size > 1)
        experts = [f"ep {small.ep_size}"] * (small.ep_size > 1)
        split = ", sequence parallel" if self.plan.sequence_parallel else ""
        return " · ".join([degree_words(small), *chunks, *experts]) + split


def twin_layouts(plan: Plan) -> list[Layout]:
    """Return layouts that together cover every degree greater than 1 in the plan."""
    wanted = [name for name, size in degrees_of(plan.layout).items() if size > 1]
    if len(wanted) <= 3:
        return [Layout(**{f"{name}_size": 2 for name in wanted})]
    # All four degrees are used: one twin has pipeline, the other context parallelism.
    return [Layout(tp_size=2, dp_size=2, pp_size=2), Layout(tp_size=2, cp_size=2, dp_size=2)]


def twins(loaded: LoadedSpec, plan: Plan, catalog: Catalog, data: TwinData) -> list[Twin]:
    return [_twin(loaded, plan, layout, catalog, data) for layout in twin_layouts(plan)]


def _replaced(plan: Plan, data: TwinData) -> tuple[str, ...]:
    """List the differences from the plan other than sizes."""
    found = []
    precision, small = plan.spec.training.precision, _precision(plan)
    if small is not precision:
        found.append(f"precision {precision} runs as {small}")
    if plan.model.tokenizer and data.null_tokenizer:
        why = f" because it cannot be loaded ({data.tokenizer_trouble})"
        reason = why if data.tokenizer_trouble else ""
        found.append(f"a NullTokenizer replaces tokenizer {plan.model.tokenizer}{reason}")
    for field in ("initial_weights", "continue_from"):
        if getattr(plan.spec, field) is not None:
            found.append(f"{field} is ignored: the twin starts from random weights")
    if plan.layout.etp_size > 1:
        # gloo rejects the uneven sizes that experts exchange with etp.
        found.append(f"etp {plan.layout.etp_size} runs as etp 1")
    if any(stage.mtp for stage in plan.stages[:-1]):
        found.append("multi-token prediction runs in the last stage, not in one before it")
    return tuple(found)


def _small_data(plan: Plan, data: TwinData) -> dict[str, Any]:
    """Return the spec's data if it is available, otherwise mock data."""
    if not data.real:
        return {"mock": True, "sources": None}
    if ENGINES[plan.spec.engine.name].data_format is DataFormat.INDEXED:
        return {"location": plan.data_location}
    # Directory names contain the sample length. The twin reads the start of each sample.
    pairs = zip(data.files, plan.spec.data.sources or (), strict=True)
    return {"sources": [{"prepared": place, "weight": s.weight} for place, s in pairs]}


def _precision(plan: Plan) -> Precision:
    """Return the precision that the engine uses on CPU."""
    return ENGINES[plan.spec.engine.name].cpu_precision(plan.spec.training.precision)


def _twin(loaded: LoadedSpec, plan: Plan, small: Layout, catalog: Catalog, data: TwinData) -> Twin:
    """Make one twin: a small spec that is resolved with the same rules as the plan."""
    spec = plan.spec.model_dump(mode="json", by_alias=True)
    spec["model"] = {"dimensions": _small_model(plan, small, data).model_dump(mode="json")}
    spec["initial_weights"] = spec["continue_from"] = None
    spec["data"]["tokenizer"] = plan.model.tokenizer or None
    spec["data"] |= _small_data(plan, data)
    spec["training"] |= _small_training(plan, small)
    spec["training"]["precision"] = _precision(plan)
    spec["parallelism"] |= _small_parallelism(plan, small)
    processes = small.world_size
    spec["cluster"] = {"profile": "local", "accelerator": "none", "processes_per_node": processes}
    spec["checkpoints"] |= {"every_steps": SAVE_AT, "keep_every_steps": None, "location": None}
    spec["checkpoints"] |= {"every_minutes": None, "every_hours": None}
    spec["monitoring"] = {"log_every_steps": 1, "tensorboard": plan.spec.monitoring.tensorboard}
    shrunk = LoadedSpec(RunSpec.model_validate(spec), Node({}, loaded.root.file))
    twin = plan_run(resolve_basis(shrunk, catalog)).plan
    return Twin(twin, data, _replaced(plan, data))


def _small_model(plan: Plan, small: Layout, data: TwinData) -> Architecture:
    """Return a small model whose dimensions have the same relations as the original model's."""
    model = plan.model.architecture
    heads, head_dim = 4, 16
    hidden = heads * head_dim
    if model.heads * model.head_dim != model.hidden_size:
        head_dim = 32
    grouped = model.kv_heads < model.heads
    # With fewer key/value heads than tp ranks, ranks share a head.
    shares = model.kv_heads < plan.layout.tp_size
    kv_heads = (1 if shares else 2) if grouped else heads
    if model.latent_attention is not None:
        kv_heads, head_dim = heads, QK_HEAD + ROPE_HEAD
    elif model.attention_sinks and small.cp_size > 1:
        # Context-parallel ranks then split the key/value heads of a tensor-parallel rank.
        kv_heads = heads
    longer = model.max_positions > plan.model.sequence_length
    return model.replace(
        layers=_small_layers(plan, small),
        hidden_size=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn_hidden_size=hidden * 2 if model.activation.gated else hidden * 4,
        vocab_size=model.vocab_size if data.real else MOCK_VOCABULARY,
        max_positions=2 * SEQUENCE if longer else SEQUENCE,
        moe=_small_experts(model.moe),
        mtp_layers=_small_mtp(model),
        no_rope_every=_small_period(model.no_rope_every),
        window=_small_window(model.window),
        latent_attention=_small_latent(model.latent_attention),
        rope_scaling=_small_scaling(model),
    )


def _small_period(every: int | None) -> int | None:
    return None if every is None else min(every, LONGEST_PERIOD)


def _small_window(window: AttentionWindow | None) -> dict[str, Any] | None:
    """Return a window shorter than the twin's sequences, so that it matters."""
    if window is None:
        return None
    return {"tokens": SEQUENCE // 4, "full_every": _small_period(window.full_every)}


def _small_latent(latent: LatentAttention | None) -> dict[str, Any] | None:
    """Return small ranks. Values stay as wide as keys without their rotary part, or narrower."""
    if latent is None:
        return None
    narrower = latent.value_head_dim != latent.qk_head_dim
    return {
        "kv_rank": 24,
        "q_rank": None if latent.q_rank is None else 32,
        "qk_head_dim": QK_HEAD,
        "rope_head_dim": ROPE_HEAD,
        "value_head_dim": QK_HEAD - 4 if narrower else QK_HEAD,
    }


def _small_scaling(model: Architecture) -> dict[str, Any] | None:
    """Return the scaling of rotary frequencies, for sequences longer than the original ones.

    Megatron has a fixed length for llama3. That scaling matters at any length, because some
    frequencies are low enough.
    """
    scaling = model.rope_scaling
    if scaling is None:
        return None
    kept = scaling.model_dump(mode="json")
    if scaling.kind is RopeScalingKind.YARN:
        kept["original_positions"] = SEQUENCE // 2
    return kept


def _small_layers(plan: Plan, small: Layout) -> int:
    """Return two layers per stage or chunk, minus embedding or loss if they count as layers.

    There are more if a pattern of layers needs them.
    """
    spec, vp = plan.spec.parallelism, _small_chunks(plan, small)
    custom = _small_custom_layout(plan, small)
    if custom is not None:
        return parse_layout(custom).layers
    counted = spec.embedding_as_layer + spec.loss_as_layer
    layers = max(2 * small.pp_size, small.pp_size * vp)
    if counted and small.pp_size > 1:
        layers = 2 * small.pp_size * vp - counted
    while not _has_patterns(plan.model.architecture, layers):
        layers += small.pp_size * vp
    return layers


def _small_custom_layout(plan: Plan, small: Layout) -> str | None:
    """Return a custom layout of two stages, or of two with two chunks; None without stages.

    The first and the last stage have no layers if they have none in the plan. Where the plan has
    more layers, the twin has more too.
    """
    text = plan.spec.parallelism.pipeline_layout
    if text is None or small.pp_size == 1:
        return None
    first, *middle, last = (stage.count(LAYER) for stage in parse_layout(text).stages)
    counts = [first, last]
    if _small_chunks(plan, small) > 1:
        counts = [first, max(middle), min(middle), last]
    sizes = sorted(set(counts) - {0})
    layers = [sizes.index(count) + 1 if count else 0 for count in counts]
    largest = layers.index(max(layers))
    while sum(layers) < 2 or not _has_patterns(plan.model.architecture, sum(layers)):
        layers[largest] += 1
    stages = [LAYER * count for count in layers]
    stages[0] = EMBEDDING + stages[0]
    stages[-1] += PREDICTION * _small_mtp(plan.model.architecture) + LOSS
    return str(PipelineLayout(tuple(stages)))


def _small_mtp(model: Architecture) -> int:
    return min(model.mtp_layers, 2)


def _has_patterns(model: Architecture, layers: int) -> bool:
    """True if each pattern of layers occurs, and both halves of the layers have experts.

    The reshard drill splits a mixture of experts into two stages, each with experts.
    """
    window = model.window.full_every if model.window else None
    periods = (_small_period(every) or 1 for every in (window, model.no_rope_every))
    if layers < max(periods):
        return False
    moe = _small_experts(model.moe)
    if moe is None:
        return True
    has_experts = list(map(MixtureOfExperts.model_validate(moe).has_experts, range(layers)))
    half = layers // 2
    return half > 1 and any(has_experts[:half]) and any(has_experts[half:])


def _small_chunks(plan: Plan, small: Layout) -> int:
    """Return two chunks per stage if the run has more than one chunk per stage."""
    return 2 if plan.layout.vp_size > 1 and small.pp_size > 1 else 1


def _small_experts(moe: MixtureOfExperts | None) -> dict[str, Any] | None:
    """Return a few small experts, with groups, dense layers and a shared expert as the model."""
    if moe is None:
        return None
    small = moe.model_dump(mode="json") | {
        "experts": 4,
        "top_k": min(2, moe.top_k),
        "expert_ffn_hidden_size": 64,
        "shared_expert_ffn_hidden_size": 64 if moe.shared_expert_ffn_hidden_size else 0,
        "dense_layers": 1 if moe.dense_layers else 0,
    }
    if moe.layer_interval > 1:
        small["layer_interval"] = _small_period(moe.layer_interval)
    if moe.groups is not None and moe.groups_per_token is not None:
        # Groups of four experts, and as many experts of each chosen group as in the model.
        chosen = min(2, moe.groups_per_token)
        groups = 2 * chosen if moe.groups > moe.groups_per_token else chosen
        each = min(4, max(1, moe.top_k // moe.groups_per_token))
        small |= {"experts": 4 * groups, "groups": groups, "groups_per_token": chosen}
        small["top_k"] = chosen * each
    return small


def _small_training(plan: Plan, small: Layout) -> dict[str, Any]:
    """Return twenty steps with a small batch that include every phase of the schedule."""
    training = plan.spec.training
    micro = min(2, plan.batch.micro_batch_size)
    micro_batches = 2 * small.pp_size if plan.batch.micro_batches > 1 else 1
    beyond = plan.schedule.decay_samples > plan.length.samples
    rate = training.learning_rate.model_dump(mode="json") | {
        "peak": PEAK_LEARNING_RATE,
        "minimum": PEAK_LEARNING_RATE / 10 if plan.schedule.minimum else 0.0,
        "warmup": {"steps": 2} if plan.schedule.warmup_samples else {"fraction": 0.0},
        "decay": {"steps": 10 * STEPS if beyond else STEPS},
        "anneal": {"steps": 5} if plan.schedule.anneal_samples else None,
    }
    batch, schedule = micro * small.dp_size * micro_batches, []
    if training.batch_schedule:
        # The resumed run continues with a larger batch.
        tokens = SAVE_AT * batch * SEQUENCE
        schedule, batch = [{"global_batch_size": batch, "until_tokens": tokens}], 2 * batch
    return {
        "steps": STEPS,
        "samples": None,
        "tokens": None,
        "sequence_length": SEQUENCE,
        "micro_batch_size": micro,
        "global_batch_size": batch,
        "batch_schedule": schedule,
        "learning_rate": rate,
        "evaluation": {
            "every_steps": SAVE_AT,
            "batches": min(2, training.evaluation.batches),
        },
    }


def _small_parallelism(plan: Plan, small: Layout) -> dict[str, Any]:
    """Return the small layout. Uneven stages stay uneven."""
    spec = plan.spec.parallelism
    vp = _small_chunks(plan, small)
    ranks = small.tp_size * small.cp_size * small.dp_size
    fields: dict[str, Any] = {
        "tp_size": small.tp_size,
        "pp_size": small.pp_size,
        "vp_size": vp,
        "cp_size": small.cp_size,
        "ep_size": 2 if plan.layout.ep_size > 1 and ranks > 1 else 1,
        "etp_size": 1,
        # Use the planner's choices for the run instead of planning again for the twin.
        "sharding": plan.sharding,
        "recompute": plan.recompute,
        "sequence_parallel": plan.sequence_parallel and small.tp_size > 1,
        "first_stage_layers": None,
        "last_stage_layers": None,
        "embedding_as_layer": spec.embedding_as_layer and small.pp_size > 1,
        "loss_as_layer": spec.loss_as_layer and small.pp_size > 1,
        "pipeline_layout": _small_custom_layout(plan, small),
    }
    uneven = spec.first_stage_layers is not None or spec.last_stage_layers is not None
    if uneven and small.pp_size > 1:
        last = _small_layers(plan, small) - vp
        fields |= {"first_stage_layers": vp, "last_stage_layers": last}
    return fields
