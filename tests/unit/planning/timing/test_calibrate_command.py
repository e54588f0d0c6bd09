# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial calibrate`, called as the command line calls it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seatrial.catalog.catalog import Catalog
from seatrial.cli.calibrate import app
from seatrial.errors import UsageError
from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.planning.plan import Plan
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.runs.history.steps import difference, further, logged_steps, signature
from seatrial.runs.kept_plan import find
from seatrial.sdk.plan import load_plan
from seatrial.spec.loader import load
from tests.unit.planning.search.asked import OPEN


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "open.yaml"
    file.write_text(OPEN)
    return file


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def predicted(spec: Path) -> float:
    return float(json.loads(run(spec, "--seconds", "30,30,30", "--json"))["predicted"])


def test_times_set_a_factor_that_is_kept_beside_the_spec(spec: Path) -> None:
    before = predicted(spec)
    said = run(spec, "--seconds", f"{1.2 * before},{1.2 * before},{1.21 * before}")
    assert "factor     1.200" in said
    assert "-16.7%" in said
    kept = json.loads((spec.parent / ".seatrial/open/calibration.json").read_text())
    assert kept["scale"] == pytest.approx(1.2)
    # A second calibration starts from the same prediction, not from the calibrated one.
    assert predicted(spec) == pytest.approx(before)


TIMES = (90.0, 40.0, 30.0, 30.2, 29.9, 55.0, 30.1)


def logged(spec: Path, starts: list[dict[str, Any]]) -> Path:
    """An event log with the same steps after each start."""
    file = spec.parent / "events.jsonl"
    log = EventLog(file)
    for ran in starts:
        log.write(EventKind.START, 0, **ran)
        for step, seconds in enumerate(TIMES, 1):
            log.write(EventKind.STEP, step, seconds=seconds, loss=2.0)
        log.write(EventKind.STEP, 8, seconds=3.0, skipped=True)
    return file


def planned(spec: Path) -> Plan:
    return load_plan(spec, (), Catalog(), keep=False)[1]


def test_an_event_log_gives_its_steps_start_by_start(spec: Path) -> None:
    log = logged(spec, [dict(signature(planned(spec)))])
    assert [start.seconds for start in logged_steps(log)] == [list(TIMES)]
    found = json.loads(run(spec, "--events", log, "--json"))
    assert found["measured"] == pytest.approx(30.05)
    assert (found["steps"], found["warm_up"], found["outliers"]) == (4, 2, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"world_size": 32},
        {"tp_size": 8},
        {"recompute": "full"},
        {"micro_batch_size": 64},
        {"hidden_size": 128},
        {"plan_digest": "sha256:0123456789abcdef"},
    ],
)
def test_steps_of_another_layout_are_refused(spec: Path, other: dict[str, Any]) -> None:
    own = dict(signature(planned(spec)))
    log = logged(spec, [own | other])
    with pytest.raises(UsageError, match="none of the 1 starts with steps did") as caught:
        run(spec, "--events", log)
    (name, value) = next(iter(other.items()))
    told = str(value)[:19] if name == "plan_digest" else f"it ran with {name} {value}, but"
    assert told in str(caught.value)
    assert str(log) in str(caught.value)
    # Where another start of the log ran the plan, only its steps used.
    again = logged(spec, [own | {"plan_digest": planned(spec).digest}])
    assert json.loads(run(spec, "--events", again, "--json"))["warm_up"] == 2


def test_a_start_that_says_little_is_not_taken_for_the_plans(spec: Path) -> None:
    own = dict(signature(planned(spec)))
    log = logged(spec, [{"world_size": own["world_size"]}])
    with pytest.raises(
        UsageError, match="it does not record its tp_size, pp_size, vp_size, cp_size"
    ):
        run(spec, "--events", log)
    with pytest.raises(UsageError, match="it does not record its hidden_size"):
        run(spec, "--events", logged(spec, [own | {"hidden_size": None}]))
    with pytest.raises(UsageError, match="does not record its number of ranks"):
        run(spec, "--events", logged(spec, [own | {"world_size": None}]))


@pytest.mark.parametrize(
    "other",
    [
        {"sequence_parallel": False},
        {"sharding": "fsdp"},
        {"first_stage_layers": 3},
        {"last_stage_layers": 3},
        {"pipeline_layout": "Et|tL"},
    ],
)
def test_what_a_start_says_beyond_the_sizes_is_compared_too(
    spec: Path, other: dict[str, Any]
) -> None:
    plan = planned(spec)
    whole = dict(signature(plan)) | further(plan)
    assert difference(whole, plan) == ""
    (name, value) = next(iter(other.items()))
    assert whole[name] != value
    assert difference(whole | other, plan).startswith(f"it ran with {name} {value}, but the plan")


def test_times_are_not_compared_with_a_plan_that_never_ran(spec: Path) -> None:
    load_plan(spec, (), Catalog())
    own = dict(signature(planned(spec)))
    spec.write_text(OPEN.replace("nodes: 2", "nodes: 4"))
    with pytest.raises(UsageError, match=r"^the spec changed since .* --events") as caught:
        run(spec, "--seconds", "30,30,30")
    assert f"seatrial plan {spec}" in str(caught.value)
    # A log says what ran, and is held against what the spec leads to now.
    with pytest.raises(UsageError, match="it ran with world_size 16, but the plan has 32"):
        run(spec, "--events", logged(spec, [own]))
    new = logged(spec, [dict(signature(planned(spec)))])
    assert "Planned again: the spec changed since" in run(spec, "--events", new)
    # Overrides are for one call: the kept plan is not this call's, and is not held against it.
    spec.write_text(OPEN)
    said = run(spec, "cluster.nodes=4", "--seconds", "30,30,30")
    assert "factor     " in said
    assert "Planned again" not in said


def test_a_start_that_says_nothing_is_not_taken_for_the_plans(spec: Path) -> None:
    with pytest.raises(UsageError, match="does not record its number of ranks"):
        run(spec, "--events", logged(spec, [{}]))


def test_the_words_claim_no_more_than_the_steps_show(spec: Path) -> None:
    said = run(spec, "--seconds", "26,28,30,32,34")
    assert "now the same" not in said
    assert "factor     " in said
    before, after = said.split("predicted  ")[1].split("\n")[0].split("), ")
    assert before.split()[0] != after.split()[0]
    assert "expect larger errors for very different layouts" in " ".join(said.split())


def test_the_measured_layout_and_others_have_errors_of_their_own(spec: Path) -> None:
    load_plan(spec, (), Catalog())
    data = json.loads(run(spec, "--seconds", "30,30.1,29.9,30.05,29.95", "--json"))
    said = run(spec, "--seconds", "30,30.1,29.9,30.05,29.95")
    # 1.645 standard deviations, each 1.4826 median deviations of 0.05 / 30.
    assert "this layout: 90% of steps within 0.4%" in said
    loaded = load(spec)
    found = find(resolve_basis(loaded, Catalog()), spec)
    planned = plan_run(
        resolve_basis(loaded, Catalog()), calibration=found.calibration, kept=found.choices
    )
    assert planned.time_error is not None
    assert planned.time_error.nine_of_ten == pytest.approx(0.0041, abs=2e-4)
    after, before = data["expected_error_after"], data["expected_error_before"]
    assert after["nine_of_ten"] > 0.05
    narrowed = after["nine_of_ten"] < before["nine_of_ten"]
    said = " ".join(said.split())
    assert ("measured on published benchmarks, each calibrated" in said) is narrowed
    assert ("measured on published runs without calibration" in said) is not narrowed


@pytest.mark.parametrize("times", ["", "12,x,13", "12,-1,13", "12,inf,13"])
def test_what_is_not_a_time_is_refused(spec: Path, times: str) -> None:
    with pytest.raises(UsageError, match="is not a positive number"):
        run(spec, "--seconds", times)


def test_nothing_and_both_are_refused(spec: Path) -> None:
    with pytest.raises(UsageError, match="either --events"):
        run(spec)
    with pytest.raises(UsageError, match="either --events"):
        run(spec, "--seconds", "1,2,3", "--events", "x")


def test_a_log_without_steps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UsageError, match="no step times"):
        logged_steps(tmp_path / "empty.jsonl")
    with pytest.raises(UsageError, match="not a file"):
        logged_steps(tmp_path / "absent.jsonl")


@pytest.mark.parametrize("content", [b"\x80\x81\n\xff", b"[1]\n", b"1\n", b""])
def test_what_is_no_event_log_is_said(tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "events.jsonl"
    log.write_bytes(content)
    with pytest.raises(UsageError, match="Is it an event log"):
        logged_steps(log)


def test_a_place_that_cannot_hold_a_calibration_is_said(spec: Path) -> None:
    (spec.parent / ".seatrial").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        run(spec, "--seconds", "30,30,30")


def test_a_directory_in_place_of_a_calibration_is_said(spec: Path) -> None:
    (spec.parent / ".seatrial/open/calibration.json").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"calibration\.json cannot be written: Is a directory"):
        run(spec, "--seconds", "30,30,30")
