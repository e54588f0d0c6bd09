# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial report`: what stands on the page is what the events say."""

import json
import os
import re
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

import seatrial.reports.run_page.page as page_module
from seatrial.catalog.catalog import Catalog
from seatrial.cli.report import app
from seatrial.errors import MissingExtraError, UsageError
from seatrial.monitoring.event_log import Event, EventKind, EventLog
from seatrial.monitoring.prediction import Compared, PlanAgainstRun
from seatrial.monitoring.series import Point
from seatrial.reports.run_page.chapter import Chapter, read_chapter
from seatrial.reports.run_page.figures import (
    last_of_each,
    loss_figure,
    planned_figure,
    rate_figure,
    timeline_figure,
    with_gaps,
)
from seatrial.reports.run_page.headline import headline
from seatrial.reports.run_page.page import report_page
from seatrial.reports.run_page.sections import plan_section
from seatrial.runs.history.files import file_history
from seatrial.runs.history.history import planned
from seatrial.runs.ledger.ledger import AttemptOutcome
from seatrial.sdk.plan import load_plan
from tests.unit.monitoring.made_up_run import NOON, started, steps, whole_run
from tests.unit.planning.search.asked import OPEN

SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: slim-7b
model: {preset: gpt3-7.5b}
data: {mock: true}
training: {tokens: 150B, global_batch_size: 1024, micro_batch_size: 1}
parallelism:
  {tp_size: 4, pp_size: 2, vp_size: 1, cp_size: 1, recompute: selective, sharding: optimizer,
  sequence_parallel: true}
checkpoints: {every_steps: 100}
cluster: {profile: eks, node_type: p4d.24xlarge, nodes: 2}
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return written(tmp_path / "made-up.events.jsonl")


def written(file: Path, events: Iterable[Event] = ()) -> Path:
    log = EventLog(file)
    for event in events or whole_run():
        log.append(event)
    log.close()
    return file


def drawn(page: str) -> dict[str, Any]:
    found = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    figures: dict[str, Any] = json.loads(found[1])
    return figures


def test_the_page_carries_all_with_it(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    result = CliRunner().invoke(app, [str(log), "--output", str(target)])
    assert result.exit_code == 0, result.output
    page = target.read_text()
    body = page[: page.index("<script>")]
    for words in (
        "made-up",
        "goodput",
        "processes disappeared without an exit event",
        "ST-X-001",
        "512",
    ):
        assert words in body, words
    figures = drawn(page)
    assert {"loss", "rate", "timeline", "goodput", "parts", "norm", "saves", "skew"} == set(figures)
    for name in figures:
        assert f'id="{name}"' in body
    # Nothing outside of the file is named where a browser would fetch it.
    ours = page.replace(page_module.plotting_library(), "")
    assert not re.search(r'(src|href)\s*=\s*["\']|url\(|@import|https?://', ours)
    assert "default-src 'none'" in ours


def test_the_curve_is_the_log_and_does_not_run_back(log: Path) -> None:
    chapter = read_chapter(file_history(log))
    training = loss_figure([chapter])["data"][0]
    assert len(training["x"]) == 48 + 1
    gap = training["y"].index(None)
    assert (training["x"][gap - 1], training["x"][gap + 1]) == (18, 11)
    assert training["y"][0] == 10.0
    assert training["y"][-1] == 0.25


def test_the_timeline_adds_up_to_the_wall_time(log: Path) -> None:
    chapter = read_chapter(file_history(log))
    traces = timeline_figure(chapter)["data"]
    total = sum(length for trace in traces for length in trace["x"]) / 1000
    assert total == pytest.approx(chapter.spent.wall)


@pytest.mark.parametrize("outcome", [*AttemptOutcome, None])
def test_a_run_that_failed_is_to_be_diagnosed(log: Path, outcome: AttemptOutcome | None) -> None:
    history = file_history(log)
    attempts = tuple(replace(attempt, outcome=outcome) for attempt in history.attempts)
    chapter = read_chapter(replace(history, look=lambda: attempts))
    assert chapter.has_failed is (outcome in (AttemptOutcome.FAILED, AttemptOutcome.GONE))


@pytest.mark.parametrize(("end", "failed"), [({"code": 1}, True), ({"code": 0}, False)])
def test_a_log_that_ends_with_an_error_is_to_be_diagnosed(
    tmp_path: Path, end: dict[str, int], failed: bool
) -> None:
    """Without a ledger the last event tells."""
    path = tmp_path / "events.jsonl"
    with closing(EventLog(path)) as log:
        log.write(EventKind.START, 0, world_size=1)
        log.write(EventKind.STEP, 1, seconds=1.0, loss=2.0)
        log.write(EventKind.EXIT, 1, **end)
    assert read_chapter(file_history(path)).has_failed is failed


def ended(tmp_path: Path, *last: Event) -> str:
    """The headline of ten steps of forty and these last events, in a file that no longer grows."""
    file = written(tmp_path / "ended.jsonl", [started(0, NOON), *steps(1, 10, NOON), *last])
    os.utime(file, (NOON, NOON))
    return headline(read_chapter(file_history(file)))


def test_the_headline_states_the_result(log: Path, tmp_path: Path) -> None:
    chapter = read_chapter(file_history(log))
    expected = "Finished 40 of 40 steps; loss 10 → 0.25; 1 restart"
    assert headline(chapter) == expected
    page = report_page([chapter])
    assert f"<h1>{expected.replace(' → ', '&nbsp;→&nbsp;')}</h1>" in page
    assert f"<title>made-up: {expected}</title>" in page
    assert ended(tmp_path) == "Log ends at step 10 of 40; loss 10 → 1"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"code": 0}, "Stopped at step 10 of 40; loss 10 → 1"),
        ({"code": 1}, "Failed at step 10 of 40: exited with code 1"),
        ({"code": 1, "error": "data.StrangeError: no more. Try it."}, "StrangeError: no more"),
        (
            {"code": 1, "error": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"},
            "memory",
        ),
    ],
)
def test_the_headline_names_the_end(
    tmp_path: Path, values: dict[str, object], expected: str
) -> None:
    words = ended(tmp_path, Event(EventKind.EXIT, 10, NOON + 21, values))
    assert words.startswith("Stopped" if values == {"code": 0} else "Failed at step 10 of 40: ")
    assert expected in words


def test_a_run_that_never_trained_has_no_loss(tmp_path: Path) -> None:
    failed = Event(EventKind.EXIT, 0, NOON + 21, {"code": 1})
    file = written(tmp_path / "ended.jsonl", [started(0, NOON), failed])
    chapter = read_chapter(file_history(file))
    assert headline(chapter) == "Failed before the first step: exited with code 1"
    output = str(tmp_path / "page.html")
    said = CliRunner().invoke(app, [str(file), "--output", output]).output
    assert "no step of 40 was finished" in said
    assert "loss ?" not in said


def test_the_headline_of_a_run_that_is_running(log: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "running.jsonl", [started(0, NOON), *steps(1, 10, NOON)])
    chapter = read_chapter(replace(file_history(file), is_live=lambda: True))
    assert headline(chapter) == "Running, at step 10 of 40; loss 10 → 1"
    assert "remaining" in report_page([chapter])
    # The file is fresh, and its run has ended.
    over = read_chapter(replace(file_history(log), is_live=lambda: True))
    assert headline(over).startswith("Finished")


def test_two_runs_are_shown_side_by_side(log: Path, tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    other = written(tmp_path / "two" / "made-up.events.jsonl")
    target = tmp_path / "page.html"
    words = ["--compare", str(log), str(other), "--output", str(target)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    page = target.read_text()
    names = [trace["name"] for trace in drawn(page)["loss"]["data"]]
    assert str(log) in names
    assert str(other) in names
    assert "repeated steps" in page


def test_the_numbers_are_given_as_json(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    result = CliRunner().invoke(app, [str(log), "--output", str(target), "--json"])
    (run,) = json.loads(result.output)["runs"]
    assert (run["step"], run["restarts"], run["replayed_steps"]) == (40, 1, 8)
    assert sum(run["seconds"].values()) == pytest.approx(run["wall_seconds"])


def test_only_a_report_is_replaced(log: Path) -> None:
    result = CliRunner().invoke(app, [str(log), "--output", str(log)])
    assert isinstance(result.exception, UsageError)
    assert "was not written by seatrial report" in str(result.exception)


@pytest.mark.parametrize("words", [["a", "b"], ["--compare", "a"]])
def test_several_runs_and_compare_belong_together(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, UsageError)
    assert "--compare" in str(result.exception)


def test_without_the_extra_it_is_said_how_to_get_it(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "find_spec", lambda _: None)
    result = CliRunner().invoke(app, [str(log)])
    assert isinstance(result.exception, MissingExtraError)
    assert "'.[report]'" in str(result.exception)


def test_a_log_without_a_run_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "words.log"
    file.write_text("nothing of a run\n")
    result = CliRunner().invoke(app, [str(file)])
    assert isinstance(result.exception, UsageError)
    assert "contains no steps" in str(result.exception)


def test_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    file = written(tmp_path / "<script>alert(1)<")
    target = tmp_path / "page.html"
    result = CliRunner().invoke(app, [str(file), "--output", str(target)])
    assert result.exit_code == 0, result.output
    assert "<script>alert" not in target.read_text()


def test_readings_of_gpus_are_plotted(tmp_path: Path) -> None:
    figure = {"least": 1200.0, "median": 1755.0, "most": 1980.0, "highest": []}
    values = {"clock": figure, "power": figure | {"median": 650.0}, "throttled": [[3, 64]]}
    events = [*whole_run(), Event(EventKind.GPUS, 512, NOON + 9000, values)]
    page = report_page([read_chapter(file_history(written(tmp_path / "a.events.jsonl", events)))])
    power, clock = drawn(page)["gpus"]["data"]
    assert (power["y"], clock["y"], clock["yaxis"]) == ([650.0], [1200.0], "y2")
    assert "Now: 650 W · 1755 MHz · 1 throttled (hardware thermal slowdown)." in page


def test_points_that_go_back_are_told_apart() -> None:
    points = [Point(step, 1.0, 1.0, 1.0, 1) for step in (1, 2, 3, 2, 3)]
    assert [point.count for point in with_gaps(points)] == [1, 1, 1, 0, 1, 1]
    assert [point.step for point in last_of_each(points)] == [1, 2, 3]


LOGS = sorted((Path(__file__).parents[2] / "data" / "logs").glob("*.log"))


@pytest.mark.parametrize("recorded", LOGS, ids=lambda path: path.stem)
def test_every_recorded_log_of_an_engine_makes_a_page(recorded: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    result = CliRunner().invoke(app, [str(recorded), "--output", str(target), "--json"])
    assert result.exit_code == 0, result.output
    (run,) = json.loads(result.output)["runs"]
    assert run["step"] > 0
    assert sum(run["seconds"].values()) == pytest.approx(run["wall_seconds"])
    figures = drawn(target.read_text())
    assert figures["loss"]["data"][0]["y"] or figures["rate"]["data"][0]["y"]
    assert all(f'id="{name}"' in target.read_text() for name in figures)


def test_the_plan_stands_beside_what_was_measured(log: Path, tmp_path: Path) -> None:
    spec = tmp_path / "run.yaml"
    spec.write_text(SPEC)
    known = planned(spec, tmp_path, Catalog())
    assert known is not None
    assert known.forecast is not None
    history = replace(file_history(log), plan=known.plan, forecast=known.forecast)
    chapter = read_chapter(history)
    found = chapter.against
    assert found is not None
    assert found.step_seconds is not None
    assert found.step_seconds.measured == 2.0
    assert found.step_seconds.planned == known.forecast.time.total
    section = plan_section(chapter)
    assert "step time" in section
    assert "the error bar" in section
    names = [trace["name"] for trace in rate_figure([chapter])["data"]]
    assert "plan" in names
    assert "dense" in report_page([chapter])


def test_a_spec_that_no_longer_resolves_does_not_hide_its_run(tmp_path: Path) -> None:
    spec = tmp_path / "run.yaml"
    spec.write_text(SPEC.replace("gpt3-7.5b", "no-such-model"))
    assert planned(spec, tmp_path, Catalog()) is None


def test_a_spec_with_open_fields_has_a_plan_only_if_one_is_stored(tmp_path: Path) -> None:
    spec = tmp_path / "run.yaml"
    spec.write_text(OPEN)
    assert planned(spec, tmp_path, Catalog()) is None
    wanted = load_plan(spec, (), Catalog(), keep=True)[1]
    known = planned(spec, tmp_path, Catalog())
    assert known is not None
    assert known.plan.digest == wanted.digest


def test_compared_runs_show_planned_and_measured_step_times() -> None:
    found = PlanAgainstRun(Compared(2.0, 0.1, 2.1), None)
    runs = [
        SimpleNamespace(name="tensor", against=found),
        SimpleNamespace(name="unplanned", against=None),
    ]
    figure = planned_figure(cast("list[Chapter]", runs))
    assert figure is not None
    planned, measured = figure["data"]
    assert (planned["x"], planned["y"], planned["error_y"]["array"]) == (["tensor"], [2.0], [0.2])
    assert measured["y"] == [2.1]
    assert planned_figure(cast("list[Chapter]", runs[1:])) is None
