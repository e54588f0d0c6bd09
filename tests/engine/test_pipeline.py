# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One run on this host from compressed text to weights that transformers loads, by `seatrial run`.

It is stopped on the way where it needs somebody, and goes on from there. A rank is killed while it
trains.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seatrial.checkpoints.exchange.export_plan import EXPORT_RECORD
from seatrial.engine_process.weights import LOGITS_BAR
from seatrial.monitoring.event_log import EventKind, read_events
from tests.pipeline_runs import Clock, record, write_corpus

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1800)]

SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: first-trip
model:
  dimensions:
    family: gpt
    layers: 2
    hidden_size: 64
    heads: 4
    kv_heads: 4
    head_dim: 16
    ffn_hidden_size: 256
    vocab_size: 512
    max_positions: 128
    positions: learned
    norm: layernorm
    activation: gelu
    linear_bias: true
    tied_embeddings: true
data:
  sources: [{{from: ./corpus}}]
  tokenizer: ./tokenizer.json
training: {{steps: {steps}, sequence_length: 128, micro_batch_size: 2, global_batch_size: {batch}}}
parallelism: {{tp_size: auto, pp_size: auto}}
cluster: {{profile: local, processes_per_node: 2, storage: {{mount: {mount}}}}}
checkpoints: {{every_steps: {save_every}}}
"""
STEPS_OF_TRAINING = 80
SAVE_EVERY = 20
STEPS = ("rules", "data", "plan", "check", "rehearse", "launch", "wait", "verify", "export")
PROGRAM = """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained("first-trip-weights")
tokenizer = AutoTokenizer.from_pretrained("first-trip-weights")
read = tokenizer("the ship leaves", return_tensors="pt")
written = model.generate(**read, max_new_tokens=8, do_sample=False)
print(tokenizer.decode(written[0]))
"""


def spec_text(directory: Path, batch: int) -> str:
    mount = directory / "volume"
    return SPEC.format(batch=batch, mount=mount, steps=STEPS_OF_TRAINING, save_every=SAVE_EVERY)


def walk(directory: Path, *more: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "run", "run.yaml", *more],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done


def steps_of(run: Path, kind: EventKind) -> list[int]:
    """The steps at which a run has told of something."""
    file = run / "events.jsonl"
    return (
        [event.step for event in read_events(file) if event.kind is kind] if file.exists() else []
    )


def kill_a_rank(run: Path) -> None:
    """Kill a process of a training that has saved once and is not at its end."""
    deadline = time.monotonic() + 300
    while max(steps_of(run, EventKind.STEP), default=0) <= SAVE_EVERY:
        assert time.monotonic() < deadline, "it did not train"
        time.sleep(0.1)
    process, *_ = (run / "supervisor/rank-1").read_text().split()
    os.kill(int(process), signal.SIGKILL)
    assert steps_of(run, EventKind.STEP)[-1] < STEPS_OF_TRAINING, "it was over before the kill"


def test_a_run_comes_all_the_way(tmp_path: Path) -> None:
    write_corpus(tmp_path, 1500)
    spec = tmp_path / "run.yaml"

    # A batch that cannot be split stops it before the first step.
    spec.write_text(spec_text(tmp_path, batch=7))
    wrong = walk(tmp_path, code=1)
    assert "7 sequences cannot be split into micro-batches of 2" in wrong.stderr
    spec.write_text(spec_text(tmp_path, batch=8))

    clock = Clock()
    for step in STEPS:
        with clock.step(step):
            done = walk(tmp_path, "--until", step)
            if step == "launch":
                kill_a_rank(tmp_path / "volume/first-trip")
        assert done.stderr.count("\n── ") == 1, done.stderr
    (resumed,) = steps_of(tmp_path / "volume/first-trip", EventKind.START)[1:]
    assert resumed >= SAVE_EVERY
    exported = tmp_path / "first-trip-weights" / EXPORT_RECORD
    largest = json.loads(exported.read_text())["logits"]["largest_difference"]
    assert largest <= LOGITS_BAR
    with clock.step("report"):
        last = walk(tmp_path)
    assert "first-trip finished: 10 of 10 steps." in last.stdout
    assert re.search(r"<html", (tmp_path / "first-trip-report.html").read_text()[:500])

    said = subprocess.run(
        [os.environ["SEATRIAL_WORKER_PYTHON"], "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("the ship leaves")
    print(f"\n{clock.table('on this host')}")
    record("megatron on one host", clock, [resumed], largest)
    print(f"  logits of the export: {largest:.1e} from the engine's")
    print(f"  the model writes: {said.stdout.strip()}")
