# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Hangs that are planted in the engine are found in what it counts; its own layouts have none."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import worker_python
from seatrial.engines.engine import Arguments
from seatrial.planning.counted import RankCount
from seatrial.planning.layout import Layout
from seatrial.planning.plan import Plan
from seatrial.rehearsal.executed_ranks import ranks_to_match, representative
from seatrial.rehearsal.full_size import read_record
from seatrial.rehearsal.matching import Hang, HangFinding, match_ranks
from tests.conftest import MEGATRON, loaded, plan_spec

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

SIZES = "layers: 8, hidden_size: 256, heads: 8, vocab_size: 8192, max_positions: 512"
GPT = f"model={{dimensions: {{family: gpt, {SIZES}}}}}"
LLAMA = f"model={{dimensions: {{family: llama, {SIZES}}}}}"
EXPERTS = (
    f"model={{dimensions: {{family: llama, {SIZES}, moe: {{experts: 8, top_k: 2, "
    "expert_ffn_hidden_size: 512}}}"
)
SMALL = ("training.micro_batch_size=1", "training.global_batch_size=16")
LAYOUTS = {
    "tp · pp": (GPT, "parallelism.tp_size=2", "parallelism.pp_size=2"),
    "tp · cp": (LLAMA, "parallelism.tp_size=2", "parallelism.cp_size=2"),
    "pp · vp": (
        LLAMA,
        "parallelism.pp_size=4",
        "parallelism.vp_size=2",
        "parallelism.tp_size=1",
        "parallelism.sequence_parallel=false",
    ),
    "two stages · vp": (
        LLAMA,
        "parallelism.pp_size=2",
        "parallelism.vp_size=2",
        "parallelism.tp_size=1",
        "parallelism.sequence_parallel=false",
    ),
    "pp · ep": (
        EXPERTS,
        "parallelism.pp_size=2",
        "parallelism.ep_size=4",
        "parallelism.tp_size=1",
        "parallelism.sequence_parallel=false",
    ),
    "tp · ep": (EXPERTS, "parallelism.tp_size=2", "parallelism.ep_size=4"),
    "full recompute": (
        GPT,
        "parallelism.tp_size=2",
        "parallelism.pp_size=4",
        "parallelism.recompute=full",
    ),
    "no overlap": (
        GPT,
        "parallelism.tp_size=2",
        "parallelism.pp_size=2",
        "performance.gradient_overlap=false",
        "performance.parameter_overlap=false",
    ),
}
PLANTED = LAYOUTS["no overlap"]
IN_BF16: Arguments = {"grad-reduce-in-bf16": True}
TENSOR = "TENSOR_MODEL_PARALLEL_GROUP"
STAGES = "PIPELINE_MODEL_PARALLEL_GROUP"
REPLICAS = "DATA_PARALLEL_GROUP_WITH_CP"


class Counting:
    """A process that has loaded the engine, and counts ranks as forks of itself."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        repository = str(Path(__file__).parents[2])
        paths = os.pathsep.join((python_path(), repository))
        self._process = subprocess.Popen(
            [worker_python(MEGATRON), "-m", "tests.engine.full_size_worker"],
            env=os.environ | {"PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def rank(
        self, plan: Plan, rank: int, fault: str = "", changed: Arguments | None = None
    ) -> RankCount:
        """Count one rank, with changed arguments or a planted fault."""
        batches = min(plan.batch.micro_batches, 2 * plan.layout.pp_size)
        arguments = MEGATRON.full_size_arguments(plan, batches).arguments | (changed or {})
        file = self._directory / f"{len(list(self._directory.iterdir()))}.json"
        case = {
            "words": MEGATRON.command_line(arguments),
            "rank": rank,
            "world_size": plan.layout.world_size,
            "fault": fault,
            "record": str(file),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert not answer["reason"], answer["reason"]
        return read_record(file)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    found = Counting(tmp_path_factory.mktemp("records"))
    yield found
    found.close()


def plan_of(*overrides: str) -> Plan:
    cluster = "cluster={profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: 1}"
    return plan_spec(loaded(cluster, *SMALL, *overrides), Catalog())


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_engines_own_layouts_match(name: str, counting: Counting) -> None:
    plan = plan_of(*LAYOUTS[name])
    ranks = ranks_to_match(plan.layout)
    found = match_ranks(
        [counting.rank(plan, rank) for rank in ranks], representative(plan.layout, ranks)
    )
    print(f"{name}: {len(ranks)} ranks, {found.groups} groups, {found.collectives} collectives")
    assert [str(finding) for finding in found.findings] == []
    assert found.groups > 0
    assert found.transfers > 0 or plan.layout.pp_size == 1


@pytest.fixture(scope="module")
def legal(counting: Counting) -> tuple[Plan, dict[int, RankCount]]:
    """All ranks of tp 2 · pp 2 · dp 2, as the engine counts them."""
    plan = plan_of(*PLANTED)
    assert plan.layout == Layout(tp_size=2, dp_size=2, pp_size=2)
    return plan, {rank: counting.rank(plan, rank) for rank in range(8)}


Legal = tuple[Plan, dict[int, RankCount]]
ALL = tuple(range(8))
# Rank = tensor + 2 * replica + 4 * stage.
CASES: dict[str, tuple[tuple[int, ...], Hang, str, tuple[int, int], str]] = {
    "extra_collective": ((1,), Hang.KIND, TENSOR, (0, 1), "core/transformer/mlp.py"),
    "extra_on_stage": (
        (4, 5),
        Hang.DTYPE,
        "MODEL_PARALLEL_GROUP",
        (0, 4),
        "finalize_model_grads.py",
    ),
    "swapped_buckets": ((2,), Hang.SIZE, REPLICAS, (0, 2), "param_and_grad_buffer.py"),
    "missing_receive": ((0,), Hang.MISSING, STAGES, (0, 4), "p2p_communication.py"),
    "condition_on_replica": ((2,), Hang.MISSING, REPLICAS, (0, 2), "param_and_grad_buffer.py"),
    "second_gather": ((6,), Hang.KIND, REPLICAS, (4, 6), "param_and_grad_buffer.py"),
    "wrong_type": ((0,), Hang.DTYPE, STAGES, (0, 4), "p2p_communication.py"),
    "sends_first": ((0, 4), Hang.CYCLE, STAGES, (0, 4), "p2p_communication.py"),
    "crossed_groups": ((1, 4), Hang.CYCLE, TENSOR, (0, 1), "finalize_model_grads.py"),
}
"""The ranks that change, and what is found: reason, group, two ranks and a file of the engine."""
SHORT = "second_gather"


def findings(legal: Legal, changed: dict[int, RankCount]) -> tuple[HangFinding, ...]:
    plan, records = legal
    found = match_ranks((records | changed).values(), representative(plan.layout, ALL))
    for finding in found.findings:
        print(finding)
    return found.findings


@pytest.mark.parametrize(
    "fault",
    [pytest.param(name, marks=() if name == SHORT else pytest.mark.slow) for name in CASES],
)
def test_planted_hangs_are_found(fault: str, legal: Legal, counting: Counting) -> None:
    ranks, hang, group, two, file = CASES[fault]
    changed = {rank: counting.rank(legal[0], rank, fault) for rank in ranks}
    first = findings(legal, changed)[0]
    assert (first.hang, first.group.name) == (hang, group)
    assert set(two) <= set(first.ranks)
    assert file in str(first)


@pytest.mark.slow
def test_uneven_layers_are_found(legal: Legal, counting: Counting) -> None:
    changed = {3: counting.rank(legal[0], 3, changed={"num-layers": 12})}
    found = {finding.group.name: finding for finding in findings(legal, changed)}
    assert found[REPLICAS].hang is Hang.SIZE
    assert found[REPLICAS].ranks == (1, 3)
    assert TENSOR in found


@pytest.mark.slow
def test_gradients_in_another_type_are_found(legal: Legal, counting: Counting) -> None:
    changed = {5: counting.rank(legal[0], 5, changed=IN_BF16)}
    [finding] = [each for each in findings(legal, changed) if each.group.name == REPLICAS]
    assert (finding.hang, finding.ranks) == (Hang.DTYPE, (5, 7))
