# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The shrunk twin of a plan: small enough for a CPU, the same in everything that shapes the code.

Each parallel degree above 1 becomes 2. What does not fit together into 8 processes goes into a
second twin. Sizes shrink; the relations between them (which divides which, which is larger) stay.
"""

from dataclasses import dataclass
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.engines.engine import DataFormat
from seatrial.engines.registry import ENGINES
from seatrial.planning.plan import Plan
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.model import Activation, Architecture, MixtureOfExperts
from seatrial.spec.run import RunSpec
from seatrial.spec.training import Precision
from seatrial.spec.tree import Node

MAX_PROCESSES = 8
"""Processes that a rehearsal starts at most."""
STEPS = 20
"""Steps of a drill."""
SAVE_AT = 10
"""The step at which a drill saves, and from which it resumes."""
SEQUENCE = 64
PEAK_LEARNING_RATE = 1e-3
"""Large enough that twenty steps move the loss."""
MOCK_VOCABULARY = 997
"""Not a multiple of anything, so that padding is exercised."""


@dataclass(frozen=True, slots=True)
class TwinDegrees:
    """The parallel degrees of a twin."""

    tp: int = 1
    """Tensor parallel."""
    pp: int = 1
    """Pipeline stages."""
    cp: int = 1
    """Context parallel."""
    dp: int = 1
    """Data parallel."""

    @property
    def processes(self) -> int:
        """Processes that it takes."""
        return self.tp * self.pp * self.cp * self.dp

    def __str__(self) -> str:
        """`tp 2 · dp 2`: the degrees above 1."""
        parts = [
            f"{n} {getattr(self, n)}" for n in ("tp", "pp", "cp", "dp") if getattr(self, n) > 1
        ]
        return " · ".join(parts) or "one rank"


@dataclass(frozen=True, slots=True)
class TwinData:
    """What the twins of a plan read."""

    files: tuple[str, ...] = ()
    """The spec's own data, without `.bin` and `.idx`; none for the engine's mock data."""
    tokenizer_trouble: str = ""
    """Why the tokenizer of real data cannot be loaded; a NullTokenizer takes its place then."""

    @property
    def real(self) -> bool:
        """Whether the spec's own data are read."""
        return bool(self.files)

    @property
    def null_tokenizer(self) -> bool:
        """Whether a NullTokenizer stands for the real one."""
        return not self.real or bool(self.tokenizer_trouble)


@dataclass(frozen=True, slots=True)
class Twin:
    """A shrunk copy of a plan."""

    plan: Plan
    degrees: TwinDegrees
    data: TwinData
    replaced: tuple[str, ...]
    """What differs from the plan in kind, not only in size, in words."""

    @property
    def layout(self) -> str:
        """`tp 2 · dp 2 · ep 2, sequence parallel`: its whole layout, in words."""
        small = self.plan.layout
        chunks = [f"vp {small.vp_size}"] * (small.vp_size > 1)
        experts = [f"ep {small.ep_size}"] * (small.ep_size > 1)
        split = ", sequence parallel" if self.plan.sequence_parallel else ""
        return " · ".join([str(self.degrees), *chunks, *experts]) + split


def twin_degrees(plan: Plan) -> list[TwinDegrees]:
    """The degrees of the twins that together have every degree of the plan that is above 1."""
    layout = plan.layout
    above = {"tp": layout.tp_size, "pp": layout.pp_size, "cp": layout.cp_size, "dp": layout.dp_size}
    wanted = [name for name, size in above.items() if size > 1]
    if len(wanted) <= 3:
        return [TwinDegrees(**dict.fromkeys(wanted, 2))]
    # All four: the pipeline with the data-parallel ranks, and the context with both that cut it.
    return [TwinDegrees(tp=2, pp=2, dp=2), TwinDegrees(tp=2, cp=2, dp=2)]


def twins(loaded: LoadedSpec, plan: Plan, catalog: Catalog, data: TwinData) -> list[Twin]:
    """The twins of a plan."""
    return [_twin(loaded, plan, degrees, catalog, data) for degrees in twin_degrees(plan)]


def _replaced(plan: Plan, data: TwinData) -> tuple[str, ...]:
    """What differs from the plan in kind, in words."""
    found = []
    precision, small = plan.spec.training.precision, _precision(plan)
    if small is not precision:
        found.append(f"precision {precision} runs as {small}")
    if plan.model.tokenizer and data.null_tokenizer:
        why = f" of the same size, as it cannot be loaded ({data.tokenizer_trouble})"
        size = why if data.tokenizer_trouble else ""
        found.append(f"tokenizer {plan.model.tokenizer} is a NullTokenizer{size}")
    for field in ("initial_weights", "continue_from"):
        if getattr(plan.spec, field) is not None:
            found.append(f"{field} is left out: the twin starts from fresh weights")
    if plan.layout.etp_size > 1:
        # gloo refuses the uneven sizes that experts cut by etp exchange.
        found.append(f"etp {plan.layout.etp_size} runs as etp 1")
    return tuple(found)


def _small_data(plan: Plan, data: TwinData) -> dict[str, Any]:
    """The spec's own data where they are, or made-up ones."""
    if not data.real:
        return {"mock": True, "sources": None}
    if ENGINES[plan.spec.engine.name].data_format is DataFormat.INDEXED:
        return {"location": plan.data_location}
    # Samples lie in a directory of their length, and the twin's are the beginnings of those.
    pairs = zip(data.files, plan.spec.data.sources or (), strict=True)
    return {"sources": [{"prepared": place, "weight": s.weight} for place, s in pairs]}


def _precision(plan: Plan) -> Precision:
    """The number format that the engine computes in on a CPU."""
    return ENGINES[plan.spec.engine.name].cpu_precision(plan.spec.training.precision)


def _twin(
    loaded: LoadedSpec, plan: Plan, degrees: TwinDegrees, catalog: Catalog, data: TwinData
) -> Twin:
    """One twin: a small spec, resolved by the same rules as the plan."""
    spec = plan.spec.model_dump(mode="json", by_alias=True)
    spec["model"] = {"dimensions": _small_model(plan, degrees, data).model_dump(mode="json")}
    spec["initial_weights"] = spec["continue_from"] = None
    spec["data"]["tokenizer"] = plan.model.tokenizer or None
    spec["data"] |= _small_data(plan, data)
    spec["training"] |= _small_training(plan, degrees)
    spec["training"]["precision"] = _precision(plan)
    spec["parallelism"] |= _small_parallelism(plan, degrees)
    spec["cluster"] = {"profile": "local", "processes_per_node": degrees.processes}
    spec["checkpoints"] |= {"every_steps": SAVE_AT, "keep_every_steps": None, "location": None}
    spec["monitoring"] = {"log_every_steps": 1, "tensorboard": plan.spec.monitoring.tensorboard}
    small = LoadedSpec(RunSpec.model_validate(spec), Node({}, loaded.root.file))
    twin = plan_run(resolve_basis(small, catalog)).plan
    return Twin(twin, degrees, data, _replaced(plan, data))


def _small_model(plan: Plan, degrees: TwinDegrees, data: TwinData) -> Architecture:
    """The model with small dimensions that relate to each other as the large ones do."""
    model = plan.model.architecture
    heads, head_dim = 4, 16
    hidden = heads * head_dim
    if model.heads * model.head_dim != model.hidden_size:
        head_dim = 32
    grouped = model.kv_heads < model.heads
    # Fewer key heads than tp ranks means that ranks share one.
    shares = model.kv_heads < plan.layout.tp_size
    kv_heads = (1 if shares else 2) if grouped else heads
    swiglu = model.activation is Activation.SWIGLU
    longer = model.max_positions > plan.model.sequence_length
    return model.replace(
        layers=_small_layers(plan, degrees),
        hidden_size=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn_hidden_size=hidden * 2 if swiglu else hidden * 4,
        vocab_size=model.vocab_size if data.real else MOCK_VOCABULARY,
        max_positions=2 * SEQUENCE if longer else SEQUENCE,
        moe=_small_experts(model.moe),
    )


def _small_layers(plan: Plan, degrees: TwinDegrees) -> int:
    """Two layers a stage, or a chunk, whose embedding or loss counts as one of them."""
    spec, vp = plan.spec.parallelism, _small_chunks(plan, degrees)
    counted = spec.embedding_as_layer + spec.loss_as_layer
    if counted and degrees.pp > 1:
        return 2 * degrees.pp * vp - counted
    # A mixture of experts is cut into two stages by a drill, each with experts.
    return max(2 * degrees.pp, degrees.pp * vp, 4 if plan.model.architecture.moe else 0)


def _small_chunks(plan: Plan, degrees: TwinDegrees) -> int:
    """Two chunks a stage where the run has several."""
    return 2 if plan.layout.vp_size > 1 and degrees.pp > 1 else 1


def _small_experts(moe: MixtureOfExperts | None) -> dict[str, Any] | None:
    """A few small experts; leading dense layers and a shared expert stay if there are any."""
    if moe is None:
        return None
    return {
        "experts": 4,
        "top_k": min(2, moe.top_k),
        "expert_ffn_hidden_size": 64,
        "shared_expert_ffn_hidden_size": 64 if moe.shared_expert_ffn_hidden_size else 0,
        "dense_layers": 1 if moe.dense_layers else 0,
        "aux_loss_coefficient": moe.aux_loss_coefficient,
    }


def _small_training(plan: Plan, degrees: TwinDegrees) -> dict[str, Any]:
    """Twenty steps of a small batch, with the schedule's phases inside them."""
    training = plan.spec.training
    micro = min(2, plan.batch.micro_batch_size)
    micro_batches = 2 * degrees.pp if plan.batch.micro_batches > 1 else 1
    beyond = plan.schedule.decay_samples > plan.length.samples
    rate = training.learning_rate.model_dump(mode="json") | {
        "peak": PEAK_LEARNING_RATE,
        "minimum": PEAK_LEARNING_RATE / 10 if plan.schedule.minimum else 0.0,
        "warmup": {"steps": 2} if plan.schedule.warmup_samples else {"fraction": 0.0},
        "decay": {"steps": 10 * STEPS if beyond else STEPS},
        "anneal": {"steps": 5} if plan.schedule.anneal_samples else None,
    }
    return {
        "steps": STEPS,
        "samples": None,
        "tokens": None,
        "sequence_length": SEQUENCE,
        "micro_batch_size": micro,
        "global_batch_size": micro * degrees.dp * micro_batches,
        "learning_rate": rate,
        "evaluation": {
            "every_steps": SAVE_AT,
            "batches": min(2, training.evaluation.batches),
        },
    }


def _small_parallelism(plan: Plan, degrees: TwinDegrees) -> dict[str, Any]:
    """The degrees as numbers, and uneven stages that stay uneven."""
    layout, spec = plan.layout, plan.spec.parallelism
    vp = _small_chunks(plan, degrees)
    ranks = degrees.tp * degrees.cp * degrees.dp
    small: dict[str, Any] = {
        "tp_size": degrees.tp,
        "pp_size": degrees.pp,
        "vp_size": vp,
        "cp_size": degrees.cp,
        "ep_size": 2 if layout.ep_size > 1 and ranks > 1 else 1,
        "etp_size": 1,
        # What the planner chose for the run is not to be chosen again for the twin.
        "sharding": plan.sharding,
        "recompute": plan.recompute,
        "sequence_parallel": plan.sequence_parallel and degrees.tp > 1,
        "first_stage_layers": None,
        "last_stage_layers": None,
        "embedding_as_layer": spec.embedding_as_layer and degrees.pp > 1,
        "loss_as_layer": spec.loss_as_layer and degrees.pp > 1,
    }
    uneven = spec.first_stage_layers is not None or spec.last_stage_layers is not None
    if uneven and degrees.pp > 1:
        last = _small_layers(plan, degrees) - vp
        small |= {"first_stage_layers": vp, "last_stage_layers": last}
    return small
