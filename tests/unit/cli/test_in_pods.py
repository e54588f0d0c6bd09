# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Commands with `--on kubernetes`: what runs in the pod, and what of it a user reads."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from seatrial.cli.main import app
from seatrial.cluster.kinds import POD
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.errors import FindingsError, SeatrialError, UsageError
from seatrial.findings import Finding, Severity, Where
from seatrial.reports.terminal import NO_NEXT
from seatrial.runs.launch import connect
from seatrial.runs.namespace import Site
from seatrial.sdk.data import prepare_data
from tests.unit.checkpoints.made import make_checkpoint, write_files
from tests.unit.cli.test_runs import ran
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, fake_api
from tests.unit.dataprep.little_corpus import write_corpus

EXPORT = {
    "step": 20,
    "class": "GPT2LMHeadModel",
    "dtype": "bfloat16",
    "tensors": 12,
    "bytes": 500,
    "padding_left_out": 0,
    "tokenizer": "mock",
    "tokenizer_saved": False,
    "is_new": True,
}


class Pods:
    """A server on which every pod prints `printed` and exits with `code`."""

    def __init__(self) -> None:
        self.server, self.time = FakeTransport(), FakeTime()
        self.printed: list[str] = []
        self.code = 0
        self.time.on_sleep = self.come_up

    def answer(self, data: Any, *before: str, code: int = 0) -> None:
        """Let the pod print lines of a log, and then JSON."""
        self.printed = [*before, *json.dumps(data, indent=2).splitlines()]
        self.code = code

    def come_up(self) -> None:
        ended = [{"name": "read", "state": {"terminated": {"exitCode": self.code}}}]
        lines = [f"2026-11-15T03:12:00.{n:09}Z {x}".encode() for n, x in enumerate(self.printed)]
        for (plural, namespace, name), item in list(self.server.objects.items()):
            if plural == "pods" and not item.get("status"):
                phase = "Failed" if self.code else "Succeeded"
                item["status"] = {"phase": phase, "containerStatuses": ended}
                self.server.streams[POD.path(namespace, name, "log")] = [[*lines]]

    def reach(self, namespace: str = "", **_: Any) -> Site:
        api = fake_api(self.server, self.time)
        return Site(api, namespace or "default", sleep=self.time.sleep, clock=self.time.clock)


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Pods:
    found = Pods()
    monkeypatch.setattr(connect, "connect", found.reach)
    monkeypatch.setenv("COLUMNS", "200")
    return found


def container(server: FakeTransport) -> dict[str, Any]:
    made = next(c.body for c in server.calls if c.method == "POST" and c.path.endswith("/pods"))
    assert made is not None
    found: dict[str, Any] = made["spec"]["containers"][0]
    return found


def in_pod(pods: Pods) -> list[str]:
    """What ran in the pod, after `seatrial`."""
    words: list[str] = container(pods.server)["command"]
    return words[words.index("seatrial") + 1 :]


def called(*words: object, code: int = 0) -> Result:
    done = CliRunner().invoke(app, [*map(str, words), "--on", "kubernetes"])
    assert done.exit_code == code, done.output
    return done


def here(*words: object) -> str:
    done = CliRunner().invoke(app, [*map(str, words)])
    return done.stdout


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Checkpoints of a run, one of them verified and one of them torn."""
    for step in (10, 20):
        make_checkpoint(tmp_path / "run", step, validation_loss=3.25, size=500)
    write_files(tmp_path / "run" / NAMING.directory_name(30), size=500)
    here("checkpoints", "verify", tmp_path / "run", "--step", 20)
    here("checkpoints", "pin", tmp_path / "run", "--step", 10, "--why", "first")
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("command", "words", "inside", "following"),
    [
        ("list", [], [], "checkpoints verify {file} --on kubernetes"),
        (
            "verify",
            ["--step", "20", "--again"],
            ["--step=20", "--threads=0", "--again"],
            "checkpoints export {file} --to DIR --on kubernetes",
        ),
        ("verify", [], ["--threads=0"], "checkpoints export {file} --to DIR --on kubernetes"),
        (
            "prune",
            [],
            ["--keep-last=3", "--keep-best=0"],
            "checkpoints list {file} --on kubernetes",
        ),
    ],
)
def test_a_pod_answers_in_json_and_the_text_is_the_same_as_here(
    pods: Pods,
    saved: Path,
    spec_file: Path,
    command: str,
    words: list[str],
    inside: list[str],
    following: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("seatrial.cli.checkpoints_text.since", lambda _: "1 h ago")
    # The first verification changes what the next ones say.
    here("checkpoints", command, saved, *words)
    data = json.loads(here("checkpoints", command, saved, *words, "--json"))
    pods.answer(data, "step 20 50%, 3 MB/s")
    text = here("checkpoints", command, saved, *words)
    done = called("checkpoints", command, spec_file, *words)
    assert in_pod(pods) == ["checkpoints", command, "/data/slim-7b/checkpoints", *inside, "--json"]
    assert "step 20 50%, 3 MB/s" in done.stderr
    *lines, last = done.stdout.splitlines()
    assert lines == [line for line in text.splitlines() if not line.startswith("next  ")]
    assert last == f"next  seatrial {following.format(file=spec_file)}"
    # With --json, the answer of the pod is passed on.
    assert json.loads(called("checkpoints", command, spec_file, *words, "--json").stdout) == data


def test_checkpoints_are_pruned_in_a_pod(pods: Pods, spec_file: Path) -> None:
    gone = {"directory": "iter_0000010", "step": 10, "kept": False, "why": "older", "size": 500}
    pods.answer({"done": True, "decisions": [gone]})
    done = called("checkpoints", "prune", spec_file, "--yes", "--keep-last", "5")
    assert in_pod(pods)[3:] == ["--keep-last=5", "--keep-best=0", "--yes", "--json"]
    assert "1 checkpoint deleted, 500 B." in done.stdout
    pods.answer({"done": False, "decisions": []})
    assert "No checkpoints in /data/slim-7b/checkpoints.\n" in (
        called("checkpoints", "prune", spec_file).stdout
    )


def test_an_export_in_a_pod_says_what_was_written(pods: Pods, spec_file: Path) -> None:
    pods.answer(EXPORT)
    to = "/data/slim-7b/weights"
    done = called("checkpoints", "export", spec_file, "--to", to)
    assert in_pod(pods)[3:] == [f"--to={to}", "--json"]
    assert done.stdout.splitlines() == [
        f"step 20 is in {to}: GPT2LMHeadModel, bfloat16, 12 tensors, 500 B, verified.",
        "tokenizer   none: the run used mock data",
        f"next  seatrial report {spec_file}",
    ]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    write_corpus(directory)
    return Path(prepare_data(directory / "run.yaml", workers=1).address)


@pytest.mark.parametrize(
    ("command", "words", "inside", "following"),
    [
        ("verify", [], [], "seatrial data inspect {file} --on kubernetes"),
        ("inspect", [], [], "seatrial data inspect {file} --document 0 --on kubernetes"),
        ("inspect", ["--document", "3"], ["--document=3"], ""),
        ("inspect", ["--bytes", "0:34", "--file", "s1-00000"], ["--file=s1-00000"], ""),
    ],
)
def test_data_in_a_pod_is_shown_as_here(
    pods: Pods,
    prepared: Path,
    spec_file: Path,
    command: str,
    words: list[str],
    inside: list[str],
    following: str,
) -> None:
    pods.answer(json.loads(here("data", command, prepared, *words, "--json")))
    lines = called("data", command, spec_file, *words).stdout.splitlines()
    assert in_pod(pods)[:3] == ["data", command, "/data/slim-7b/data"]
    assert set(inside) <= set(in_pod(pods))
    if following:
        assert lines.pop() == f"next      {following.format(file=spec_file)}"
    text = here("data", command, prepared, *words).splitlines()
    assert lines == [line for line in text if not line.startswith("next  ")]


def test_damage_in_a_pod_is_reported_as_here(pods: Pods, saved: Path, spec_file: Path) -> None:
    shard = saved / NAMING.directory_name(20) / "__0_i1_0.distcp"
    shard.write_bytes(b"?" * shard.stat().st_size)
    words = ("checkpoints", "verify", saved, "--again")
    data = CliRunner().invoke(app, [*map(str, words), "--json"])
    text = CliRunner().invoke(app, [*map(str, words)])
    pods.answer(json.loads(data.stdout), code=1)
    done = called("checkpoints", "verify", spec_file, "--again", code=1)
    assert (done.stdout, done.stderr) == (text.stdout, text.stderr)
    assert "ST-CHECKPOINT-007" in done.stderr


def test_an_error_in_a_pod_is_raised_with_its_exit_code(pods: Pods, spec_file: Path) -> None:
    pods.answer({"error": "no checkpoints in /data.", "findings": []}, code=2)
    with pytest.raises(SeatrialError, match=r"^no checkpoints in /data\.$") as told:
        ran("checkpoints", "verify", spec_file, "--on", "kubernetes")
    assert told.value.exit_code == 2
    finding = Finding("ST-X-001", Severity.ERROR, Where("data"), "It is wrong.", "1", "Fix it.")
    pods.answer({"error": "It is wrong.", "findings": [finding.to_dict()]}, code=3)
    with pytest.raises(FindingsError) as found:
        ran("data", "verify", spec_file, "--on", "kubernetes")
    assert found.value.findings == (finding,)
    assert found.value.exit_code == 3


def test_an_answer_of_an_older_image_is_explained(pods: Pods, spec_file: Path) -> None:
    pods.answer({"20": []})
    with pytest.raises(SeatrialError, match=r"checkpoints is missing\..* older Seatrial"):
        ran("checkpoints", "verify", spec_file, "--on", "kubernetes")
    pods.printed = ["Traceback ...", "[1] Killed"]
    pods.code = 137
    with pytest.raises(SeatrialError, match=r"code 137 and printed no result.*image") as told:
        ran("checkpoints", "list", spec_file, "--on", "kubernetes")
    assert told.value.exit_code == 137


def test_lines_around_the_answer_are_passed_on(pods: Pods, spec_file: Path) -> None:
    pods.answer({"checkpoints": [], "set_aside": []}, "[W123] a warning", "{not json")
    pods.printed.append("bye")
    done = called("checkpoints", "list", spec_file)
    assert done.stderr.splitlines()[-3:] == ["[W123] a warning", "{not json", "bye"]
    assert "No checkpoints in /data/slim-7b/checkpoints." in done.stdout


def test_weights_are_compared_where_the_spec_is_too(pods: Pods, spec_file: Path) -> None:
    pods.answer(EXPORT)
    to = "/data/slim-7b/weights"
    called("checkpoints", "export", spec_file, "--to", to, "--compare")
    assert in_pod(pods) == [
        *("checkpoints", "export", "/etc/seatrial/run.yaml", f"--to={to}", "--compare", "--json")
    ]


def test_weights_go_where_they_outlive_the_pod(pods: Pods, spec_file: Path) -> None:
    with pytest.raises(
        UsageError, match=r"not on the run's volume.*Use --to /data/slim-7b/weights"
    ):
        ran("checkpoints", "export", spec_file, "--to", "weights", "--on", "kubernetes")
    assert not pods.server.calls


def test_a_directory_says_not_where_its_pods_would_be(pods: Pods) -> None:
    with pytest.raises(UsageError, match="needs the run's spec"):
        ran("checkpoints", "list", "/data/checkpoints", "--on", "kubernetes")
    assert not pods.server.calls


def test_a_command_names_the_next_one_unless_its_caller_does(tmp_path: Path) -> None:
    words = ["checkpoints", "list", str(tmp_path)]
    alone = CliRunner().invoke(app, words, catch_exceptions=False)
    called = CliRunner().invoke(app, [NO_NEXT, *words], catch_exceptions=False)
    assert alone.stdout == f"{called.stdout}next  seatrial status RUN\n"
    assert "No checkpoints in" in called.stdout
    # It holds for one command, and not for the next one in the same process.
    assert CliRunner().invoke(app, words).stdout == alone.stdout
