# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The way of a run, and going on where it stopped."""

import errno
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seatrial.catalog.catalog import Catalog
from seatrial.cli.run import app
from seatrial.errors import ExitCode, MissingExtraError, UsageError
from seatrial.recipes.shipped import recipe
from seatrial.reports.terminal import NO_NEXT
from seatrial.sdk import pipeline
from seatrial.sdk.pipeline import KEPT, LOCK, Logbook, alone, steps
from seatrial.spec.loader import load
from tests.conftest import plan_spec, resolved
from tests.unit.cli.test_commands import seatrial


def names(*overrides: str) -> list[str]:
    return [step.name for step in steps(Path("run.yaml"), (), resolved(*overrides))]


def test_a_run_in_a_cluster_is_prepared_checked_and_launched_there() -> None:
    plan = resolved("data={sources: [{from: corpus/}], tokenizer: hf://gpt2}")
    way = {step.name: step.words for step in steps(Path("run.yaml"), ("name=a",), plan)}
    assert list(way) == [
        *("rules", "cluster", "data", "plan", "check", "rehearse", "launch", "wait"),
        *("verify", "export", "report"),
    ]
    # Hours of tokenizing must not precede an error that the API server knows at once.
    assert way["cluster"] == ("check", "run.yaml", "name=a", "--cluster")
    assert way["data"] == ("data", "prepare", "run.yaml", "name=a", "--on", "kubernetes")
    assert way["check"][-1] == "--cluster"
    assert way["verify"][-2:] == ("--on", "kubernetes")
    assert way["export"][-4:] == ("--to", "/data/slim-7b/weights", "--on", "kubernetes")


def test_a_run_on_this_host_ends_with_weights_that_others_can_load() -> None:
    here = ("cluster={profile: local, processes_per_node: 8}", "parallelism.tp_size=4")
    assert names(*here)[-4:] == ["wait", "verify", "export", "report"]


def test_an_export_goes_through_the_gate_where_the_model_fits_a_host() -> None:
    def is_compared(*overrides: str) -> bool:
        way = {step.name: step.words for step in steps(Path("run.yaml"), (), resolved(*overrides))}
        return "--compare" in way["export"]

    here = ("cluster={profile: local, processes_per_node: 8}", "parallelism.tp_size=4")
    assert is_compared("model.preset=gpt3-356m", *here)
    assert not is_compared("model.preset=gpt3-356m", *here, "checkpoints.location=s3://bucket/run")
    # 7.5 billion parameters; and an image for GPUs, which no pod without one has tried.
    assert not is_compared(*here)
    assert not is_compared("model.preset=gpt3-356m")


def test_a_run_of_llm_foundry_ends_with_them_too() -> None:
    here = "cluster={profile: local, processes_per_node: 2}"

    def of_recipe(*overrides: str) -> list[str]:
        plan = plan_spec(load(recipe("aks-mpt-125m").path, (here, *overrides)), Catalog())
        return [step.name for step in steps(Path("run.yaml"), (), plan)]

    assert of_recipe()[-3:] == ["verify", "export", "report"]
    # GPT-2, which has the parts of such an MPT else, does not clip.
    assert "export" not in of_recipe("engine.options={model.attn_config.clip_qkv: 6}")


def test_prepared_data_are_not_prepared() -> None:
    assert "data" not in names("data={sources: [{prepared: /data/a}], tokenizer: hf://gpt2}")


def test_what_was_done_holds_for_the_same_spec_only(tmp_path: Path) -> None:
    file = tmp_path / "kept" / KEPT
    book = Logbook(file, {"name": "a"})
    book.note("rules")
    book.note("plan")
    assert Logbook(file, {"name": "a"}).has("plan")
    assert not Logbook(file, {"name": "b"}).has("rules")
    book.forget_from(("plan", "check"))
    again = Logbook(file, {"name": "a"})
    assert (again.has("rules"), again.has("plan")) == (True, False)
    file.write_text("[")
    assert not Logbook(file, {"name": "a"}).has("rules")


def test_state_under_its_former_names_is_still_read(tmp_path: Path) -> None:
    Logbook(tmp_path / "voyage.json", {"name": "a"}).note("rules")
    book = Logbook(tmp_path / KEPT, {"name": "a"})
    assert book.has("rules")
    book.note("plan")
    assert Logbook(tmp_path / KEPT, {"name": "a"}).has("plan")
    book.forget_from(("rules", "plan"))
    # The new file counts as soon as it exists.
    assert not Logbook(tmp_path / KEPT, {"name": "a"}).has("rules")


def test_a_lock_under_its_former_name_keeps_others_out(tmp_path: Path) -> None:
    (tmp_path / "voyage.lock").touch()
    with alone(tmp_path, "a"), pytest.raises(UsageError, match="already"), alone(tmp_path, "a"):
        pass
    assert not (tmp_path / LOCK).exists()


def test_it_stops_where_it_is_told_and_goes_on_from_there(spec_file: Path) -> None:
    first = seatrial("run", "run.yaml", "--until", "rules", cwd=spec_file.parent)
    assert "rules: apply every rule" in first.stderr
    assert first.stdout.endswith(
        "Stopped after step rules (--until).\nnext  seatrial run run.yaml\n"
    )
    shown = seatrial("run", "run.yaml", "--show", cwd=spec_file.parent).stdout.splitlines()
    assert [line.split()[0] for line in shown][:1] == ["done"]
    assert [line for line in shown if line.startswith("next")] == [shown[1]]
    again = seatrial("run", "run.yaml", "--until", "rules", cwd=spec_file.parent)
    assert "rules: apply every rule" not in again.stderr


def test_a_second_walk_of_a_run_is_refused_while_one_is_under_way(spec_file: Path) -> None:
    kept = spec_file.parent / ".seatrial" / "slim-7b"
    until = ("run", "run.yaml", "--until", "rules")
    with alone(kept, "slim-7b"):
        refused = seatrial(*until, cwd=spec_file.parent, code=2)
        # To look harms nothing.
        seatrial("run", "run.yaml", "--show", cwd=spec_file.parent)
    assert f"process {os.getpid()} on " in refused.stderr
    assert "is already running slim-7b" in refused.stderr
    assert "── 1 of" not in refused.stderr
    seatrial(*until, cwd=spec_file.parent)
    # Nobody holds what the last one has left.
    with alone(kept, "slim-7b"):
        pass


def test_a_walk_says_where_it_cannot_write(spec_file: Path) -> None:
    (spec_file.parent / ".seatrial").write_text("in the way")
    refused = seatrial("run", "run.yaml", "--until", "rules", cwd=spec_file.parent, code=2)
    assert ".seatrial: Not a directory" in refused.stderr


def test_what_a_killed_walk_has_begun_keeps_others_out(spec_file: Path) -> None:
    kept = spec_file.parent / ".seatrial" / "slim-7b"
    with alone(kept, "slim-7b") as lock:
        step = subprocess.Popen(["sleep", "60"], pass_fds=(lock,))
    try:
        # The walk has let go of it, and its step has not.
        with pytest.raises(UsageError, match="is already running slim-7b"), alone(kept, "slim-7b"):
            pass
    finally:
        step.kill()
        step.wait()


def test_a_walk_goes_on_where_a_file_system_has_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    with alone(tmp_path, "a"):
        assert (tmp_path / LOCK).read_text().startswith("process ")


def test_a_step_that_needs_somebody_stops_it(spec_file: Path) -> None:
    too_large = ("parallelism.tp_size=1", "parallelism.sequence_parallel=false")
    until = ("--until", "rules")
    wrong = seatrial("run", "run.yaml", *too_large, *until, cwd=spec_file.parent, code=1)
    assert "ST-PLAN-011" in wrong.stdout
    assert "Stopped at step 1 of" in wrong.stderr
    assert f"then rerun: seatrial run run.yaml {' '.join(too_large)}" in wrong.stderr


def test_an_unknown_step_is_answered_with_those_there_are(spec_file: Path) -> None:
    wrong = seatrial("run", "run.yaml", "--from", "sail", cwd=spec_file.parent, code=2)
    assert "unknown step sail. Use one of: rules, " in wrong.stderr


def test_steps_do_not_name_what_follows_them(spec_file: Path) -> None:
    alone = seatrial("check", "run.yaml", cwd=spec_file.parent)
    within = seatrial("run", "run.yaml", "--until", "plan", cwd=spec_file.parent)
    assert "next  seatrial rehearse run.yaml" in alone.stdout
    assert " rules, " in within.stdout
    assert "\nlayout " in within.stdout
    said = [line for line in within.stdout.splitlines() if line.startswith("next")]
    assert said == ["next  seatrial run run.yaml"]


def test_what_later_steps_need_is_asked_for_before_the_first(spec_file: Path) -> None:
    none = "/nowhere/python"
    here = ("cluster={profile: local, processes_per_node: 8}", "parallelism.tp_size=4")
    told = seatrial(
        "run", "run.yaml", *here, cwd=spec_file.parent, code=3, SEATRIAL_WORKER_PYTHON=none
    )
    assert "── 1 of" not in told.stderr
    assert "rehearse, launch, export: SEATRIAL_WORKER_PYTHON is /nowhere/python" in told.stderr
    assert "To install all" not in told.stderr
    # The steps before them can be done.
    way = ("run", "run.yaml", *here, "--until", "plan")
    seatrial(*way, cwd=spec_file.parent, SEATRIAL_WORKER_PYTHON=none)


def test_a_run_that_has_failed_is_launched_again(
    spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    class Child:
        def __init__(self, words: list[str], **_: Any) -> None:
            called.append(words[words.index(NO_NEXT) + 1])
            failed = called[-1] == "wait" and called.count("wait") == 1
            self.code = ExitCode.RUN_FAILED if failed else 0

        def __enter__(self) -> "Child":
            return self

        def __exit__(self, *_: object) -> None: ...

        def wait(self) -> int:
            return self.code

    monkeypatch.setattr("subprocess.Popen", Child)
    monkeypatch.setattr("seatrial.sdk.pipeline.require_all", lambda *_: None)
    first = CliRunner().invoke(app, [str(spec_file)])
    assert first.exit_code == ExitCode.RUN_FAILED
    assert "Fix the problem above" not in first.output
    assert f"To launch it again from its last checkpoint: seatrial run {spec_file}" in first.output
    assert "seatrial diagnose slim-7b" in first.output
    assert called[-2:] == ["launch", "wait"]
    called.clear()
    called.append("wait")
    assert CliRunner().invoke(app, [str(spec_file)]).exit_code == 0
    assert called[1:3] == ["launch", "wait"]


@pytest.mark.parametrize(
    ("step", "code", "said"),
    [
        ("wait", 143, "slim-7b may still be running. To wait for it again: seatrial run"),
        ("rehearse", 143, "Signal 15 ended the command. To repeat it: seatrial run"),
        ("rehearse", 1, "Fix the problem above, then rerun: seatrial run"),
    ],
)
def test_a_step_that_was_killed_is_not_a_problem_to_fix(
    spec_file: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int, said: str
) -> None:
    monkeypatch.setattr("seatrial.sdk.pipeline.require_all", lambda *_: None)
    monkeypatch.setattr(
        "seatrial.sdk.pipeline._call", lambda called, _: code if called.name == step else 0
    )
    done = CliRunner().invoke(app, [str(spec_file)])
    assert done.exit_code == code
    assert said in done.output


def test_a_renamed_run_is_waited_for_by_its_name() -> None:
    given = ("name=second", "cluster.namespace=other")
    plan = resolved(*given)
    way = {step.name: step.words for step in steps(Path("run.yaml"), given, plan)}
    assert way["wait"] == ("wait", "second", "--namespace", "other")
    assert way["report"] == ("report", "second", "--namespace", "other")
    longer = ("training.steps=2000",)
    way = {step.name: step.words for step in steps(Path("run.yaml"), longer, resolved(*longer))}
    assert way["wait"] == ("wait", "run.yaml")


def test_all_missing_extras_are_installed_by_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = ("kubernetes", "plotly")
    for module in ("seatrial.runs.launch.connect", "seatrial.reports.run_page.page"):
        monkeypatch.setattr(
            f"{module}.find_spec", lambda name: None if name in absent else find_spec(name)
        )
    plan = resolved("data={sources: [{from: corpus/}], tokenizer: hf://gpt2}")
    way = [step for step in steps(Path("run.yaml"), (), plan) if step.name != "rehearse"]
    with pytest.raises(MissingExtraError, match="no step was started") as told:
        pipeline.require_all(way, plan)
    assert "To install all, in a Seatrial checkout, run: pip install '.[cluster,report]'" in str(
        told.value
    )
