# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The metrics endpoint: served by one rank, across restarts, and never at the training's cost."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from prometheus_client.parser import text_string_to_metric_families

from seatrial.monitoring.event_log import EventKind, EventLog, read_events
from seatrial.monitoring.mlflow_export import export
from seatrial.worker.node import exporters, metrics_server, mlflow_sender
from seatrial.worker.node.exporters import SENDER, SERVER, commands, serving
from seatrial.worker.node.metrics_server import Served
from seatrial.worker.node.mlflow_sender import Sender
from seatrial.worker.node.tail import Tail
from seatrial.worker.settings import Device, Endpoint, MlflowTarget, Settings, settings

TELL = {"seconds": 0.5, "loss": 2.5, "grad_norm": 1.0, "learning_rate": 1e-4, "skipped": False}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def chosen(events: Path, port: int, rank: int = 1) -> Settings:
    endpoint = Endpoint("127.0.0.1", port)
    return Settings(Device.CPU, events, rank=rank, world_size=2, run="small", metrics=endpoint)


def scraped(port: int, seconds: float = 90.0) -> dict[str, float]:
    """What the endpoint says, as soon as it answers; values by their text."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < end, "nothing answers"
            time.sleep(0.1)
        else:
            families = text_string_to_metric_families(text)
            return {
                f"{s.name}{sorted(s.labels.items())}": s.value for f in families for s in f.samples
            }


def value(name: str, **labels: str) -> str:
    return f"{name}{sorted({'run': 'small', **labels}.items())}"


@contextmanager
def child(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_rank_that_keeps_the_log_serves_and_no_other(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    (words,) = commands(chosen(events, 9400))
    assert {"--port=9400", "--address=127.0.0.1", "--run=small"} <= set(words)
    assert commands(chosen(events, 9400, rank=0)) == []
    assert commands(Settings(Device.CPU, events)) == []
    assert commands(Settings(Device.CPU, None, metrics=Endpoint("127.0.0.1", 9400))) == []


def test_nothing_is_served_unless_a_port_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEATRIAL_METRICS_PORT", raising=False)
    assert settings().metrics is None
    monkeypatch.setenv("SEATRIAL_METRICS_PORT", "nine")
    assert settings().metrics is None
    monkeypatch.setenv("SEATRIAL_METRICS_PORT", "9400")
    assert settings().metrics == Endpoint("127.0.0.1", 9400)
    monkeypatch.setenv("SEATRIAL_METRICS_ADDRESS", "10.1.2.3")
    assert settings().metrics == Endpoint("10.1.2.3", 9400)


def test_counters_go_on_over_restarts(tmp_path: Path) -> None:
    events, port = tmp_path / "events.jsonl", free_port()
    log = EventLog(events)
    log.write(EventKind.START, 0, world_size=2, global_batch_size=4, sequence_length=64)
    log.write(EventKind.STEP, 1, **TELL)
    with serving(chosen(events, port)):
        first = scraped(port)
        assert first[value("seatrial_training_steps_total")] == 1
        log.write(EventKind.STEP, 2, **TELL)
        end = time.monotonic() + 90
        while scraped(port)[value("seatrial_training_step")] != 2:
            assert time.monotonic() < end
            time.sleep(0.1)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1)
    log.write(EventKind.START, 1, world_size=2, global_batch_size=4, sequence_length=64)
    log.write(EventKind.STEP, 2, **TELL)
    with serving(chosen(events, port)):
        second = scraped(port)
    assert second[value("seatrial_training_steps_total")] == 3
    assert second[value("seatrial_training_replayed_steps_total")] == 1
    assert second[value("seatrial_starts_total")] == 2
    assert second[value("seatrial_training_tokens_total")] == 3 * 4 * 64


def test_the_endpoint_ends_with_a_training_that_is_killed(tmp_path: Path) -> None:
    port = free_port()
    (words,) = commands(chosen(tmp_path / "events.jsonl", port))
    code = (
        "import os, subprocess, sys, time\n"
        "words = [w for w in sys.argv[1:] if not w.startswith('--parent')]\n"
        "server = subprocess.Popen([*words, f'--parent={os.getpid()}'])\n"
        "sys.stderr.write(f'{server.pid}\\n'); sys.stderr.flush(); time.sleep(60)\n"
    )
    with child([sys.executable, "-c", code, *words]) as parent:
        assert parent.stderr is not None
        server = int(parent.stderr.readline())
        scraped(port)
        parent.kill()
        parent.wait()
        end = time.monotonic() + 10
        while Path(f"/proc/{server}").exists() and "Z" not in _state(server):
            assert time.monotonic() < end, "the endpoint outlives its training"
            time.sleep(0.1)


def _state(process: int) -> str:
    try:
        return re.sub(r".*\)", "", Path(f"/proc/{process}/stat").read_text()).split()[0]
    except OSError:
        return "Z"


def test_a_port_that_is_taken_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(metrics_server, "BIND_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = [f"--events={tmp_path / 'none'}", "--run=small", "--address=127.0.0.1"]
        monkeypatch.setattr(os, "nice", lambda more: 0)
        code = metrics_server.main([*told, f"--port={port}", f"--parent={os.getppid()}"])
    assert code == 0
    assert f"cannot serve metrics at 127.0.0.1, port {port}" in capsys.readouterr().err


def test_a_program_that_cannot_be_started_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    trained = False
    with serving(chosen(tmp_path / "events.jsonl", 9400)):
        trained = True
    assert trained
    assert f"cannot start {SERVER}" in capsys.readouterr().err


def test_a_log_is_read_in_whole_lines_and_anew_when_it_is_another(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = Tail(path)
    assert tail.lines() == []
    path.write_bytes(b'{"kind":"start"}\n{"kind":')
    assert tail.lines() == [b'{"kind":"start"}']
    with path.open("ab") as stream:
        stream.write(b'"step"}\n')
    assert tail.lines() == [b'{"kind":"step"}']
    assert not tail.shrunk()
    path.write_bytes(b"{}\n")
    assert tail.shrunk()
    assert tail.lines() == [b"{}"]


def test_labels_are_escaped(tmp_path: Path) -> None:
    served = Served('odd"name')
    served.take([b'{"kind":"start","step":0,"time":1,"world_size":2}'])
    ranks = next(family for family in served.collect() if family.name == "seatrial_ranks")
    assert ranks.samples[0].labels == {"run": 'odd"name'}


def test_the_processes_are_modules_of_the_worker() -> None:
    assert (metrics_server.__name__, mlflow_sender.__name__) == (SERVER, SENDER)


def sending(events: Path) -> Settings:
    target = MlflowTarget("file:/unused", "trial")
    return Settings(Device.CPU, events, run="small", mlflow=target)


def test_events_are_sent_to_mlflow_to_the_last_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    events, store = tmp_path / "events.jsonl", (tmp_path / "store").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    log = EventLog(events)
    for first in (1, 3):
        log.write(EventKind.START, first - 1, world_size=1)
        log.write(EventKind.STEP, first, **TELL)
        with serving(sending(events)):
            _await_step(store, first)
            # The next look would be in ten seconds: this is what the last one is for.
            log.write(EventKind.STEP, first + 1, **TELL)
    done = export(read_events(events), "small", store, "trial")
    assert done.points == 0, "something was not sent"
    client = MlflowClient(tracking_uri=store)
    assert [p.step for p in client.get_metric_history(done.run_id, "loss")] == [1, 2, 3, 4]


def _await_step(store: str, step: int) -> None:
    client = MlflowClient(tracking_uri=store)
    end = time.monotonic() + 90
    while True:
        experiment = client.get_experiment_by_name("trial")
        runs = client.search_runs([experiment.experiment_id]) if experiment else []
        points = client.get_metric_history(runs[0].info.run_id, "loss") if runs else []
        if step in [point.step for point in points]:
            return
        assert time.monotonic() < end, f"step {step} does not come"
        time.sleep(0.5)


def test_an_image_without_mlflow_is_told_and_trains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(exporters, "find_spec", lambda name: None)
    assert commands(sending(tmp_path / "events.jsonl")) == []
    assert "cannot send events to MLflow" in capsys.readouterr().err


def test_a_server_that_is_away_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    events, store = tmp_path / "events.jsonl", (tmp_path / "store").as_uri()
    log = EventLog(events)
    log.write(EventKind.STEP, 1, **TELL)
    sender = Sender("small", store, "trial", events)
    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "log_batch", _refuse)
        assert [sender.look(), sender.look()] == [False, False]
    assert capsys.readouterr().err.count("MLflow does not accept events") == 1
    assert sender.look()
    assert export(read_events(events), "small", store, "trial").points == 0


def test_the_log_does_not_tell_who_logs_in_to_mlflow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise MlflowException("https://me:hidden@tracking.example/api does not answer")

    monkeypatch.setattr(MlflowClient, "get_experiment_by_name", refuse)
    sender = Sender("small", (tmp_path / "store").as_uri(), "trial", tmp_path / "events.jsonl")
    assert not sender.look()
    said = capsys.readouterr().err
    assert "https://(not shown)@tracking.example/api does not answer" in said
    assert "hidden" not in said


def _refuse(*args: object, **kwargs: object) -> None:
    raise MlflowException("the server is away")
