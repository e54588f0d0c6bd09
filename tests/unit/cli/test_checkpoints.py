# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial checkpoints` as a user calls it."""

import json
from pathlib import Path

import pytest

from seatrial.checkpoints.setup import Versions
from seatrial.engines.megatron.checkpoint_names import NAMING, TRACKER
from seatrial.engines.megatron.checkpoints import setup_from_arguments
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.runs.history.files import EVENT_LOG
from seatrial.sdk.plan import plan
from tests.unit.checkpoints.made import make_checkpoint, write_files
from tests.unit.cli.test_commands import seatrial


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for step in (10, 20, 30):
        make_checkpoint(tmp_path / "run", step, validation_loss=3.25, size=500)
    write_files(tmp_path / "run" / NAMING.directory_name(40), size=500)
    return tmp_path


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[7] ^= 1
    file.write_bytes(data)


def test_list_says_what_there_is(run: Path) -> None:
    said = seatrial("checkpoints", "list", "run", cwd=run).stdout
    lines = said.splitlines()
    assert lines[0].split() == [
        *["step", "saved", "size", "files", "verified", "layout", "resumes", "to"],
        *["val", "loss", "note"],
    ]
    assert lines[1].split()[0] == "40"
    assert "incomplete: no record" in lines[1]
    assert "any layout" in lines[2]
    assert "3.25" in lines[2]
    assert said.endswith("next  seatrial checkpoints verify run\n")
    data = json.loads(seatrial("checkpoints", "list", "run", "--json", cwd=run).stdout)
    assert [one["step"] for one in data["checkpoints"]] == [40, 30, 20, 10]
    assert [one["state"] for one in data["checkpoints"]] == ["torn", *["committed"] * 3]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Checkpoints as a plain Megatron script saves them."""
    for step in (500, 1000):
        directory = tmp_path / "ck" / NAMING.directory_name(step)
        write_files(directory, size=500)
        for file in directory.glob("*.distcp"):
            file.rename(file.with_name(file.name.replace("_i1_", "_")))
    (tmp_path / "ck" / TRACKER).write_text("1000")
    return tmp_path


def test_checkpoints_of_another_tool_are_neither_interrupted_nor_deleted(plain: Path) -> None:
    listed = seatrial("checkpoints", "list", "ck", cwd=plain).stdout
    assert listed.count("not saved by Seatrial") == 2
    assert listed.endswith("next  seatrial explain ST-CHECKPOINT-015\n")
    done = seatrial("checkpoints", "verify", "ck", cwd=plain, code=1)
    assert "step 1,000  not saved by Seatrial" in done.stdout
    said = " ".join(done.stderr.split())
    assert "ST-CHECKPOINT-015" in said
    assert "interrupted" not in said
    assert "initial_weights.checkpoint" in said
    pruned = seatrial("checkpoints", "prune", "ck", "--yes", cwd=plain).stdout
    assert pruned.count("not saved by Seatrial") == 2
    assert "0 checkpoints deleted" in pruned


def test_checkpoints_of_another_tool_stay_beside_those_of_a_run(plain: Path) -> None:
    make_checkpoint(plain / "ck", 2000, size=500)
    make_checkpoint(plain / "ck", 3000, size=500)
    words = ("checkpoints", "prune", "ck", "--keep-last", "1", "--yes")
    assert seatrial(*words, cwd=plain).stdout.count("not saved by Seatrial") == 2
    assert (plain / "ck" / NAMING.directory_name(500)).is_dir()


def test_an_interrupted_save_alone_has_no_export_to_propose(tmp_path: Path) -> None:
    write_files(tmp_path / "run" / NAMING.directory_name(40), size=500)
    said = seatrial("checkpoints", "list", "run", cwd=tmp_path).stdout
    assert "incomplete: no record" in said
    assert said.endswith("next  seatrial explain ST-CHECKPOINT-014\n")


def test_list_shows_training_losses_of_the_event_log(run: Path) -> None:
    log = EventLog(run / EVENT_LOG)
    for step, loss in ((20, 5.0), (30, 4.5), (20, 4.75)):
        log.write(EventKind.STEP, step, loss=loss)
    log.close()
    lines = seatrial("checkpoints", "list", "run", cwd=run).stdout.splitlines()
    assert lines[0].split()[8:11] == ["loss", "val", "loss"]
    assert [line for line in lines if line.split()[:1] == ["20"] and " 4.75 " in line]
    data = json.loads(seatrial("checkpoints", "list", "run", "--json", cwd=run).stdout)
    assert [one["training_loss"] for one in data["checkpoints"]] == [None, 4.5, 4.75, None]


def test_list_of_nothing(tmp_path: Path) -> None:
    said = " ".join(seatrial("checkpoints", "list", "x", cwd=tmp_path).stdout.split())
    assert said.startswith(f"No checkpoints in {tmp_path}/x. For checkpoints on a run's volume")
    said = " ".join(seatrial("checkpoints", "prune", "x", cwd=tmp_path).stdout.split())
    assert said.startswith(f"No checkpoints in {tmp_path}/x. ")


def test_the_run_of_a_spec_is_named_in_what_comes_next(spec_file: Path) -> None:
    where = ("run.yaml", f"checkpoints.location={spec_file.parent}/none")
    for command in ("list", "prune"):
        said = seatrial("checkpoints", command, *where, cwd=spec_file.parent).stdout
        assert said.endswith("next  seatrial status run.yaml\n")


def test_what_is_not_there_is_not_called_verified(tmp_path: Path) -> None:
    said = seatrial("checkpoints", "verify", "x", cwd=tmp_path, code=2).stderr
    assert "no checkpoints in" in " ".join(said.split())


def test_verify_finds_damage_and_ends_with_1(run: Path) -> None:
    damage(run / "run" / NAMING.directory_name(20) / "__0_i1_0.distcp")
    done = seatrial("checkpoints", "verify", "run", cwd=run, code=1)
    assert "step 20  " in done.stdout
    assert "ST-CHECKPOINT-007" in done.stderr
    assert "1 error, 1 warning" in done.stderr
    listed = json.loads(seatrial("checkpoints", "list", "run", "--json", cwd=run).stdout)
    assert [one["state"] for one in listed["checkpoints"]] == [
        *("torn", "committed", "damaged", "committed")
    ]
    assert [one["verified"] for one in listed["checkpoints"]] == [False, True, False, True]


def test_verify_says_of_every_checkpoint_what_came_of_it(run: Path) -> None:
    said = seatrial("checkpoints", "verify", "run", cwd=run).stdout.splitlines()
    assert said[0] == "step 40  incomplete"
    assert [line.split()[-1] for line in said[1:4]] == ["ok"] * 3
    said = seatrial("checkpoints", "verify", "run", cwd=run).stdout.splitlines()
    assert all(line.endswith("skipped; use --again to verify it again") for line in said[1:4])
    damage(run / "run" / NAMING.directory_name(30) / "__0_i1_0.distcp")
    # Asked for by its number, or anew, it is read.
    for words in (("--step", "30"), ("--again",)):
        done = seatrial("checkpoints", "verify", "run", *words, cwd=run, code=1)
        assert "step 30  " in done.stdout
        assert "ST-CHECKPOINT-007" in done.stderr


def test_verify_of_what_was_never_committed_does_not_succeed(run: Path) -> None:
    done = seatrial("checkpoints", "verify", "run", "--step", "40", cwd=run, code=1)
    assert done.stdout == "step 40  incomplete\n"
    (run / "empty").mkdir()
    for place in ("empty", "nowhere"):
        done = seatrial("checkpoints", "verify", place, cwd=run, code=2)
        assert "no checkpoints in" in done.stderr
    write_files(run / "begun" / NAMING.directory_name(10))
    seatrial("checkpoints", "verify", "begun", cwd=run, code=1)


def test_a_place_of_damaged_ones_is_not_called_empty(tmp_path: Path) -> None:
    write_files(tmp_path / "run" / NAMING.directory_name(10), size=500)
    done = seatrial("checkpoints", "copy", "run", "copy", cwd=tmp_path, code=2)
    assert "1 found, all incomplete or damaged" in done.stderr


def test_prune_removes_nothing_until_it_is_told_to(run: Path) -> None:
    said = seatrial("checkpoints", "prune", "run", "--keep-last", "1", cwd=run).stdout
    assert "would delete" in said
    assert (run / "run" / NAMING.directory_name(10)).exists()
    seatrial("checkpoints", "pin", "run", "--step", "10", "--why", "paper", cwd=run)
    seatrial("checkpoints", "prune", "run", "--keep-last", "1", "--yes", cwd=run)
    assert (run / "run" / NAMING.directory_name(10)).exists()
    seatrial("checkpoints", "pin", "run", "--step", "10", "--off", cwd=run)
    said = seatrial("checkpoints", "prune", "run", "--keep-last", "1", "--yes", cwd=run).stdout
    assert "1 checkpoint deleted" in said
    left = sorted(path.name for path in (run / "run").glob("iter_*"))
    assert left == [NAMING.directory_name(step) for step in (20, 30, 40)]


def test_copy_and_what_it_refuses(run: Path) -> None:
    said = seatrial("checkpoints", "copy", "run", "copy", "--step", "20", cwd=run).stdout
    assert said.startswith("step 20 is in copy: 4 files")
    done = seatrial("checkpoints", "copy", "run", "copy", "--step", "40", cwd=run, code=1)
    assert "only a committed checkpoint can be copied" in done.stderr
    done = seatrial("checkpoints", "copy", "run", "copy", "--step", "99", cwd=run, code=2)
    assert "no checkpoint at step 99" in done.stderr


def test_the_verdict_compares_a_spec_with_a_checkpoint(spec_file: Path) -> None:
    home = spec_file.parent
    planned = plan(spec_file)
    versions = Versions("0.1.0", "megatron-core 0.19.2", "")
    setup = setup_from_arguments(engine_arguments(planned), versions, planned.layout.world_size)
    make_checkpoint(home / "run", 10, setup=setup, size=500)
    words = ("checkpoints", "resume-verdict", "run.yaml")
    said = seatrial(*words, "--from", "run", cwd=home).stdout
    assert said == (
        "step 10: safe. The run continues exactly as if it had not been interrupted.\n"
        "next  seatrial launch run.yaml\n"
    )
    said = seatrial(*words, "training.seed=5", "--from", "run", cwd=home, code=1).stdout
    assert said.startswith("step 10: data order changes.")
    assert "seed: 1234 → 5" in said
    said = seatrial(*words, "parallelism.tp_size=2", "--from", "run", cwd=home).stdout
    assert said.startswith("step 10: safe with resharding.")
    done = seatrial(*words, "model.preset=gpt3-1.7b", "--from", "run", cwd=home, code=1)
    assert done.stdout.startswith("step 10: impossible.")
    assert "hidden size: 4096 → 2304" in done.stdout


def test_a_spec_names_the_place_and_the_policy(spec_file: Path) -> None:
    home = spec_file.parent
    for step in (10, 20, 30, 40):
        make_checkpoint(home / "saved", step, size=500)
    where = f"checkpoints.location={home / 'saved'}"
    words = ("checkpoints", "prune", "run.yaml", where, "checkpoints.keep_last=2", "--json")
    decisions = json.loads(seatrial(*words, cwd=home).stdout)["decisions"]
    assert [one["step"] for one in decisions if one["kept"]] == [40, 30]


def test_an_export_needs_the_worker_and_a_whole_checkpoint(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("checkpoints", "export", "run", "--to", "out")
    monkeypatch.setenv("SEATRIAL_WORKER_PYTHON", "/none/python")
    assert "environment with Megatron" in seatrial(*words, cwd=run, code=3).stderr
    imported = ("checkpoints", "import", "hub", "--to", "out")
    assert "environment with Megatron" in seatrial(*imported, cwd=run, code=3).stderr
    monkeypatch.setenv("SEATRIAL_WORKER_PYTHON", "/bin/true")
    fetched = ("checkpoints", "import", "hf://meta-llama/Llama-2-7b-hf", "--to", "out")
    assert "hf download" in " ".join(seatrial(*fetched, cwd=run, code=2).stderr.split())
    done = seatrial(*words, "--step", "40", cwd=run, code=1)
    assert "the save was interrupted" in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_export_is_compared_by_the_spec_of_its_run(spec_file: Path) -> None:
    home = spec_file.parent
    words = ("checkpoints", "export", "saved", "--to", "out", "--compare")
    assert "Pass the run.yaml instead of saved" in seatrial(*words, cwd=home, code=2).stderr
    stored = ("checkpoints", "export", "run.yaml", "checkpoints.location=s3://bucket/run")
    done = seatrial(*stored, "--to", "out", "--compare", cwd=home, code=2)
    assert "s3://bucket/run is in an object store. Copy it" in done.stderr
    make_checkpoint(home / "saved", 10, size=500)
    other = ("checkpoints", "export", "run.yaml", f"checkpoints.location={home / 'saved'}")
    done = seatrial(*other, "--to", "out", "--compare", cwd=home, code=2)
    assert "describes a different model than the checkpoint at step 10" in done.stderr
    assert "omit --compare" in done.stderr


def test_an_export_that_is_there_is_not_made_again(run: Path) -> None:
    out = run / "out"
    out.mkdir()
    record = make_checkpoint(run / "run", 60, size=500)
    told = {"record": record.identity, "step": 60, "files": {"model.safetensors": "x"}}
    (out / "seatrial-export.json").write_text(json.dumps(told))
    words = ("checkpoints", "export", "run", "--to", "out")
    nowhere = {"SEATRIAL_WORKER_PYTHON": "/none/python"}
    # Without its files it is none.
    assert "is in out already" not in seatrial(*words, cwd=run, code=3, **nowhere).stdout
    (out / "model.safetensors").touch()
    done = seatrial(*words, cwd=run).stdout
    assert done.startswith("step 60 is already in out, exported from this checkpoint.\nnext")
    gate = {"logits": {"equal": True, "largest_difference": 2e-7, "tokens": 128, "says": ""}}
    (out / "seatrial-export.json").write_text(json.dumps(told | gate))
    done = seatrial(*words, cwd=run).stdout
    assert (
        "\nlogits      128 tokens in transformers: largest difference from the engine 2e-07\n"
        in done
    )
    (out / "seatrial-export.json").write_text(json.dumps(told | {"record": "another"}))
    assert "is in out already" not in seatrial(*words, cwd=run, code=3, **nowhere).stdout
