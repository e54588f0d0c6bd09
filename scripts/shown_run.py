# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A real run on this host that the pictures of the documentation are made from.

    python -m scripts.shown_run DIRECTORY

The real engine trains a small model on the CPU in four processes, launched by `seatrial launch`
with the profile `local`. One process is killed on the way and the processes start again from the
newest checkpoint; later the run is stopped, and launched once more. Needs the worker's environment
(SEATRIAL_WORKER_PYTHON). Leaves the directory with the spec, the ledger and the event log.
"""

import os
import signal
import sys
import time
from pathlib import Path

from seatrial.client import launch
from seatrial.monitoring.event_log import EventKind, read_events
from seatrial.runs.local_launch import stop_here
from seatrial.runs.local_ledger import LocalRun, local_runs

NAME = "harbour"
STEPS = 240
KILLED_AFTER = 90
STOPPED_AFTER = 165
LIMIT = 1800.0
"""Seconds that the whole may take."""
SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: {name}
model:
  dimensions:
    family: gpt
    layers: 4
    hidden_size: 64
    heads: 4
    kv_heads: 4
    head_dim: 16
    ffn_hidden_size: 256
    vocab_size: 2048
    max_positions: 128
    positions: learned
    norm: layernorm
    activation: gelu
    linear_bias: true
    tied_embeddings: true
data: {{mock: true}}
training:
  steps: {steps}
  sequence_length: 128
  micro_batch_size: 2
  global_batch_size: 8
  learning_rate: {{peak: 3e-3}}
  evaluation: {{every_steps: 40, batches: 2}}
parallelism: {{tp_size: 2, pp_size: 1}}
checkpoints: {{every_steps: 40}}
cluster:
  profile: local
  processes_per_node: 4
  restarts: 3
  storage: {{mount: {mount}}}
"""


def make(directory: Path) -> Path:
    """Run it in a directory, unless it is there; the directory."""
    log = directory / "volume" / NAME / "events.jsonl"
    if log.exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    spec = directory / "run.yaml"
    mount = (directory / "volume").resolve()
    spec.write_text(SPEC.format(name=NAME, steps=STEPS, mount=mount), encoding="utf-8")
    deadline = time.monotonic() + LIMIT
    launch(spec)
    run = local_runs(directory)[NAME]
    _await_step(run, log, KILLED_AFTER, deadline)
    _kill_a_rank(directory)
    _await_step(run, log, STOPPED_AFTER, deadline)
    stop_here(run)
    launch(spec)
    while run.supervisor(2) and time.monotonic() < deadline:
        time.sleep(0.5)
    stop_here(run)
    return directory


def _await_step(run: LocalRun, log: Path, step: int, deadline: float) -> None:
    """Wait until a step is done."""
    while time.monotonic() < deadline:
        steps = (
            [e.step for e in read_events(log) if e.kind is EventKind.STEP] if log.exists() else []
        )
        if max(steps, default=0) >= step:
            return
        newest = run.read().newest
        if newest is None or not run.supervisor(newest.number):
            sys.exit(f"the run ended before step {step}: see {run.directory}")
        time.sleep(0.2)
    sys.exit(f"step {step} was not reached in time")


def _kill_a_rank(directory: Path) -> None:
    """Kill rank 2 as the kernel would when memory is short."""
    events = f"SEATRIAL_EVENTS={(directory / 'volume').resolve()}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"RANK=2" in words and any(word.startswith(events) for word in words):
            os.kill(int(process.name), signal.SIGKILL)
            return
    sys.exit("no process of rank 2 was found")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
