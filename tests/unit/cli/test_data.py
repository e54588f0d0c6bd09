# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial data` as a user calls it."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from seatrial.cli import interrupts
from seatrial.cli.data_progress import format_rate, format_seconds
from seatrial.cli.data_summary import histogram
from seatrial.errors import UsageError
from seatrial.sdk.data import freeze_data, prepare_data
from tests.unit.cli.test_commands import seatrial
from tests.unit.cli.test_startup import loaded_by
from tests.unit.dataprep.little_corpus import contents, write_corpus


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are not broken, whatever width the tests themselves run in."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus that is prepared once."""
    directory = tmp_path_factory.mktemp("home")
    write_corpus(directory)
    variables = {"PYTHONPATH": str(Path(__file__).parents[3] / "src"), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "data", "prepare", "run.yaml"],
        cwd=directory,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    (directory / "said").write_text(done.stdout)
    return directory


def test_prepare_says_what_came_of_it(home: Path) -> None:
    said = (home / "said").read_text()
    assert "360 documents" in said
    assert "5 .bin/.idx pairs" in said
    for words in ("s0", "  Chart", "lengths   ", "bad       none of 360 lines", "core-seconds"):
        assert words in said
    assert f"data      {home}/out (blend.txt, dataset.json)" in said
    assert said.endswith("next      seatrial rehearse run.yaml\n")


def test_prepare_again_says_that_nothing_was_to_do(home: Path) -> None:
    before = contents(home / "out")
    done = seatrial("data", "prepare", "run.yaml", cwd=home)
    assert "little is already prepared." in done.stdout
    found = json.loads(seatrial("data", "prepare", "run.yaml", "--json", cwd=home).stdout)
    assert (found["is_new"], found["documents"], found["tasks"]) == (False, 360, 0)
    assert contents(home / "out") == before


def test_prepare_elsewhere_says_where_training_will_look(home: Path, tmp_path: Path) -> None:
    done = seatrial("data", "prepare", "run.yaml", "--to", str(tmp_path), "--workers=1", cwd=home)
    assert f"copy it to {home}/out, where the run" in " ".join(done.stdout.split())
    assert contents(tmp_path) == contents(home / "out")


def test_the_volume_of_a_cluster_is_not_made_up_on_this_host(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    absent = tmp_path / "volume"
    moved = (f"cluster.storage.mount={absent}", f"data.location={absent}/data")
    for command in (prepare_data, freeze_data):
        with pytest.raises(UsageError, match=rf"has no {absent}.*--on kubernetes.*--to DIR"):
            command(tmp_path / "run.yaml", moved)
    assert not absent.exists()
    # Somebody has mounted it.
    absent.mkdir()
    assert freeze_data(tmp_path / "run.yaml", moved).tasks


def test_other_data_are_refused(home: Path) -> None:
    done = seatrial(
        *("data", "prepare", "run.yaml", "data.preparation.empty_documents=drop"),
        cwd=home,
        code=1,
    )
    assert "contains a data set that was prepared with empty_documents keep" in done.stderr


def test_estimate_of_a_corpus_that_is_read_whole_is_exact(home: Path) -> None:
    found = json.loads(seatrial("data", "estimate", "run.yaml", "--json", cwd=home).stdout)
    prepared = json.loads(seatrial("data", "verify", "run.yaml", "--json", cwd=home).stdout)
    assert found["tokens"]["middle"] == prepared["tokens"]
    assert found["documents"]["middle"] == prepared["documents"]
    size = sum(f.stat().st_size for end in ("bin", "idx") for f in (home / "out").glob(f"*.{end}"))
    assert found["disk_bytes"]["middle"] == pytest.approx(size, rel=0.05)


def test_estimate_speaks_of_tokens_disk_and_time(home: Path) -> None:
    said = seatrial("data", "estimate", "run.yaml", "--cores", "64", cwd=home).stdout
    for words in (
        "tokens    ",
        "epochs    ",
        "disk      ",
        "during the preparation",
        "core-seconds",
        "on 64 cores",
    ):
        assert words in said


def test_verify_says_that_all_is_well(home: Path) -> None:
    said = seatrial("data", "verify", str(home / "out"), cwd=home).stdout
    assert "verified  sizes, digests" in said


def test_verify_finds_a_changed_byte(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(home / "out", copy)
    data = bytearray((copy / "s1-00000.bin").read_bytes())
    data[100] ^= 1
    (copy / "s1-00000.bin").write_bytes(data)
    done = seatrial("data", "verify", str(copy), cwd=home, code=1)
    assert "ST-DATASET-020" in done.stderr
    assert "s1-00000.bin" in done.stderr
    found = json.loads(seatrial("data", "verify", str(copy), "--json", cwd=home, code=1).stdout)
    assert "ST-DATASET-020" in [finding["code"] for finding in found["findings"]]


def test_verify_of_nothing_is_refused(tmp_path: Path) -> None:
    done = seatrial("data", "verify", str(tmp_path), cwd=tmp_path, code=2)
    assert "has no dataset.json" in done.stderr


def test_inspect_shows_documents(home: Path) -> None:
    first = seatrial("data", "inspect", "run.yaml", cwd=home).stdout
    assert "document 0 of " in first
    shown = seatrial(
        *("data", "inspect", "run.yaml", "--file", "s1-00000", "--document", "3"), cwd=home
    ).stdout
    heading, text = shown.split("\n", 1)
    assert heading.startswith("document 3 of 120 in s1-00000: ")
    assert text.rstrip().endswith("<|endoftext|>")
    as_json = json.loads(
        seatrial(
            *("data", "inspect", "run.yaml", "--file", "s1-00000", "--document", "3", "--json"),
            cwd=home,
        ).stdout
    )
    assert as_json["text"] == text.rstrip("\n")


def test_inspect_explains_the_index(home: Path) -> None:
    said = seatrial(
        *("data", "inspect", "run.yaml", "--file", "s1-00000.idx", "--bytes", "0:42"), cwd=home
    ).stdout
    lines = said.splitlines()
    assert "magic" in lines[0]
    assert [line.split()[1] for line in lines[1:3]] == ["1", "8"]
    assert lines[4].split()[1] == "121"
    assert "length of sequence 0" in lines[5]
    assert len(lines) == 7


def test_inspect_explains_tokens_with_their_documents(home: Path) -> None:
    found = json.loads(
        seatrial(
            *("data", "inspect", "run.yaml", "--file", "s1-00000", "--bytes", "0:4000", "--json"),
            cwd=home,
        ).stdout
    )
    documents = [int(piece["meaning"].split(":")[0].rpartition(" ")[2]) for piece in found[:-1]]
    assert documents == sorted(documents)
    ends = [piece for piece in found if "the end of a document" in piece["meaning"]]
    assert {piece["shown"] for piece in ends} == {"0"}
    assert found[1]["start"] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--document", "120"), "there is no document 120"),
        (("--file", "s9-00000"), "there is no file s9-00000"),
        (("--bytes", "9:3"), "is not a range"),
        (("--bytes", "90000000:90000001"), "is not in it"),
        (("--bytes", "0:1", "--document", "0"), "mutually exclusive"),
    ],
)
def test_inspect_refuses_what_is_not_there(
    home: Path, arguments: tuple[str, ...], said: str
) -> None:
    given = arguments if "--file" in arguments else ("--file", "s1-00000", *arguments)
    done = seatrial("data", "inspect", "run.yaml", *given, cwd=home, code=2)
    assert said in done.stderr


def test_without_the_extra_the_command_says_what_to_install(home: Path, tmp_path: Path) -> None:
    script = (
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'zstandard' else find(name, *a)\n"
        "sys.argv = ['seatrial', 'data', 'prepare', 'run.yaml']\n"
        "from seatrial.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "pip install '.[data]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_is_never_lost(tmp_path: Path) -> None:
    """A tokenizer library once took it for a missing package, and the command went on."""
    write_corpus(tmp_path)
    draw = random.Random(10)  # noqa: S311
    deadline, took = time.monotonic() + 50, 10.0
    while time.monotonic() + took < deadline:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "seatrial", "data", "prepare", "run.yaml"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            start_new_session=True,
        )
        with process:
            while not (tmp_path / "out" / "work").exists() and process.poll() is None:
                time.sleep(0.01)
            time.sleep(draw.random() * 0.8)
            if process.poll() is None and not (tmp_path / "out" / "dataset.json").exists():
                os.killpg(process.pid, signal.SIGINT)
                assert process.stderr is not None
                assert "Stopped." in process.stderr.read()
                assert process.wait() == 130
        took = time.monotonic() - began


def test_ctrl_c_that_a_library_swallows_is_raised_at_the_next_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interrupts, "_received", [])
    interrupts.raise_lost_interrupt()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupts.count_interrupts()
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(KeyboardInterrupt):
        interrupts.raise_lost_interrupt()


def test_ctrl_c_that_was_lost_does_not_interrupt_the_exit() -> None:
    """It is raised again a moment later, and the command may stop for another reason before."""
    script = """
import time, weakref
from seatrial.cli import interrupts, main

class Thing: pass

def lost(_):
    raise KeyboardInterrupt

def run(received):
    thing = Thing()
    watched = weakref.ref(thing, lost)
    del thing
    raise KeyboardInterrupt

main._run = run
interrupts.say_error = lambda text: (print(text), time.sleep(0.2))
main.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "\nStopped.\n", "")


def test_ctrl_c_while_a_library_makes_a_class_keeps_the_exit_code() -> None:
    script = """
from seatrial.cli import main

def run(received):
    exec("raise KeyboardInterrupt")

main._run = run
main.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 130


def test_ctrl_c_ends_with_what_is_kept(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "seatrial", "data", "prepare", "run.yaml"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        # As a background job of a shell would, a test may run with Ctrl-C ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    with process:
        end = time.monotonic() + 60
        while not (tmp_path / "out" / "work").exists() and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 130, said
    assert re.search(r"Stopped\. \d+ of 6 tasks are finished and kept|No task was started", said)
    assert "To continue: seatrial data prepare run.yaml" in said
    assert "Traceback" not in said
    seatrial("data", "prepare", "run.yaml", cwd=tmp_path)
    assert not (tmp_path / "out" / "work").exists()


def test_the_histogram_names_its_ends_and_its_middle() -> None:
    assert histogram((0, 0, 1, 8, 1)) == (
        "2 ▕▂█▂▏ 16 tokens; half of the documents have fewer than 8"
    )
    assert histogram((3,)) == "3 documents without text"
    assert histogram(()) == "no documents"


def test_rates_and_durations_are_short() -> None:
    assert [format_rate(rate) for rate in (12, 9_300, 51_000_000, 2.5e9)] == [
        "12 B/s",
        "9.3 kB/s",
        "51 MB/s",
        "2.5 GB/s",
    ]
    assert [format_seconds(s) for s in (0.42, 45, 400, 7300, 200_000)] == [
        "0.4 s",
        "45 s",
        "6.7 min",
        "2.0 h",
        "2.3 days",
    ]


def test_help_loads_no_data_library(tmp_path: Path) -> None:
    modules = loaded_by("data", "prepare", "--help", cwd=tmp_path)
    heavy = {"numpy", "pyarrow", "fsspec", "tokenizers", "zstandard", "orjson", "ray", "rich"}
    assert not modules & heavy
