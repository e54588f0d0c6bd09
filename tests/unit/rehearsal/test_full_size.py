# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The full-size drill: what is counted, compared, stored and printed; records stand in."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seatrial.cli.main import app
from seatrial.engines.engine import DistinctRank, TrafficKind
from seatrial.engines.registry import ENGINES
from seatrial.planning.counted import (
    Communication,
    Compute,
    Event,
    Group,
    HeldTensor,
    MemoryByRole,
    MemoryPoint,
    Pass,
    Place,
    RankCount,
    Wait,
    rank_count,
)
from seatrial.planning.layout import Axis
from seatrial.planning.memory.breakdown import MemoryFit
from seatrial.rehearsal import full_size
from seatrial.rehearsal.counted_figures import peak_moment, traffic_of
from seatrial.rehearsal.full_size import FullSizeDrill, executed_micro_batches
from tests.conftest import MEGATRON, SPEC, resolved

GIB = 1 << 30
TENSOR = "TENSOR_MODEL_PARALLEL_GROUP"
PIPELINE = "PIPELINE_MODEL_PARALLEL_GROUP"
STAGES = ("parallelism.pp_size=2", "training.micro_batch_size=1", "training.global_batch_size=256")


def communication(kind: str, group: int, size: int, **other: Any) -> Communication:
    """A collective of the first micro-batch's forward pass."""
    plain = Communication(
        kind,
        group,
        "bfloat16",
        size // 2,
        size // 2,
        size,
        None,
        None,
        False,
        Pass.FORWARD,
        0,
        0,
        0,
    )
    return replace(plain, **other)


def counted(rank: int = 0, activations: int = 10 * GIB, *events: Event) -> RankCount:
    """A record of a rank."""
    return RankCount(
        rank=rank,
        represents=1,
        tp_rank=0,
        cp_rank=0,
        dp_rank=0,
        pp_rank=0,
        ep_rank=0,
        micro_batches=4,
        parameters=1_000_000,
        at_peak=MemoryByRole(GIB, 2 * GIB, 3 * GIB, activations, GIB // 2, GIB // 4),
        peak_event=0,
        update_peak=6 * GIB,
        largest=(
            HeldTensor("decoder.layers.0.mlp", "aten.mm bfloat16[8, 8]", "activations", 4, 1),
        ),
        timeline=(MemoryPoint(0, 7 * GIB, 1),),
        flops={"matrix_product": 10**12},
        groups=(Group(TENSOR, (0, 1, 2, 3)), Group(PIPELINE, (0, 8))),
        places=(Place("decoder.layers.0", "megatron/core/tensor_parallel/mappings.py:1"),),
        events=events or (Compute({"matrix_product": 10**12}, 5, 6, Pass.BACKWARD, 3, 0),),
        imitated=("flash attention",),
        assumed=("even routing",),
        cpu_seconds=9.0,
        resident=700 << 20,
    )


def test_a_record_is_read_as_it_was_written() -> None:
    record = counted(
        3,
        GIB,
        communication("all_gather", 0, 64, asynchronous=True),
        Wait(0),
        Compute({"attention": 7}, 8, 9, Pass.BACKWARD, 1, 2),
        communication("send", 1, 32, peer=8, batch=0, during=Pass.UPDATE),
    )
    assert rank_count(json.loads(json.dumps(record.to_dict()))) == record


def test_traffic_is_what_a_ring_sends() -> None:
    setup = communication("all_gather", 0, 4000, during=Pass.SETUP)
    record = counted(
        0,
        GIB,
        setup,
        communication("all_gather", 0, 400),
        communication("all_gather", 0, 400, micro_batch=1),
        communication("all_reduce", 0, 400),
        communication("send", 1, 100, peer=8),
        communication("receive", 1, 100, peer=8),
    )
    rows = {row.kind: row for row in traffic_of(record, MEGATRON.group_kinds)}
    gathered = rows["all_gather"]
    assert (gathered.count, gathered.size, gathered.sent) == (2, 800, 600)
    assert gathered.traffic is TrafficKind.TENSOR
    assert rows["all_reduce"].sent == 600
    assert (rows["send"].sent, rows["receive"].sent) == (100, 0)
    assert rows["send"].traffic is TrafficKind.PIPELINE


def test_the_peak_has_a_moment() -> None:
    work = Compute({}, 1, 1, Pass.BACKWARD, 4, 0)
    sent = communication("all_gather", 0, 4, asynchronous=True, micro_batch=4)
    assert peak_moment(counted(0, GIB, work)) == "backward pass of micro batch 4"
    waited = replace(counted(0, GIB, sent, Wait(0)), peak_event=1)
    assert peak_moment(waited) == "forward pass of micro batch 4"
    update = Compute({}, 1, 1, Pass.UPDATE, -1, 0)
    assert peak_moment(counted(0, GIB, update)) == "update"
    chunks = counted(0, GIB, replace(work, chunk=2))
    assert peak_moment(chunks) == "backward pass of micro batch 4, chunk 2"


def test_micro_batches_reach_the_steady_state() -> None:
    assert executed_micro_batches(resolved()) == 2
    assert executed_micro_batches(resolved(*STAGES)) == 4
    few = (*STAGES[:2], "training.global_batch_size=6")
    assert executed_micro_batches(resolved(*few)) == 3


def test_the_first_rank_of_each_stage_stands_for_the_stage() -> None:
    plan = resolved(*STAGES)
    ranks = MEGATRON.full_size_ranks(plan)
    assert ranks == (DistinctRank(0, 0, 8), DistinctRank(8, 1, 8))
    assert [plan.layout.rank({Axis.PP: each.stage}) for each in ranks] == [0, 8]


def test_the_arguments_are_those_of_the_run_without_files() -> None:
    plan = resolved("cluster.node_type=p5.48xlarge", *STAGES)
    real, given = MEGATRON.arguments(plan), MEGATRON.full_size_arguments(plan, 4)
    kept = ("num-layers", "tensor-model-parallel-size", "recompute-granularity", "bf16")
    for name in (*kept, "sequence-parallel", "use-distributed-optimizer", "overlap-grad-reduce"):
        assert given.arguments[name] == real[name]
    for name in ("save", "load", "tensorboard-dir", "tokenizer-model", "tp-comm-overlap"):
        assert given.arguments[name] is None
    assert given.arguments["global-batch-size"] == 4 * plan.layout.dp_size
    assert given.dropped == ("overlap of tensor-parallel communication with products",)


@pytest.mark.parametrize(
    ("overrides", "left_out"),
    [
        (("training.precision=fp8", "cluster.node_type=p5.48xlarge"), "8-bit messages"),
        (("performance.moments=bf16",), "moments in another format"),
        (("performance.cuda_graphs=layers",), "CUDA graphs"),
    ],
)
def test_what_is_left_out_is_named(overrides: tuple[str, ...], left_out: str) -> None:
    dropped = MEGATRON.full_size_arguments(resolved(*overrides), 2).dropped
    assert any(text.startswith(left_out) for text in dropped)


def test_engines_and_plans_that_are_not_supported_say_so() -> None:
    plan = resolved()
    reason = ENGINES["llm-foundry"].no_full_size(plan)
    assert reason.startswith("LLM Foundry does not support the full-size drill yet.")
    fsdp = resolved("parallelism.sharding=fsdp", "parallelism.tp_size=1", SMALLER)
    assert "FSDP" in MEGATRON.no_full_size(fsdp)
    assert MEGATRON.no_full_size(plan) == ""


SMALLER = "parallelism.sequence_parallel=false"
Count = Callable[..., str]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ranks that the stand-in for the engine has counted."""
    found: list[int] = []

    def count(words: list[str], rank: int, world: int, file: Path, *rest: Any, engine: Any) -> str:
        found.append(rank)
        file.write_text(json.dumps(counted(rank).to_dict()))
        return ""

    monkeypatch.setenv("SEATRIAL_WORKER_PYTHON", "/bin/true")
    monkeypatch.setattr(full_size, "count_rank", count)
    return found


def test_records_are_reused_until_the_layout_changes(calls: list[int], tmp_path: Path) -> None:
    plan = resolved(*STAGES)
    assert FullSizeDrill(plan, tmp_path, None).find() is None
    first = FullSizeDrill(plan, tmp_path, None).run()
    assert FullSizeDrill(plan, tmp_path, None).find() == replace(first, reused=2)
    again = FullSizeDrill(plan, tmp_path, None).run()
    assert sorted(calls) == [0, 8]
    assert (first.reused, again.reused) == (0, 2)
    assert [each.count for each in again.ranks] == [each.count for each in first.ranks]
    assert [each.count.represents for each in first.ranks] == [8, 8]
    # The length of the run, its learning rate and its files are no part of a step.
    longer = resolved(*STAGES, "training.steps=2000", "training.learning_rate.peak=1.0e-3")
    assert FullSizeDrill(longer, tmp_path, None).run().reused == 2
    full = resolved(*STAGES, "parallelism.recompute=full")
    assert FullSizeDrill(full, tmp_path, None).run().reused == 0
    assert len(calls) == 4


def test_a_damaged_record_is_counted_again(calls: list[int], tmp_path: Path) -> None:
    plan = resolved(*STAGES)
    FullSizeDrill(plan, tmp_path, None).run()
    for file in tmp_path.glob("*.json"):
        file.write_text("{")
    assert FullSizeDrill(plan, tmp_path, None).run().reused == 0
    assert len(calls) == 4


def rehearse(tmp_path: Path, *options: str) -> tuple[int, str]:
    file = tmp_path / "run.yaml"
    file.write_text(SPEC)
    words = ["rehearse", str(file), "--full-size", *STAGES, *options]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "160"})
    return result.exit_code, result.output


def test_the_command_prints_counted_and_planned_figures(calls: list[int], tmp_path: Path) -> None:
    code, said = rehearse(tmp_path)
    assert code == 0
    assert "16 ranks of 2 kinds counted by the engine" in said
    assert "the peak of a step with 4 of 128 micro batches" in said
    assert "decoder.layers.0.mlp" in said
    assert "Imitated kernels: flash attention." in said
    assert "Assumed: even routing." in said
    assert "NCCL and the fabric, speed" in said
    lines = [line.split() for line in said.splitlines()]
    header = next(line for line in lines if line[:2] == ["stage", "ranks"])
    assert header[-3:] == ["peak", "in", "verdict"]
    assert any(line[:3] == ["1", "8", "1"] and line[-1] == "fits" for line in lines)


def test_a_rank_that_does_not_fit_fails_the_drill(
    calls: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        full_size, "read_record", lambda file: counted(0, 60 * GIB if "rank-8" in file.name else 0)
    )
    code, said = rehearse(tmp_path)
    assert code == 1
    assert "stage 1 needs the most" in said
    assert "does not fit" in said


def test_the_report_contains_the_counts(calls: list[int], tmp_path: Path) -> None:
    code, said = rehearse(tmp_path, "--json")
    assert code == 0
    report = json.loads(said)["full_size"]
    assert report["micro_batches"] == 4
    assert [each["stage"] for each in report["ranks"]] == [0, 1]
    first = report["ranks"][0]
    assert first["peak"] == sum(first["memory"].values())
    assert first["verdict"] == MemoryFit.FITS
    assert first["planned"]["index"] == 0


def test_a_reason_of_the_engine_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SEATRIAL_WORKER_PYTHON", "/bin/true")
    monkeypatch.setattr(full_size, "count_rank", lambda *_, engine: "AssertionError: uneven heads")
    code, said = rehearse(tmp_path)
    assert code == 1
    assert "AssertionError: uneven heads" in said
