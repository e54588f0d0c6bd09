# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""An event log in MLflow, in a directory: one run, every point once, whatever happens between."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from seatrial.monitoring import mlflow_export
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.mlflow_export import RUN_TAG, MlflowRun, export

TOLD = {"began": 90.0, "world_size": 8, "global_batch_size": 64, "sequence_length": 2048}


@pytest.fixture(autouse=True)
def _batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_export, "BATCH", 7)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return (tmp_path / "store").as_uri()


def steps(first: int, last: int, begin: float = 100.0) -> Iterator[Event]:
    for number in range(first, last + 1):
        values = {"seconds": 2.0, "loss": 9.0 - number, "grad_norm": 0.5, "learning_rate": 1e-4}
        yield Event(EventKind.STEP, number, begin + 2 * number, values)


def history() -> list[Event]:
    return [
        Event(EventKind.START, 0, 100.0, TOLD),
        *steps(1, 5),
        Event(EventKind.SAVE, 4, 110.5, {"seconds": 0.5}),
        Event(EventKind.START, 4, 150.0, TOLD | {"world_size": 16}),
        *steps(5, 8, 150.0),
        Event(EventKind.EVALUATION, 8, 170.0, {"seconds": 1.0, "loss": 1.5, "split": "validation"}),
        Event(EventKind.STEP, 9, 172.0, {"seconds": 2.0, "loss": math.nan, "grad_norm": None}),
        Event(EventKind.EXIT, 9, 173.0, {"code": 0}),
    ]


def sent(uri: str, name: str) -> list[tuple[int, float]]:
    """All points of one metric."""
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("trial")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], f"tags.`{RUN_TAG}` = 'small'")
    assert len(runs) == 1
    points = client.get_metric_history(runs[0].info.run_id, name)
    return [(p.step, p.value) for p in sorted(points, key=lambda p: p.timestamp)]


def test_every_point_is_there_once_with_its_step(uri: str) -> None:
    done = export(history(), "small", uri, "trial")
    losses = sent(uri, "loss")
    assert [step for step, _ in losses] == [1, 2, 3, 4, 5, 5, 6, 7, 8, 9]
    assert losses[0] == (1, 8.0)
    assert math.isnan(losses[-1][1])
    assert sent(uri, "tokens_per_second")[0] == (1, 64 * 2048 / 2.0)
    assert sent(uri, "validation_loss") == [(8, 1.5)]
    assert sent(uri, "save_seconds") == [(4, 0.5)]
    assert done.events == len(history())
    assert done.points == sum(len(sent(uri, name)) for name in _names(uri))


def _names(uri: str) -> list[str]:
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("trial")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id])[0].data.metrics)


def test_sending_again_adds_nothing_and_is_the_same_run(uri: str) -> None:
    first = export(history(), "small", uri, "trial")
    again = export(history(), "small", uri, "trial")
    assert (again.run_id, again.points) == (first.run_id, 0)
    assert len(sent(uri, "loss")) == 10


def test_a_log_that_has_grown_adds_what_is_new(uri: str) -> None:
    first = export(history()[:6], "small", uri, "trial")
    second = export(history(), "small", uri, "trial")
    assert second.run_id == first.run_id
    assert len(sent(uri, "loss")) == 10


@pytest.mark.parametrize("fails", range(1, 9))
def test_an_interruption_at_any_call_loses_and_doubles_nothing(
    uri: str, fails: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The points are sent and the mark is not, or neither is."""
    original, calls = MlflowClient.set_tag, [0]

    def breaking(self: MlflowClient, *args: object, **kwargs: object) -> object:
        calls[0] += 1
        if calls[0] == fails:
            raise ConnectionError("cut")
        return original(self, *args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "set_tag", breaking)
        with pytest.raises(ConnectionError):
            export(history(), "small", uri, "trial")
    export(history(), "small", uri, "trial")
    assert [step for step, _ in sent(uri, "loss")] == [1, 2, 3, 4, 5, 5, 6, 7, 8, 9]
    assert len(sent(uri, "step_seconds")) == 10


def test_parts_are_sent_as_they_come(uri: str) -> None:
    target = MlflowRun("small", uri, "trial")
    for event in history():
        target.send([event])
    assert len(sent(uri, "loss")) == 10


def test_state_and_parameters_are_those_of_the_run(uri: str) -> None:
    client = MlflowClient(tracking_uri=uri)
    run = export(history()[:6], "small", uri, "trial").run_id
    assert client.get_run(run).info.status == "RUNNING"
    export(history(), "small", uri, "trial")
    found = client.get_run(run)
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "small"
    # The second start had another size; MLflow keeps the first.
    assert found.data.params["world_size"] == "8"


def test_another_log_of_the_same_run_is_sent_whole(uri: str) -> None:
    first = export(history(), "small", uri, "trial")
    later = [Event(EventKind.START, 9, 900.0, TOLD), *steps(10, 12, 900.0)]
    second = export(later, "small", uri, "trial")
    assert second.run_id == first.run_id
    assert [step for step, _ in sent(uri, "loss")][-3:] == [10, 11, 12]
    assert len(sent(uri, "loss")) == 13


def test_runs_of_other_names_are_left_alone(uri: str) -> None:
    one = export(history(), "small", uri, "trial").run_id
    assert export(history(), "large", uri, "trial").run_id != one
