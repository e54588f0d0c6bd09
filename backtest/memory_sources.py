# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Published rows with memory, one function for each source; Megatron's CI is in memory_ci.py.

Facts that the rows lack follow by rules that were fixed before anything was scored.
"""

from typing import Any

from backtest.memory_rows import (
    GIB,
    Measured,
    MeasuredRow,
    OutcomeRow,
    Row,
    Which,
    fold_of,
    label,
    measured_rows,
    of_source,
    ran_out,
    row_model,
    row_workload,
)
from backtest.rows import published, timed_rows
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Precision

BLOOM = "BigScience BLOOM tr11"
REBALANCED = 'section "Rebalancing layers"'
BLOOM_HEADS = 64
"""Where a row does not state heads; they change only one layer's scores."""


def bloom_rows(stack: str) -> list[MeasuredRow]:
    """BLOOM's experiments by a stack: Megatron-DeepSpeed, ZeRO-1, on A100, memory by nvidia-smi.

    Where layers are not stated, they are the multiple of the stages whose parameters, with the
    embedding or without, are nearest to the model's name; layers go to stages evenly, except in the
    section "Rebalancing layers", where the embedding and the output count as a layer each, and
    where they do not divide, where DeepSpeed fills stages in order. Rows of dp 1 say zero1 too:
    there is nobody to share with.
    """
    rows = measured_rows(of_source(BLOOM), _bloom_workload, Measured.PROCESS, Which.FULLEST)
    return [row for row in rows if row.workload.stack == stack]


def bloom_outcomes() -> list[OutcomeRow]:
    return [
        OutcomeRow(row["id"], label(row), fold_of(row), _bloom_workload(row), fitted=False)
        for row in of_source(BLOOM)
        if ran_out(row)
    ]


def _bloom_workload(row: Row) -> Workload:
    layers = _bloom_layers(row)
    hidden = int(row["hidden"])
    heads = int(row["heads"] or BLOOM_HEADS)
    if hidden % heads:
        heads = BLOOM_HEADS
    sizes = _bloom_stages(layers, int(row["pp"]), rebalanced=REBALANCED in row["notes"])
    bf16 = row["precision"] == "bf16"
    return row_workload(
        row,
        row_model(row, family="gpt", layers=layers, heads=heads, kv_heads=heads),
        sizes,
        f"megatron-deepspeed-{row['precision']}",
        gradient_bytes=4 if bf16 else 2,
        flash_attention=False,
    )


def _bloom_layers(row: Row) -> int:
    """The stated layers, or those that the model's name and stages imply."""
    if row["layers"]:
        return int(row["layers"])
    hidden, stages = int(row["hidden"]), int(row["pp"])
    stated = float(row["params_b"]) * 1e9
    layer, embedding = 12 * hidden * hidden, int(row["vocab"]) * hidden
    # A whole model has 70 to 110 layers; with one stage any number would be a multiple.
    step = stages if stages > 1 else 12
    candidates = range(step, 130, step)
    return min(
        candidates,
        key=lambda n: min(abs(n * layer - stated), abs(n * layer + embedding - stated)),
    )


def _bloom_stages(layers: int, stages: int, *, rebalanced: bool) -> list[int]:
    if rebalanced and stages > 1 and (layers + 2) % stages == 0:
        share = (layers + 2) // stages
        return [share - 1, *[share] * (stages - 2), share - 1]
    share = -(-layers // stages)
    sizes: list[int] = []
    for _ in range(stages):
        sizes.append(min(share, layers - sum(sizes)))
    return sizes


NANOTRON = "nanotron ultrascale"
TIED = ("Llama-1.34B", "Llama-3.57B")


def nanotron_rows() -> list[MeasuredRow]:
    """Nanotron's sweep (the Ultra-Scale Playbook): best layouts of Llama-like models on H100.

    Which embeddings are tied follows from the stated parameters: 1.34 B and 3.57 B come out with
    tied embeddings, 8.86 B and 80 B with separate ones. Nanotron shares its decoder layers out to
    stages by their cost, the output projection counted in; with vocabularies of 131,072 that takes
    layers from the last stage. Its log has live and reserved memory; the figure does not say which
    it shows, and live tensors as the code counts them fall short of it by a fifth of the
    activations: it is taken as reserved.
    """
    return measured_rows(of_source(NANOTRON), _nanotron_workload, Measured.RESERVED, Which.FULLEST)


def _nanotron_workload(row: Row) -> Workload:
    model = row_model(row, family="llama", tied_embeddings=row["model"] in TIED)
    sizes = _by_cost(model.layers, int(row["pp"]), _output_cost(row))
    return row_workload(row, model, sizes, "nanotron", vocab_multiple=1)


def _output_cost(row: Row) -> float:
    """The output projection's cost in layers, by its matrix multiplication."""
    hidden = int(row["hidden"])
    layer = 4 * hidden * hidden + 3 * hidden * int(row["ffn_hidden"])
    return hidden * int(row["vocab"]) / layer


def _by_cost(layers: int, stages: int, output: float) -> list[int]:
    """Layers of each stage by nanotron's rule (`models/base.py`, build_model).

    A stage takes blocks until their cost, counted from the first, is above its share; the block
    that crosses the line still belongs to it.
    """
    share = (layers + output) / stages
    sizes = [0] * stages
    stage = 0
    for placed in range(1, layers + 1):
        sizes[stage] += 1
        if placed > share * (stage + 1) and stage < stages - 1:
            stage += 1
    return sizes


BRIDGE = "Megatron-Bridge skills"
BRIDGE_MODEL = "LLAMA3-70B"
GIGABYTE = 1e9


def bridge_rows() -> list[MeasuredRow]:
    """Llama 3 70B in fp8 on H100, from Megatron-Bridge's notes on memory; none is ever fitted.

    The recipe keeps weights in 8 bits only and reduces gradients in bf16; sequence parallelism and
    the distributed optimizer are on. Which rank was measured is not stated: the fullest stage is
    taken. Of the source's rows these are left out: one that ran out of memory, hybrid models,
    models whose dimensions are not given, and one that does not state what was computed again.
    """
    ran = [
        row | {"measured_mem_gb": str(float(row["measured_mem_gb"]) * GIGABYTE / GIB)}
        for row in of_source(BRIDGE)
        if row["model"] == BRIDGE_MODEL and "OOM" not in row["notes"]
    ]
    return measured_rows(ran, _bridge_workload, Measured.ALLOCATED, Which.FULLEST)


def _bridge_workload(row: Row) -> Workload:
    return _even_workload(
        row,
        "llama",
        vp_size=int(row["vp"]),
        sharding=Sharding.OPTIMIZER,
        sequence_parallel=True,
        gradient_bytes=2,
        narrow_weights=True,
    )


def _even_workload(row: Row, family: str, **known: Any) -> Workload:
    """A run of Megatron Core whose stages have the same number of layers."""
    model, stages = row_model(row, family=family), int(row["pp"])
    return row_workload(row, model, [model.layers // stages] * stages, "megatron-core", **known)


NOTES = "parallelism notes GPT2-large H200"


def gpt2_rows() -> list[MeasuredRow]:
    """The six runs of GPT-2 large on H200 in the parallelism notes; none is ever fitted.

    fp16 by its loss scale, so gradients have 2 bytes; dropout at Megatron's default; no distributed
    optimizer. Memory is what nvidia-smi shows for the process, on the fuller of both GPUs.
    """
    return measured_rows(of_source(NOTES), _gpt2_workload, Measured.PROCESS, Which.FULLEST)


def _gpt2_workload(row: Row) -> Workload:
    return _even_workload(
        row,
        "gpt",
        micro_batches=1,
        precision=Precision.FP16,
        gradient_bytes=2,
        hidden_dropout=True,
    )


ALEPH_ALPHA = "AlephAlpha parallel layouts"
FUSED_NORM = "scaling-fused-norm"
"""flash-attention 2 and its RMS-norm kernel."""
PLAIN_NORM = "scaling"
"""flash-attention 2, norms of plain torch operations."""
FIRST_FLASH = "scaling-flash-1"
"""flash-attention 1, norms of plain torch operations."""
OTHER_ITEMS = 3
"""Embedding, final norm and output projection, each dealt out as if it were a layer."""


def layout_rows() -> list[OutcomeRow]:
    """AlephAlpha's sweep of layouts (arXiv 2311.05610): what ran and what did not fit.

    On A100 80 GB. They ran their own framework, since published as Aleph-Alpha/scaling. What it
    does that memory depends on: gradients in bf16 beside bf16 weights, master weights and moments
    shared out over dp (`core/optimizer/parameter_group.py`); logits gathered whole on every tp
    rank and turned to fp32
    (`core/nn/linear/column_parallel_linear.py`, `transformer/model/losses/cross_entropy.py`);
    embedding, final norm and output projection count as a layer each when layers are dealt to
    stages, and the first stages get the rest (`core/nn/parallel_module/pipeline_partitioning.py`);
    recomputation is per layer.
    """
    return [
        OutcomeRow(
            row["id"],
            f"{label(row)} · {_kernel(row)}, {row['seq_len']}",
            fold_of(row),
            _layout_workload(row),
            not ran_out(row),
        )
        for row in of_source(ALEPH_ALPHA)
        if "flash" in _kernel(row)
    ]


def _kernel(row: Row) -> str:
    """The attention and norm kernels as the source names them."""
    return row["notes"].split(";")[0].removeprefix("kernel: ")


def _layout_stack(row: Row) -> str:
    if "RMS" in _kernel(row):
        return FUSED_NORM
    return PLAIN_NORM if "attention2" in _kernel(row) else FIRST_FLASH


def _layout_stages(layers: int, stages: int) -> list[int]:
    """Layers of each stage: items dealt evenly, the first stages getting what is left over."""
    share, more = divmod(layers + OTHER_ITEMS, stages)
    items = [share + (stage < more) for stage in range(stages)]
    if stages == 1:
        return [layers]
    items[0] -= 1
    items[-1] -= 2
    return items


def _layout_workload(row: Row) -> Workload:
    model = row_model(row, family="llama")
    sizes = _layout_stages(model.layers, int(row["pp"]))
    return row_workload(row, model, sizes, _layout_stack(row), gradient_bytes=2, vocab_multiple=1)


TORCHTITAN = "torchtitan"


def torchtitan_rows() -> list[MeasuredRow]:
    """Timed runs of torchtitan, the only figures of FSDP: what the allocator had reserved at most.

    Recomputing single operations is not modelled, and taken as none.
    """
    figures = {row["id"]: row["measured_mem_gb"] for row in published()}
    return [
        MeasuredRow(
            row.id,
            f"{row.size} @{row.workload.layout.world_size}: {row.workload.recompute}",
            row.fold,
            row.workload,
            float(figures[row.id]) * GIB,
            Measured.RESERVED,
            Which.FULLEST,
        )
        for row in timed_rows()
        if row.source == TORCHTITAN and figures[row.id]
    ]
