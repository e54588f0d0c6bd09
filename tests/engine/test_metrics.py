# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus, on loopback, over a real training that is killed and goes on."""

import json
import math
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seatrial.engine_process.process import Training, TrainingOutcome, train
from seatrial.engines.megatron.command_line import Arguments
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.goodput import AttemptTimes, Bucket, account
from tests.debian import unpacked
from tests.engine.toy import DENSE, SHARDED

pytestmark = [pytest.mark.engine, pytest.mark.timeout(3000)]

RULES = Path(__file__).parents[2] / "dashboards" / "rules.yaml"
TIMEOUT = 2400.0
"""A busy machine takes its time."""
STEPS = 16
KILLED_AT = 9
SAVE_EVERY = 5
ARGUMENTS: Arguments = {
    **DENSE,
    **SHARDED,
    # Steps that are long enough to be seen by somebody who looks five times a second.
    "global-batch-size": 16,
    "train-iters": STEPS,
    "save-interval": SAVE_EVERY,
    "eval-iters": 1,
    "eval-interval": SAVE_EVERY,
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def prometheus(directory: Path, target: int) -> Iterator[str]:
    """A Prometheus that looks at the port five times a second; its address."""
    program = unpacked("prometheus", "prometheus")
    settings = directory / "prometheus.yaml"
    job = {"job_name": "seatrial", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
    every = {"scrape_interval": "200ms", "evaluation_interval": "1s"}
    told = {"global": every, "rule_files": [str(RULES)], "scrape_configs": [job]}
    settings.write_text(json.dumps(told))
    address = f"127.0.0.1:{free_port()}"
    words = [program, f"--config.file={settings}", f"--web.listen-address={address}"]
    words += [f"--storage.tsdb.path={directory / 'series'}", "--log.level=error"]
    with (directory / "prometheus.log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
    try:
        _await(f"http://{address}/-/ready")
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


def _await(address: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < end, f"{address} does not answer"
            time.sleep(0.2)


def asked(address: str, path: str, **values: object) -> Any:
    query = urllib.parse.urlencode(values)
    with urllib.request.urlopen(f"{address}/api/v1/{path}?{query}", timeout=30) as answer:
        found = json.load(answer)
    assert found["status"] == "success"
    return found["data"]


def series(address: str, metric: str, **labels: str) -> list[tuple[float, float]]:
    """All that was collected of one series: when, and the value."""
    chosen = ",".join(f'{k}="{v}"' for k, v in {"run": "small", **labels}.items())
    found = asked(address, "query", query=f"{metric}{{{chosen}}}[2h]")["result"]
    assert len(found) == 1, f"{metric}: {found}"
    return [(when, float(value)) for when, value in found[0]["values"]]


def last(address: str, metric: str, **labels: str) -> float:
    return series(address, metric, **labels)[-1][1]


def step_events(events: tuple[Event, ...]) -> list[Event]:
    return [event for event in events if event.kind is EventKind.STEP]


def known_at(events: tuple[Event, ...], when: float) -> list[Event]:
    """The steps that were written before a moment."""
    return [event for event in step_events(events) if event.time <= when]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, TrainingOutcome]]:
    """A training that is killed and started again by torchrun, and the Prometheus that saw it."""
    directory = tmp_path_factory.mktemp("scraped")
    port, saved = free_port(), str(directory / "saved")
    with prometheus(directory, port) as address:
        training = Training(
            "small",
            {**ARGUMENTS, "save": saved, "load": saved},
            1,
            directory,
            kill=(0, KILLED_AT),
            environment={"SEATRIAL_RUN": "small", "SEATRIAL_METRICS_PORT": str(port)},
            restarts=1,
            engine="megatron",
        )
        outcome = train(training, TIMEOUT)
        assert outcome.code == 0, training.log.read_text()[-3000:]
        yield address, outcome


def test_what_prometheus_has_is_what_the_event_log_says(
    scraped: tuple[str, TrainingOutcome],
) -> None:
    address, outcome = scraped
    losses = {event.step: event.values["loss"] for event in step_events(outcome.events)}
    steps, values = (
        dict(series(address, name)) for name in ("seatrial_training_step", "seatrial_training_loss")
    )
    compared = 0
    for when, value in values.items():
        if when in steps and steps[when] in losses:
            # The kill happens before a step is written down, and the same step has the same loss.
            assert value == pytest.approx(losses[int(steps[when])], rel=1e-12)
            compared += 1
    print(f"\n{compared} scrapes with a loss, of {len(steps)}")
    assert compared >= 8
    assert len(set(steps.values())) >= 4, "too few steps were seen to compare"


def test_counters_go_on_over_the_restart(scraped: tuple[str, TrainingOutcome]) -> None:
    address, outcome = scraped
    done = series(address, "seatrial_training_steps_total")
    values = [value for _, value in done]
    assert values == sorted(values), "a counter fell"
    for when, value in done:
        # On a busy machine what is served may be old; it is never from the future.
        older, newer = known_at(outcome.events, when - 60), known_at(outcome.events, when + 0.5)
        assert len(older) <= value <= len(newer)
    assert last(address, "seatrial_starts_total") == 2
    assert (
        asked(address, "query", query="resets(seatrial_training_steps_total[2h])")["result"][0][
            "value"
        ][1]
        == "0"
    )


def test_the_last_scrape_agrees_with_the_log_in_every_number(
    scraped: tuple[str, TrainingOutcome],
) -> None:
    address, outcome = scraped
    when = series(address, "seatrial_last_event_timestamp_seconds")[-1]
    seen = tuple(event for event in outcome.events if event.time <= when[1])
    kinds = [event.kind for event in seen]
    start = next(event for event in seen if event.kind is EventKind.START)
    steps = step_events(seen)
    expected = {
        "seatrial_ranks": 1,
        "seatrial_training_target_step": STEPS,
        "seatrial_training_step": steps[-1].step,
        "seatrial_training_steps_total": len(steps),
        "seatrial_training_replayed_steps_total": KILLED_AT - 1 - SAVE_EVERY,
        "seatrial_training_nonfinite_steps_total": 0,
        "seatrial_training_loss": steps[-1].values["loss"],
        "seatrial_training_grad_norm": steps[-1].values["grad_norm"],
        "seatrial_training_learning_rate": steps[-1].values["learning_rate"],
        "seatrial_step_duration_seconds": steps[-1].values["seconds"],
        "seatrial_checkpoint_saves_total": kinds.count(EventKind.SAVE),
        "seatrial_checkpoint_interval_steps": SAVE_EVERY,
        "seatrial_evaluations_total": kinds.count(EventKind.EVALUATION),
        "seatrial_training_tokens_total": len(steps)
        * start.values["global_batch_size"]
        * start.values["sequence_length"],
    }
    found = {name: last(address, name) for name in expected}
    assert found == pytest.approx(expected)
    parts = math.fsum(event.values["parts"]["compute"] for event in steps)
    assert last(address, "seatrial_step_part_seconds_total", part="compute") == pytest.approx(parts)
    goodput = account([AttemptTimes(seen)])
    for bucket in Bucket:
        value = last(address, "seatrial_run_seconds_total", bucket=str(bucket))
        assert value == pytest.approx(goodput.seconds[bucket])
    assert goodput.replayed_steps > 0


def test_the_rules_run_and_a_healthy_training_raises_nothing(
    scraped: tuple[str, TrainingOutcome],
) -> None:
    address, _ = scraped
    rules = [rule for group in asked(address, "rules")["groups"] for rule in group["rules"]]
    assert len(rules) == 14
    assert {rule["health"] for rule in rules} == {"ok"}
    assert asked(address, "alerts")["alerts"] == []


def test_the_port_is_free_when_the_training_has_ended(scraped: tuple[str, TrainingOutcome]) -> None:
    address, _ = scraped
    target = asked(address, "targets")["activeTargets"][0]["discoveredLabels"]["__address__"]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(tuple(target.split(":")), timeout=2)


def test_a_port_that_is_taken_does_not_stop_a_training(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        short: Arguments = {**DENSE, "train-iters": 3}
        training = Training("taken", short, 1, tmp_path, engine="megatron")
        outcome = train(replace(training, environment={"SEATRIAL_METRICS_PORT": port}), TIMEOUT)
    assert outcome.code == 0
    assert len(outcome.steps()) == 3
