# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial plan` as a user calls it."""

import json
from pathlib import Path

import pytest

from tests.conftest import SPEC
from tests.unit.cli.test_commands import seatrial
from tests.unit.planning.search.asked import OPEN


@pytest.fixture
def open_file(tmp_path: Path) -> Path:
    """A spec that leaves everything to the planner."""
    file = tmp_path / "open.yaml"
    file.write_text(OPEN)
    return file


def test_a_page_is_printed_and_the_plan_is_kept(open_file: Path) -> None:
    done = seatrial("plan", "open.yaml", cwd=open_file.parent)
    labels = [line.split()[0] for line in done.stdout.splitlines() if line[:1].strip()]
    labels.remove("check")
    assert labels == [
        *(
            "open",
            "layout",
            "options",
            "batch",
            "learning",
            "memory",
            "step",
            "length",
            "cost",
            "saves",
        ),
        *("why", "tested", "kept", "next"),
    ]
    kept = json.loads((open_file.parent / ".seatrial/open/plan.json").read_text())
    assert kept["plan_digest"][:19] in done.stdout
    again = seatrial("plan", "open.yaml", cwd=open_file.parent)
    assert again.stdout == done.stdout
    assert again.stderr == ""


def test_a_changed_spec_is_said(open_file: Path) -> None:
    seatrial("plan", "open.yaml", cwd=open_file.parent)
    open_file.write_text(OPEN.replace("nodes: 2", "nodes: 4"))
    done = seatrial("plan", "open.yaml", cwd=open_file.parent)
    assert done.stderr.startswith("Planned again: the spec changed since ")


def test_a_calibrated_layout_stays_until_it_is_chosen_again(open_file: Path) -> None:
    here, kept = open_file.parent, open_file.parent / ".seatrial/open/plan.json"
    seatrial("plan", "open.yaml", cwd=here)
    before = kept.read_bytes()
    seatrial("calibrate", "open.yaml", "--seconds", "60,60,60", cwd=here)
    told = [seatrial("plan", "open.yaml", cwd=here) for _ in range(2)]
    # Looking at it twice does not make it one of the new figures.
    assert [done.stderr.count("to search again") for done in told] == [1, 1]
    page = " ".join(told[0].stdout.split())
    assert "calibrated on 3 steps" in page
    assert "60.0 s ± 0.0 %, nine of ten of your steps" in page
    assert "step time: measured with this layout (" in page
    assert kept.read_bytes() == before
    assert seatrial("plan", "open.yaml", "--again", cwd=here).stderr == ""
    assert kept.read_bytes() != before
    assert seatrial("plan", "open.yaml", cwd=here).stderr == ""


def test_json_has_everything(open_file: Path) -> None:
    done = seatrial("plan", "open.yaml", "--json", "--limits", cwd=open_file.parent)
    data = json.loads(done.stdout)
    assert data["plan_digest"].startswith("sha256:")
    assert data["options_off"]["grouped_experts"] == "the model has no experts."
    assert all(data["options_off"].values())
    parts = data["estimate"]["step_parts_seconds"]
    assert sum(parts.values()) == pytest.approx(data["estimate"]["step_seconds"])
    for stage in data["estimate"]["memory"]["stages"]:
        assert sum(stage["parts_bytes"].values()) == stage["total_bytes"]
    assert data["search"]["ranked"][0]["tokens_per_second_per_gpu"] == pytest.approx(
        data["estimate"]["tokens_per_second_per_gpu"]
    )
    length = data["length"]
    assert length["cost"]["as_of"]
    steps = data["plan"]["length"]["steps"]
    assert length["training_seconds"] == pytest.approx(steps * data["estimate"]["step_seconds"])
    lost = length["saving_seconds"] + length["failure_seconds"]
    assert lost > 0
    assert length["seconds"] == pytest.approx(length["training_seconds"] + lost)
    shares = data["saves"]["lost"]
    assert lost / length["seconds"] == pytest.approx(shares["saving"] + shares["failures"])
    assert length["node_hours"] == pytest.approx(2 * length["seconds"] / 3600)
    hourly = length["cost"]["usd_per_hour"]
    assert length["cost"]["usd"] == pytest.approx(hourly * length["node_hours"])
    assert data["limits"]["fewest_nodes"] == 1
    assert data["limits"]["every_fewer_tried"]
    assert data["saves"]["write_seconds_by_tier"]


def test_plans_stand_beside_each_other(open_file: Path) -> None:
    (open_file.parent / "run.yaml").write_text(SPEC)
    both = seatrial("plan", "open.yaml", "--compare", "run.yaml", cwd=open_file.parent).stdout
    shared, *lines = both.splitlines()
    assert shared == "gpt3-7.5b, 2 × p4d.24xlarge, 16 × a100-40gb"
    assert [line.split()[0] for line in lines[:3]] == ["spec", "open.yaml", "run.yaml"]
    assert both.splitlines()[-1].startswith("next  copy the values of one row")
    swept = seatrial(
        "plan",
        "open.yaml",
        "--what-if",
        "cluster.nodes=2,4",
        "--what-if",
        "parallelism.tp_size=3,4",
        "--json",
        cwd=open_file.parent,
    )
    rows = json.loads(swept.stdout)
    assert [row["variant"] for row in rows] == [
        {"cluster.nodes": "2", "parallelism.tp_size": "3"},
        {"cluster.nodes": "2", "parallelism.tp_size": "4"},
        {"cluster.nodes": "4", "parallelism.tp_size": "3"},
        {"cluster.nodes": "4", "parallelism.tp_size": "4"},
    ]
    assert "are not divisible by tp_size 3" in rows[0]["refusal"]
    assert rows[1]["layout"].startswith("tp 4 ·")
    assert (rows[1]["model"], rows[1]["nodes"], rows[1]["gpus"]) == ("gpt3-7.5b", 2, 16)
    for error in ("memory_relative_error", "step_relative_error", "relative_error"):
        assert 0 < rows[1][error] < 1
    assert not (open_file.parent / ".seatrial").exists()


def test_html_is_written_and_replaced(open_file: Path) -> None:
    for _ in range(2):
        seatrial("plan", "open.yaml", "--html", "plan.html", cwd=open_file.parent)
    assert (open_file.parent / "plan.html").read_text().startswith("<!doctype html>")
    bad = seatrial("plan", "open.yaml", "--html", "no/plan.html", cwd=open_file.parent, code=2)
    assert "cannot write no/plan.html" in bad.stderr


def test_html_replaces_nothing_but_such_a_page(open_file: Path) -> None:
    there = open_file.parent
    (there / "mine.html").write_text("<!doctype html><title>mine</title>")
    (there / "link.html").symlink_to("open.yaml")
    before = {path: path.read_text() for path in there.iterdir()}
    for name in ("open.yaml", "link.html", "mine.html"):
        done = seatrial("plan", "open.yaml", "--html", name, cwd=there, code=2)
        assert f"--html {name} exists and was not written by" in " ".join(done.stderr.split())
    assert {path: path.read_text() for path in there.iterdir()} == before


def test_nothing_fits(open_file: Path) -> None:
    done = seatrial("plan", "open.yaml", "model.preset=gpt3-175b", cwd=open_file.parent, code=1)
    assert "error   ST-PLAN-011" in done.stderr
    assert "Use at least " in done.stderr
    given = ("parallelism.tp_size=1", "parallelism.pp_size=1", "parallelism.sharding=none")
    tight = seatrial("plan", "open.yaml", *given, cwd=open_file.parent, code=1)
    assert "Set parallelism and micro_batch_size to auto" in " ".join(tight.stderr.split())


def test_findings_that_only_the_check_lists_are_counted_on_the_page(open_file: Path) -> None:
    weights = "initial_weights={huggingface: 'hf://meta-llama/Llama-2-70b-hf@0123456'}"
    words = (weights, "training.learning_rate.peak=3")
    page = seatrial("plan", "open.yaml", *words, cwd=open_file.parent, COLUMNS="400").stdout
    counted = next(line for line in page.splitlines() if line.startswith("check "))
    listed = seatrial("check", "open.yaml", *words, cwd=open_file.parent)
    codes = [line for line in listed.stdout.splitlines() if line.startswith(("warning", "note"))]
    for severity in ("warning", "note"):
        number = sum(line.startswith(severity) for line in codes)
        noun = severity if number == 1 else f"{severity}s"
        assert (f"{number} {noun}" in counted) == (number > 0)
    assert " not shown here: seatrial check open.yaml " in counted
    assert "\nnext      seatrial rehearse open.yaml " in page
    bucket = "checkpoints.location=s3://bucket/run"
    wrong = seatrial("plan", "open.yaml", bucket, cwd=open_file.parent)
    assert f"\nnext      seatrial check open.yaml {bucket}\n" in wrong.stdout
    # A local run has no manifests to warn about.
    local = ("cluster={profile: local, processes_per_node: 2}", "model.preset=gpt3-125m")
    done = seatrial("plan", "open.yaml", *local, cwd=open_file.parent)
    assert "\ncheck " not in done.stdout


def test_every_number_of_a_sweep_has_an_error_bar(open_file: Path) -> None:
    words = ("plan", "open.yaml", "--what-if", "cluster.nodes=2,4")
    table = seatrial(*words, cwd=open_file.parent, COLUMNS="200").stdout.splitlines()
    assert table[0] == "gpt3-7.5b"
    assert [word for word in table[1].split() if word in ("machine", "GPUs")] == ["machine", "GPUs"]
    for row in table[2:4]:
        # Memory, step time, throughput, duration, cost.
        assert row.count(" ± ") == 5
    narrow = seatrial(*words, cwd=open_file.parent, COLUMNS="60").stdout.splitlines()
    assert narrow[1:3] == ["nodes 2", "  2 × p4d.24xlarge, 16 × a100-40gb"]
    assert narrow[3].startswith("  tp ")
    assert max(map(len, narrow[:-1])) <= 60


def test_overrides_are_not_kept(open_file: Path) -> None:
    done = seatrial("plan", "open.yaml", "cluster.nodes=4", cwd=open_file.parent)
    assert "not stored: overrides apply to this call only" in done.stdout
    assert not (open_file.parent / ".seatrial").exists()


def test_an_option_of_one_plan_is_refused_for_several(open_file: Path) -> None:
    words = ("--what-if", "cluster.nodes=2,4", "--html", "plan.html")
    done = seatrial("plan", "open.yaml", *words, cwd=open_file.parent, code=2)
    assert "Use options from only one of these groups" in done.stderr
    assert not (open_file.parent / "plan.html").exists()


def test_a_sweep_over_no_field_is_a_usage_error(open_file: Path) -> None:
    done = seatrial("plan", "open.yaml", "--what-if", "nodes=2,4", cwd=open_file.parent, code=2)
    assert "Did you mean cluster.nodes?" in done.stderr
    assert done.stdout == ""


def test_a_sweep_without_any_plan_fails(open_file: Path) -> None:
    words = ("plan", "open.yaml", "--what-if")
    none = seatrial(*words, "parallelism.tp_size=3,5", cwd=open_file.parent, code=1)
    assert none.stdout.count("no plan") >= 2
    as_json = seatrial(*words, "parallelism.tp_size=3", "--json", cwd=open_file.parent, code=1)
    assert "are not divisible" in json.loads(as_json.stdout)[0]["refusal"]
    seatrial(*words, "parallelism.tp_size=3,4", cwd=open_file.parent, code=0)


def test_limits_of_a_host_without_gpus_are_said_to_be_unknown(open_file: Path) -> None:
    local = ("cluster={profile: local, processes_per_node: 2}", "model.preset=gpt3-125m")
    done = seatrial("plan", "open.yaml", *local, "--limits", cwd=open_file.parent)
    assert "--limits needs GPUs" in done.stderr
    assert "limits" not in done.stdout


def test_the_plan_warns_of_what_render_would_refuse(open_file: Path) -> None:
    h100_on_gke = ("cluster.profile=gke", "cluster.node_type=a3-highgpu-8g")
    half = (*h100_on_gke, "cluster.processes_per_node=4")
    done = seatrial("plan", "open.yaml", *half, cwd=open_file.parent)
    assert "warning ST-RENDER-003" in done.stderr
    assert "the tcpx-daemon container of gpudirect-tcpx" in " ".join(done.stderr.split())
    done = seatrial("plan", "open.yaml", *h100_on_gke, cwd=open_file.parent)
    assert "ST-RENDER" not in done.stderr
    seatrial("render", "open.yaml", *half, cwd=open_file.parent, code=1)


def test_a_plan_of_years_is_warned_of(open_file: Path) -> None:
    done = seatrial("plan", "open.yaml", "training.tokens=90T", cwd=open_file.parent)
    assert "warning ST-TIME-004" in done.stderr
