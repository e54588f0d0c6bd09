# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Published rows with memory, as workloads of the planner.

Each source measured something else, so a row says what: live tensors of torch, or what the
process took of the device; the last pipeline stage, or the fullest.
"""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.planning.parameters import padded_vocab_size
from seatrial.planning.rank_layout import RankLayout
from seatrial.planning.stages import stages_of
from seatrial.planning.workload import Hardware, Workload
from seatrial.spec.architecture import Architecture
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.training import Precision

DATA = Path(__file__).parent / "data"
GIB = 1 << 30

Row = dict[str, str]


class Measured(StrEnum):
    """What a source's figure of memory is."""

    ALLOCATED = "allocated"
    """`torch.cuda.max_memory_allocated`."""
    RESERVED = "reserved"
    """`torch.cuda.max_memory_reserved`."""
    PROCESS = "process"
    """What `nvidia-smi` shows for the process."""


class Which(StrEnum):
    """On which pipeline stage."""

    LAST = "last"
    """The last one."""
    FULLEST = "fullest"
    """The one that needs most."""


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """A run whose memory was published."""

    id: str
    """Number of the published row."""
    label: str
    """What it was, for a person."""
    fold: int
    """Fold of its model size, from `split.csv`."""
    workload: Workload
    """The same run for the planner."""
    memory: float
    """The published figure, in bytes."""
    measured: Measured
    """What the figure is."""
    which: Which
    """Of which stage."""


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """A run that fitted or did not."""

    id: str
    """Number of the published row."""
    label: str
    """What it was, for a person."""
    fold: int
    """Fold of its model size, from `split.csv`."""
    workload: Workload
    """The same run for the planner."""
    fitted: bool
    """Whether it ran."""


@cache
def published() -> tuple[Row, ...]:
    """All published rows."""
    with (DATA / "published_runs.csv").open(newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def folds() -> dict[str, int]:
    """The fold of each row."""
    with (DATA / "split.csv").open(newline="") as file:
        return {row["id"]: int(row["fold"]) for row in csv.DictReader(file)}


def of_source(source: str) -> list[Row]:
    """The rows of one source."""
    return [row for row in published() if row["source"] == source]


def ran_out(row: Row) -> bool:
    """Whether the run did not fit."""
    return "OOM" in row["notes"].split("; ")


def measured_rows(
    rows: Iterable[Row], read: Callable[[Row], Workload], measured: Measured, which: Which
) -> list[MeasuredRow]:
    """The rows with a figure of memory, read by their source's own reader."""
    return [
        MeasuredRow(
            row["id"],
            label(row),
            folds()[row["id"]],
            read(row),
            float(row["measured_mem_gb"]) * GIB,
            measured,
            which,
        )
        for row in rows
        if row["measured_mem_gb"]
    ]


ACCELERATORS = {
    "A100": "a100-80gb",
    "A100-80GB": "a100-80gb",
    "H100-80GB": "h100-80gb",
    "H200": "h200-141gb",
    "GB200": "gb200",
}


@cache
def hardware(gpu: str) -> Hardware:
    """The GPU of a row; only its memory counts here."""
    facts = Catalog().accelerator(ACCELERATORS[gpu])
    return Hardware(
        accelerator=ACCELERATORS[gpu],
        memory_bytes=int(facts.usable_memory_gib * GIB),
        peak_flops=facts.peak_tflops.bf16 * 1e12,
        peak_flops_bf16=facts.peak_tflops.bf16 * 1e12,
        memory_bandwidth=facts.memory_bandwidth_gb_s * 1e9,
        link_bandwidth=facts.link_bandwidth_gb_s / 2 * 1e9,
        link_domain_gpus=8,
        gpus_per_node=8,
        network_bandwidth=25e9,
    )


@dataclass(frozen=True, slots=True)
class Setting:
    """What a source's reader knows about a row, before it becomes a workload."""

    row: Row
    """The published row."""
    model: Architecture
    """Its model."""
    sizes: list[int]
    """Layers of each stage."""
    dp_size: int
    """Data-parallel copies."""
    micro_batches: int
    """Micro batches of a step."""
    sharding: Sharding
    """What data-parallel ranks share."""
    recompute: Recompute
    """What is computed again."""
    precision: Precision
    """Number format."""
    stack: str
    """Whose constants hold."""
    vocab_multiple: int = 128
    """What the vocabulary is padded to, times tp."""
    gradient_bytes: int = 4
    """Bytes of an accumulated gradient."""
    flash_attention: bool = True
    """Whether scores are not kept."""
    hidden_dropout: bool = False
    """Whether masks are kept."""
    vp_size: int = 1
    """Chunks of a stage."""
    ep_size: int = 1
    """Ranks that share the experts."""
    etp_size: int = 1
    """Ranks that share one expert's matrices."""
    embedding_as_layer: bool = False
    """Whether the embedding counts in the first stage's layers."""
    loss_as_layer: bool = False
    """Whether the loss counts in the last stage's layers."""
    sequence_parallel: bool | None = None
    """Whether norms are split along the sequence; nothing: as the row says."""
    recompute_modules: frozenset[RecomputeModule] = frozenset()
    """What selective recomputing covers."""
    narrow_weights: bool = False
    """Whether no weights are kept in 16 bits."""


def row_model(row: Row, **facts: Any) -> Architecture:
    """The model of a row: the dimensions that it states, and what else is known of it."""
    columns = {
        "layers": "layers",
        "hidden_size": "hidden",
        "ffn_hidden_size": "ffn_hidden",
        "heads": "heads",
        "kv_heads": "kv_heads",
        "vocab_size": "vocab",
        "max_positions": "seq_len",
    }
    stated = {field: int(row[column]) for field, column in columns.items() if row[column]}
    return Architecture.model_validate(stated | facts)


def row_workload(
    row: Row, model: Architecture, sizes: list[int], stack: str, **known: Any
) -> Workload:
    """The workload of a row that states its layout, and what else is known of its source."""
    dp = int(row["dp"])
    batches = int(row["global_batch"] or 0) // int(row["micro_batch"]) // dp
    recompute, modules = stated_recompute(row["recompute"])
    stated = {
        "dp_size": dp,
        "micro_batches": max(1, batches),
        "sharding": Sharding.OPTIMIZER if row["sharding"] == "zero1" else Sharding.NONE,
        "recompute": recompute,
        "recompute_modules": modules,
        "precision": PRECISIONS[row["precision"]],
    }
    return workload(Setting(row=row, model=model, sizes=sizes, stack=stack, **(stated | known)))


PRECISIONS = {
    "": Precision.BF16,
    "bf16": Precision.BF16,
    "fp16": Precision.FP16,
    "FP8-CS": Precision.FP8,
}
"""The words of the sources whose memory is read here."""
MODULES = {"norm": RecomputeModule.LAYERNORM, "act": RecomputeModule.MOE_ACT}
"""Modules that a source calls by another name than Megatron."""


def stated_recompute(words: str) -> tuple[Recompute, frozenset[RecomputeModule]]:
    """What a row says was computed again; nothing where it says nothing."""
    kind, _, names = words.partition(":")
    modules = [MODULES.get(name) or RecomputeModule(name) for name in names.split("+") if name]
    return Recompute(kind or "none"), frozenset(modules)


def workload(setting: Setting) -> Workload:
    """The workload of a row."""
    row, model = setting.row, setting.model
    tp = int(row["tp"])
    split = setting.sequence_parallel
    if split is None:
        split = row["sp"] == "True"
    return Workload(
        model=model,
        sequence_length=int(row["seq_len"]),
        padded_vocab_size=padded_vocab_size(model.vocab_size, tp, setting.vocab_multiple),
        layout=RankLayout(
            tp_size=tp,
            cp_size=int(row["cp"] or 1),
            dp_size=setting.dp_size,
            pp_size=int(row["pp"]),
            vp_size=setting.vp_size,
            ep_size=setting.ep_size,
            etp_size=setting.etp_size,
        ),
        stages=stages_of(
            setting.sizes,
            setting.vp_size,
            embedding_as_layer=setting.embedding_as_layer,
            loss_as_layer=setting.loss_as_layer,
        ),
        sequence_parallel=split and tp > 1,
        sharding=setting.sharding,
        recompute=setting.recompute,
        micro_batch_size=int(row["micro_batch"]),
        micro_batches=setting.micro_batches,
        precision=setting.precision,
        hardware=hardware(row["gpu"]),
        flash_attention=setting.flash_attention,
        gradient_bytes=setting.gradient_bytes,
        stack=setting.stack,
        hidden_dropout=setting.hidden_dropout,
        recompute_modules=setting.recompute_modules,
        narrow_weights=setting.narrow_weights,
    )


def architecture(**facts: Any) -> Architecture:
    """A model from its facts."""
    return Architecture.model_validate(facts)


def label(row: Row) -> str:
    """A row in a few words."""
    parts = [f"tp {row['tp']}", f"pp {row['pp']}", f"micro batch {row['micro_batch']}"]
    for name in ("vp", "cp"):
        if row[name] not in ("", "1"):
            parts.append(f"{name} {row[name]}")
    parts += ["sp"] * (row["sp"] == "True") + [row["recompute"]]
    return f"{row['model']} @{row['n_gpus']}: {' · '.join(parts)}"
