# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Commands with `--on kubernetes`: what runs in the pod, and what of it a user reads."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seatrial.cli.main import app
from seatrial.cli.options import NO_NEXT
from seatrial.cluster.kinds import POD
from seatrial.errors import UsageError
from seatrial.runs.launch import connect
from seatrial.runs.namespace import Site
from tests.unit.cli.test_runs import ran
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, fake_api


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeTransport:
    """A server on which every pod prints a line and ends well."""
    found, time = FakeTransport(), FakeTime()
    ended = [{"name": "read", "state": {"terminated": {"exitCode": 0}}}]
    printed = [b"2026-11-15T03:12:00Z step 20 is whole"]

    def comes_up() -> None:
        for (plural, namespace, name), item in list(found.objects.items()):
            if plural == "pods" and not item.get("status"):
                item["status"] = {"phase": "Succeeded", "containerStatuses": ended}
                found.streams[POD.path(namespace, name, "log")] = [[*printed]]

    def reach(namespace: str = "", **_: Any) -> Site:
        api = fake_api(found, time)
        return Site(api, namespace or "default", sleep=time.sleep, clock=time.clock)

    time.on_sleep = comes_up
    monkeypatch.setattr(connect, "connect", reach)
    return found


def container(server: FakeTransport) -> dict[str, Any]:
    made = next(c.body for c in server.calls if c.method == "POST" and c.path.endswith("/pods"))
    assert made is not None
    found: dict[str, Any] = made["spec"]["containers"][0]
    return found


def in_pod(server: FakeTransport) -> list[str]:
    """What ran in the pod, after `seatrial`."""
    words: list[str] = container(server)["command"]
    # What the pod proposes next would name its own places.
    assert words[words.index("seatrial") + 1] == NO_NEXT
    return words[words.index("seatrial") + 2 :]


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
        (
            "prune",
            ["--yes", "--keep-last", "5"],
            ["--keep-last=5", "--keep-best=0", "--yes"],
            "checkpoints list {file} --on kubernetes",
        ),
        (
            "export",
            ["--to", "/data/slim-7b/weights"],
            ["--to=/data/slim-7b/weights"],
            "report {file}",
        ),
    ],
)
def test_checkpoints_of_a_run_are_seen_where_they_are(
    server: FakeTransport,
    spec_file: Path,
    command: str,
    words: list[str],
    inside: list[str],
    following: str,
) -> None:
    said = ran("checkpoints", command, spec_file, *words, "--on", "kubernetes")
    assert in_pod(server) == ["checkpoints", command, "/data/slim-7b/checkpoints", *inside]
    assert said.splitlines() == [
        "step 20 is whole",
        f"next  seatrial {following.format(file=spec_file)}",
    ]


def test_weights_are_compared_where_the_spec_is_too(server: FakeTransport, spec_file: Path) -> None:
    to = "/data/slim-7b/weights"
    ran("checkpoints", "export", spec_file, "--to", to, "--compare", "--on", "kubernetes")
    assert in_pod(server) == [
        *("checkpoints", "export", "/etc/seatrial/run.yaml", f"--to={to}", "--compare")
    ]


def test_weights_go_where_they_outlive_the_pod(server: FakeTransport, spec_file: Path) -> None:
    with pytest.raises(
        UsageError, match=r"not on the run's volume.*Use --to /data/slim-7b/weights"
    ):
        ran("checkpoints", "export", spec_file, "--to", "weights", "--on", "kubernetes")
    assert not server.calls


def test_a_directory_says_not_where_its_pods_would_be(server: FakeTransport) -> None:
    with pytest.raises(UsageError, match="needs the run's spec"):
        ran("checkpoints", "list", "/data/checkpoints", "--on", "kubernetes")
    assert not server.calls


def test_a_command_names_the_next_one_unless_its_caller_does(tmp_path: Path) -> None:
    words = ["checkpoints", "list", str(tmp_path)]
    alone = CliRunner().invoke(app, words, catch_exceptions=False)
    called = CliRunner().invoke(app, [NO_NEXT, *words], catch_exceptions=False)
    assert alone.stdout == f"{called.stdout}next  seatrial status RUN\n"
    assert "No checkpoints in" in called.stdout
    # It holds for one command, and not for the next one in the same process.
    assert CliRunner().invoke(app, words).stdout == alone.stdout
