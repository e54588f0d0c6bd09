# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""An engine that the product does not know goes through plan, check and manifests."""

from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.by_engine import (
    UnsupportedCheckpointError,
    engine_of,
    exchange_of,
    setup_of,
)
from seatrial.checkpoints.commit import commit, make_room
from seatrial.checkpoints.inventory import checkpoints, newest_step, set_aside, tracked_step
from seatrial.checkpoints.naming import RECORD
from seatrial.checkpoints.setup import CheckpointFormat
from seatrial.checkpoints.starts import claim
from seatrial.checkpoints.verdict import Resume, verdict
from seatrial.checkpoints.verification import verify
from seatrial.checks.check import check
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.codes.spec import SpecCode
from seatrial.engine_process.weights import why_not_exported
from seatrial.engines.registry import ENGINES, option_findings, plan_findings
from seatrial.errors import FindingsError
from seatrial.findings import has_errors
from seatrial.monitoring.anomalies.monitor import AnomalyMonitor
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.logs.reading import read_log
from seatrial.monitoring.metrics import Metrics
from seatrial.planning.layout import Layout
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.rehearsal.twin import TwinData, twins
from seatrial.rendering.render import render
from seatrial.spec.engine import REGISTERED_ENGINES
from seatrial.spec.loader import LoadedSpec, loads
from seatrial.spec.parallelism import Sharding
from seatrial.storage.location import LocalPlace
from tests.conftest import loaded
from tests.toy_engine.engine import WORKER, ToyCheckpoints
from tests.unit.checkpoints.made import record, write_files

SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: toy
model:
  dimensions:
    {family: gpt, layers: 4, hidden_size: 256, heads: 8, vocab_size: 1001, max_positions: 128}
data: {mock: true}
training: {steps: 100, global_batch_size: 64, evaluation: {batches: 0}, sequence_length: 128}
engine: {name: toy}
cluster:
  {profile: eks, node_type: p4d.24xlarge, nodes: 2, image: example.com/toy/loop:1.0}
"""


@pytest.fixture
def spec(toy_engine: None) -> LoadedSpec:
    return loads(SPEC, "run.yaml")


@pytest.fixture
def run(spec: LoadedSpec, catalog: Catalog) -> PlannedRun:
    return plan_run(resolve_basis(spec, catalog))


def test_every_engine_is_registered_under_its_own_name(toy_engine: None) -> None:
    assert [engine.name for engine in ENGINES.values()] == list(REGISTERED_ENGINES)
    assert "toy" in ENGINES


def test_a_name_that_is_not_registered_is_refused() -> None:
    with pytest.raises(FindingsError) as refused:
        loaded("engine.name=toy")
    (finding,) = refused.value.findings
    assert (finding.code, finding.where.field) == (SpecCode.RANGE, "engine.name")
    assert finding.fix == "Use one of: megatron, llm-foundry."


def test_a_wrong_name_is_told_all_registered_ones(toy_engine: None) -> None:
    with pytest.raises(FindingsError) as refused:
        loaded("engine.name=toys")
    (finding,) = refused.value.findings
    assert finding.fix == "Did you mean toy? All choices: megatron, llm-foundry, toy."


def test_the_planner_keeps_to_the_limits_of_the_engine(run: PlannedRun) -> None:
    plan = run.plan
    assert plan.layout.dp_size == plan.layout.world_size == 16
    assert plan.sharding is Sharding.NONE
    assert plan.model.padded_vocab_size == 1001
    assert run.chosen is not None
    assert run.chosen.workload.stack == "toy"


def test_what_the_engine_says_becomes_findings(spec: LoadedSpec, run: PlannedRun) -> None:
    assert plan_findings(spec, run.plan) == []
    given = loads(SPEC, "run.yaml", ("engine.options.depth=3",))
    assert [finding.code for finding in option_findings(given)] == ["ST-ENGINE-001"]


def test_the_check_has_nothing_against_it(toy_engine: None, catalog: Catalog) -> None:
    assert not has_errors(check(SPEC, "run.yaml", catalog).findings)


def test_manifests_start_its_worker(run: PlannedRun, catalog: Catalog) -> None:
    text = str(render(run.plan, catalog).manifests)
    assert f"'--module', '{WORKER}', '--layers=4', '--hidden=256'" in text


def test_a_twin_is_of_the_same_engine(spec: LoadedSpec, run: PlannedRun, catalog: Catalog) -> None:
    (twin,) = twins(spec, run.plan, catalog, TwinData())
    assert twin.plan.spec.engine.name == "toy"
    assert twin.layout_words == "dp 2"


def test_checkpoints_and_logs_are_known_by_the_engine(run: PlannedRun) -> None:
    setup = setup_of(run.plan)
    assert engine_of(setup) == "toy"
    with pytest.raises(FindingsError, match="Toy checkpoints cannot be exported"):
        exchange_of(setup).model({}, "here")
    assert "Toy" in why_not_exported(ENGINES["toy"], ENGINES["toy"].arguments(run.plan))
    (event,) = read_log([b"some words", b"toy step 3 loss 5.25"])
    assert (event.step, event.values["loss"]) == (3, 5.25)


def test_checkpoints_have_the_directory_names_of_the_engine(
    run: PlannedRun, tmp_path: Path
) -> None:
    place, setup = LocalPlace(tmp_path), setup_of(run.plan)
    claim(place, "1", 0)
    for step in (10, 20):
        shards = write_files(tmp_path / f"toy-{step}")
        # The file that states Megatron's format is not one of Toy's.
        (tmp_path / f"toy-{step}/metadata.json").unlink()
        assert commit(place, shards, record(step, setup=setup)).path.name == f"toy-{step}"
    assert [one.step for one in checkpoints(place)] == [20, 10]
    assert newest_step(place) == 20
    assert verify(place, "toy-20") == []
    assert tracked_step(place) is None
    (tmp_path / "newest-toy").write_text("20")
    assert tracked_step(place) == 20
    (tmp_path / "toy-20/mp_rank_00").mkdir()
    assert verify(place, "toy-20") == []
    (tmp_path / "toy-20/toy.json").touch()
    assert [finding.code for finding in verify(place, "toy-20")] == [CheckpointCode.UNLISTED]
    assert make_room(place, "toy-10", 1) == tmp_path / "toy-10.replaced-by-1"
    assert set_aside(place) == {"toy-10.replaced-by-1": None}
    assert [one.step for one in checkpoints(place)] == [20]


@pytest.mark.parametrize(
    ("package", "saved_as", "said"),
    [
        ("toys 1.0", "toy", "written by 'toys 1.0', which is not an engine of Seatrial"),
        ("toy 1.0", "torch_dist", "Toy has no checkpoint format 'torch_dist'"),
    ],
)
def test_a_checkpoint_of_no_registered_engine_is_refused_with_a_fix(
    run: PlannedRun, tmp_path: Path, package: str, saved_as: str, said: str
) -> None:
    setup, place = setup_of(run.plan), LocalPlace(tmp_path)
    other = replace(setup, versions=replace(setup.versions, engine=package))
    other = replace(other, checkpoint_format=saved_as)
    with pytest.raises(UnsupportedCheckpointError, match=said):
        commit(place, (), record(10, setup=other))
    (tmp_path / "toy-10").mkdir()
    (tmp_path / "toy-10" / RECORD).write_bytes(record(10, setup=other).to_bytes())
    (finding,) = verify(place, "toy-10")
    assert finding.code == CheckpointCode.RECORD
    assert said in finding.rule
    assert "heckpoint" in finding.fix


def test_the_monitor_looks_for_the_signals_of_the_engine(toy_engine: None) -> None:
    (notice,) = AnomalyMonitor().observe(Event(EventKind.EXIT, 4, 0.0, {"code": 7}))
    assert "rejected the result of step 5 because it is odd" in notice.finding.rule
    metrics = Metrics()
    metrics.take(Event(EventKind.STEP, 1, 0.0, {"loss": 1.0, "seconds": 4.0}))
    timers = {"whole": [3.0], "load": [1.0, 2.0]}
    metrics.take(Event(EventKind.TIMERS, 1, 0.0, {"timers": timers}))
    assert metrics.snapshot().data_share == 0.5


def test_the_engine_says_what_can_load_its_checkpoints(
    run: PlannedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = setup_of(run.plan)
    other = replace(setup, layout=Layout(dp_size=8))
    assert verdict(setup, other).outcome is Resume.RESHARDED
    bound = CheckpointFormat(is_bound_to_layout=True)
    monkeypatch.setattr(ToyCheckpoints, "format", lambda *_: bound)
    assert verdict(setup, other).outcome is Resume.IMPOSSIBLE
