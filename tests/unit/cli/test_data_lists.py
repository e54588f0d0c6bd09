# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial data` for one's own scheduler, the index cache, and addresses with secrets."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seatrial.cli.data_summary import say_estimate, say_outcome
from seatrial.dataprep.drivers.single import main as do_one
from seatrial.dataprep.estimate import estimate
from seatrial.dataprep.prepare import prepare
from seatrial.errors import UsageError
from seatrial.sdk import data as sdk_data
from seatrial.sdk.data import build_index_cache, freeze_data, refuse_secret
from seatrial.sdk.plan import plan
from tests.unit.cli.test_commands import seatrial
from tests.unit.dataprep.little_corpus import InlineDriver, contents, write_corpus

SECRET = "wJalrXUtnFEMI"
ADDRESS = f"s3://AKIAABCDEFGHIJKLMNOP:{SECRET}@bucket/x"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_corpus(tmp_path, sources=2, files=1, count=10)


def test_a_list_is_frozen_and_its_tasks_are_done_one_by_one(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(plan(spec), InlineDriver(), to=str(tmp_path / "expected"))
    done = seatrial("data", "prepare", "run.yaml", "--list-only", "--json", cwd=tmp_path)
    frozen = json.loads(done.stdout)
    assert (frozen["tasks"], frozen["done"]) == (2, 0)
    assert not list((tmp_path / "out").rglob("records/*"))
    assert do_one(["--list", frozen["address"], "--task", "1"]) == 0
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    assert do_one(["--list", frozen["address"]]) == 0
    again = freeze_data(spec)
    assert (again.address, again.done) == (frozen["address"], 2)
    driver = InlineDriver()
    outcome = prepare(plan(spec), driver)
    assert driver.done == []
    assert contents(tmp_path / "out") == contents(tmp_path / "expected")
    capsys.readouterr()
    say_outcome("little", outcome, "", "run.yaml")
    assert "all tasks were already done" in capsys.readouterr().out
    with pytest.raises(UsageError, match="already contains a data set"):
        freeze_data(spec)


@pytest.mark.parametrize("index", ["²", "x", "", "2"])
def test_an_index_that_is_no_task_is_refused(
    index: str,
    spec: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = freeze_data(spec).address
    monkeypatch.setenv("JOB_COMPLETION_INDEX", index)
    assert do_one(["--list", address]) == 2
    said = f"there is no task {index}:" if index else "no task number is set:"
    assert said in capsys.readouterr().err


def test_after_a_resume_only_this_start_is_counted(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        prepare(plan(spec), InlineDriver(stop_after=1))
    outcome = prepare(plan(spec), InlineDriver())
    (second,) = (tmp_path / "corpus" / "s1").iterdir()
    assert (outcome.tasks, outcome.input_bytes) == (1, second.stat().st_size)
    say_outcome("little", outcome, "", "run.yaml")
    assert "1 task (of 2; the others were done earlier)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [("prepare", "run.yaml", "--to", ADDRESS), ("verify", ADDRESS), ("inspect", ADDRESS)],
)
def test_a_secret_in_an_address_is_refused_and_not_printed(
    words: tuple[str, ...], spec: Path
) -> None:
    done = seatrial("data", *words, cwd=spec.parent, code=2)
    assert "credentials from the environment" in " ".join(done.stderr.split())
    assert SECRET not in done.stdout + done.stderr
    assert "AKIA" not in done.stdout + done.stderr


def test_addresses_without_secrets_pass() -> None:
    for address in (None, "/data/x", "s3://bucket/x", "0123456789" * 4):
        refuse_secret(address)


def test_the_index_cache_is_built_again_for_other_weights_and_when_files_are_gone(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(plan(spec), InlineDriver())
    cache = tmp_path / "out" / "cache"
    asked = []

    def build(*_: Any, environment: dict[str, str], **__: Any) -> dict[str, int]:
        asked.append(environment["SEATRIAL_TOKENIZER"])
        cache.mkdir(exist_ok=True)
        for name in ("a-description.txt", "a-shuffle_index.npy"):
            (cache / name).write_text("made")
        return {"built": 2, "there": 0}

    monkeypatch.setattr(sdk_data, "worker_python", lambda _: "python")
    monkeypatch.setattr(sdk_data, "build_engine_cache", build)
    assert build_index_cache(spec).startswith("2 files")
    assert build_index_cache(spec).startswith("already in ")
    assert len(asked) == 1
    (cache / "a-shuffle_index.npy").unlink()
    assert build_index_cache(spec).startswith("2 files")
    (cache / "a-shuffle_index.npy").write_text("cut")
    assert build_index_cache(spec).startswith("2 files")
    weights = [f"data.sources[{i}].weight={i + 1}" for i in range(2)]
    prepare(plan(spec, weights), InlineDriver())
    assert build_index_cache(spec, weights).startswith("2 files")
    assert build_index_cache(spec, weights).startswith("already in ")
    # Named after the tokenizer that training loads.
    assert asked == [str(tmp_path / "out" / "tokenizer")] * 4


def test_a_file_that_is_larger_than_a_task_is_warned_of(
    spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    found = estimate(plan(spec), 2)
    say_estimate(found, "run.yaml")
    assert "never split" not in capsys.readouterr().out
    largest = found.sources[0].largest_file
    assert largest == (spec.parent / "corpus" / "s0" / "0.jsonl.zst").stat().st_size
    say_estimate(type(found)(**{**_fields(found), "task_bytes": largest - 1}), "run.yaml")
    assert "files are never split" in capsys.readouterr().out


def _fields(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__slots__}


def test_the_hub_is_asked_a_few_times_and_in_silence(tmp_path: Path) -> None:
    script = (
        "import http.server, os, sys, threading\n"
        "asked = []\n"
        "class Busy(http.server.BaseHTTPRequestHandler):\n"
        "    def do_HEAD(self):\n"
        "        asked.append(self.path); self.send_response(503); self.end_headers()\n"
        "    do_GET = do_HEAD\n"
        "    def log_message(self, *_): pass\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Busy)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "os.environ['HF_ENDPOINT'] = f'http://127.0.0.1:{server.server_port}'\n"
        "from seatrial.dataprep.tokenizers import locations\n"
        "from seatrial.errors import FindingsError\n"
        "locations._PAUSE = 0\n"
        "try:\n"
        "    locations.locate('hf://acme/tokenizer')\n"
        "except FindingsError as error:\n"
        "    print(error.findings[0].rule)\n"
        "print(sum('resolve' in path for path in asked))\n"
    )
    variables = {"HF_HOME": str(tmp_path), "NO_PROXY": "*", "no_proxy": "*"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    said, count = done.stdout.splitlines()
    assert said.startswith("the Hub does not respond (status 503)")
    assert count == "3"
    assert done.stderr == ""
