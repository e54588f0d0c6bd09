# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which rows are fitted together, and which of their rates differ between them.

A group is one software stack on one generation of accelerators. Within it, a rate differs only by
what physics says it must: products by precision, attention by its kernel, experts by the release
that changed how they are computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

from backtest.fitting import FREEDOM, Fitted, Keys, Term, fit
from backtest.rows import Row, timed_rows
from seatrial.planning.timing.constants import GENERATIONS, generation, shape_of
from seatrial.planning.timing.rates import Rates
from seatrial.spec.training import Precision

SMALL = 30
"""A source with fewer rows starts from what all others say, not from the defaults."""
SMALL_FREEDOM = 0.3
"""How far a small source may go from there."""
POOL_ROUNDS = 25
"""Rounds of the fit to all sources, which has many variants and gains little in later rounds."""
POOLED = 40
"""Rows of a source, spread evenly, that stand for it where all sources are fitted together."""
FUSED_EXPERTS = (26, 6)
"""Release (Megatron-Bridge) from which narrow formats have fused expert kernels and whole-step
CUDA graphs: cutedsl_fused_grouped_mlp, cuda_graph_impl full_iteration in its perf recipes."""
BRIDGE = (25, 9)
"""Release with which Megatron-Bridge replaced NeMo's own recipes."""


@dataclass(frozen=True, slots=True)
class Group:
    stack: str
    """The software, under the name that the constants have."""
    rows: Callable[[Row], bool]
    keys: Keys = field(default_factory=dict)
    scored: Callable[[Row], bool] | None = None
    """Which of its rows it predicts; all, unless it says so."""

    def predicts(self, row: Row) -> bool:
        """Whether the group's constants are those for the row."""
        return (self.scored or self.rows)(row)


def generation_of(row: Row) -> str:
    return GENERATIONS[generation(row.workload.hardware.accelerator)]


def precision_of(row: Row) -> str:
    return f"{generation_of(row)}/{row.workload.precision}"


def kernel_of(row: Row) -> str:
    return row.kernel


def layer_shape(row: Row) -> str:
    """The shape of a layer, for the source that ran layers of one shape in models of many sizes."""
    return shape_of(row.workload)


def expert_release(row: Row) -> str:
    numbers = row.release.lstrip("v").split(".")[:2]
    if len(numbers) < 2:
        return "development branch"
    release = (int(numbers[0]), int(numbers[1]))
    if release < BRIDGE:
        return "before Megatron-Bridge"
    narrow = row.workload.precision in (Precision.MXFP8, Precision.NVFP4)
    return "fused" if release >= FUSED_EXPERTS and narrow else "Megatron-Bridge"


def source_is(name: str) -> Callable[[Row], bool]:
    return lambda row: row.source == name


def is_nemo(row: Row) -> bool:
    """Whether a row is of NVIDIA's own stack; MaxText, which a source of it also runs, is not."""
    return row.group == "nemo" and "MaxText" not in row.notes


def nemo_dense(name: str) -> Callable[[Row], bool]:
    """Whether a row is of a dense model with NVIDIA's own stack on a generation."""
    return lambda row: is_nemo(row) and not row.moe and generation_of(row) == name


GROUPS = (
    Group("megatron-deepspeed-one-node", source_is("vTrain single-node"), {"layer": layer_shape}),
    Group("megatron-deepspeed", source_is("vTrain multi-node")),
    Group("megatron-deepspeed-bloom", source_is("BigScience BLOOM tr11")),
    Group("megatron-lm-2021", source_is("Megatron-LM SC21 Table 1")),
    Group("megatron-lm-2022", source_is("Korthikanti 2205.05198 Table 5")),
    Group(
        "aleph-alpha-scaling",
        source_is("AlephAlpha parallel layouts"),
        {"attention": kernel_of, "elementwise": kernel_of},
    ),
    Group(
        "llm-foundry",
        source_is("llm-foundry"),
        {"matrix": precision_of, "attention": generation_of, "data_network": generation_of},
    ),
    Group("megatron-core", nemo_dense("hopper"), {"matrix": precision_of}),
    Group("megatron-core", nemo_dense("blackwell"), {"matrix": precision_of}),
    Group(
        "megatron-core",
        is_nemo,
        {
            "matrix": precision_of,
            "attention": generation_of,
            "matrix_memory": generation_of,
            "launch": generation_of,
            "tensor_link": generation_of,
            "data_network": generation_of,
            "expert_matrix": expert_release,
            "expert_launch": expert_release,
            "expert_network": expert_release,
            "moe_launch": expert_release,
            "routing": expert_release,
        },
        scored=lambda row: is_nemo(row) and row.moe,
    ),
    Group("maxtext", lambda row: "MaxText" in row.source or "MaxText" in row.notes),
    Group("internevo", source_is("InternEvo")),
    Group("nanotron", source_is("nanotron ultrascale")),
    Group("torchtitan", source_is("torchtitan")),
    Group("fms-fsdp", source_is("IBM fms-fsdp")),
    Group("nemo-automodel", source_is("NeMo AutoModel")),
    Group("megatron-bridge-skills", source_is("Megatron-Bridge skills")),
    Group("parallelism-notes", source_is("parallelism notes GPT2-large H200")),
)


def pooled(rows: Sequence[Row]) -> list[Row]:
    """Rows of all sources, none with more than `POOLED`."""
    found: list[Row] = []
    for source in dict.fromkeys(row.source for row in rows):
        own = [row for row in rows if row.source == source]
        stride = max(1.0, len(own) / POOLED)
        found += [own[int(place * stride)] for place in range(min(len(own), POOLED))]
    return found


def attention_kind(row: Row) -> str:
    return f"{generation_of(row)}/{row.workload.flash_attention}"


def source_of(row: Row) -> str:
    return row.source


POOL_KEYS: Keys = {
    "matrix": source_of,
    "elementwise": source_of,
    "loss": source_of,
    "launch": source_of,
    "tensor_link": source_of,
    "data_network": source_of,
    "data_overlap": source_of,
    "attention": attention_kind,
    "matrix_memory": generation_of,
    "expert_matrix": expert_release,
    "expert_launch": expert_release,
    "moe_launch": expert_release,
    "routing": expert_release,
}
"""What differs between all sources; one that was never seen has none of its own."""


@cache
def fit_pool(without: frozenset[str]) -> Fitted:
    rows = [row for row in timed_rows() if row.source not in without]
    return fit(pooled(rows), POOL_KEYS, Rates(), rounds=POOL_ROUNDS)


@dataclass(frozen=True, slots=True)
class Start:
    rates: Rates
    freedom: float


def start_of(rows: Sequence[Row]) -> Start:
    """Where the fit of a group with these rows begins: no row of its sources has a say in it."""
    if len(rows) >= SMALL and len({row.fold for row in rows}) > 1:
        return Start(Rates(), FREEDOM)
    return Start(fit_pool(frozenset(row.source for row in rows)).of(rows[0]), SMALL_FREEDOM)


def fit_group(
    group: Group, rows: Sequence[Row], start: Start, terms: Sequence[Term] = ()
) -> Fitted:
    """A group's rates, fitted to rows of it; where there are none, those it starts from."""
    if not rows:
        return Fitted(start.rates, {}, {})
    return fit(rows, group.keys, start.rates, freedom=start.freedom, terms=terms)
