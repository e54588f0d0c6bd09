# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Published rows with memory, as workloads of the planner.

Each source measured something else, so a row says what: live tensors of torch, or what the
process took of the device; the last pipeline stage, or the fullest.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from backtest.machines import hardware
from backtest.rows import published, split, stated_precision, stated_recompute
from seatrial.planning.layout import Layout
from seatrial.planning.parameters import padded_vocab_size
from seatrial.planning.stages import stages_of
from seatrial.planning.workload import Workload
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Precision

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
    LAST = "last"
    FULLEST = "fullest"


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    id: str
    label: str
    fold: int
    """Fold of its model size, from `split.csv`."""
    workload: Workload
    memory: float
    measured: Measured
    which: Which


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """A run that fitted or did not."""

    id: str
    label: str
    fold: int
    """Fold of its model size, from `split.csv`."""
    workload: Workload
    fitted: bool


def of_source(source: str) -> list[Row]:
    return [row for row in published() if row["source"] == source]


def fold_of(row: Row) -> int:
    return int(split()[row["id"]]["fold"])


def ran_out(row: Row) -> bool:
    return "OOM" in row["notes"].split("; ")


def measured_rows(
    rows: Iterable[Row], read: Callable[[Row], Workload], measured: Measured, which: Which
) -> list[MeasuredRow]:
    """The rows with a figure of memory, read by their source's own reader."""
    return [
        MeasuredRow(
            row["id"],
            label(row),
            fold_of(row),
            read(row),
            float(row["measured_mem_gb"]) * GIB,
            measured,
            which,
        )
        for row in rows
        if row["measured_mem_gb"]
    ]


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
        "precision": stated_precision(row["precision"] or "bf16"),
    }
    return workload(row, model, sizes, stack=stack, **(stated | known))


def workload(
    row: Row,
    model: Architecture,
    sizes: list[int],
    *,
    dp_size: int,
    vocab_multiple: int = 128,
    sequence_parallel: bool | None = None,
    embedding_as_layer: bool = False,
    loss_as_layer: bool = False,
    vp_size: int = 1,
    ep_size: int = 1,
    etp_size: int = 1,
    **known: Any,
) -> Workload:
    """The workload of a row; `sizes` are the layers of each pipeline stage.

    The vocabulary is padded to `vocab_multiple` times tp. Without `sequence_parallel`, the row says
    whether it is on. `known` are other fields of the workload.
    """
    tp = int(row["tp"])
    split = row["sp"] == "True" if sequence_parallel is None else sequence_parallel
    layout = Layout(tp, int(row["cp"] or 1), dp_size, int(row["pp"]), vp_size, ep_size, etp_size)
    stages = stages_of(
        sizes, vp_size, embedding_as_layer=embedding_as_layer, loss_as_layer=loss_as_layer
    )
    return Workload(
        model=model,
        sequence_length=int(row["seq_len"]),
        padded_vocab_size=padded_vocab_size(model.vocab_size, tp, vocab_multiple),
        layout=layout,
        stages=stages,
        sequence_parallel=split and tp > 1,
        micro_batch_size=int(row["micro_batch"]),
        hardware=hardware(row["gpu"], Precision.BF16, "", ""),
        **known,
    )


def label(row: Row) -> str:
    parts = [f"tp {row['tp']}", f"pp {row['pp']}", f"micro batch {row['micro_batch']}"]
    for name in ("vp", "cp"):
        if row[name] not in ("", "1"):
            parts.append(f"{name} {row[name]}")
    parts += ["sp"] * (row["sp"] == "True") + [row["recompute"]]
    return f"{row['model']} @{row['n_gpus']}: {' · '.join(parts)}"
