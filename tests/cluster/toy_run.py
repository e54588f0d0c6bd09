# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A shrunk run for the test cluster, and the command line as a user calls it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.engines.registry import ENGINES
from seatrial.monitoring.event_log import EventKind, read_events
from tests.cluster import images
from tests.cluster.node import environments

CLAIM = "shared"
"""The volume of all runs of a namespace."""

NODE_TYPES = """\
[half-host]
like = "local"
title = "Half of the test machine"
cpus = 1
memory_gib = 6
source = "definition: tests"
"""
PROFILES = """\
[test-cluster]
like = "eks"
title = "Kubernetes without GPUs"
cloud = "local"
default_node_type = "half-host"
node_types = ["half-host"]
default_storage = "local-path"
storage = ["local-path"]
gpu_resource = ""
node_type_label = ""
tolerations = []
network_interface = "eth0"
source = "definition: tests"
"""

SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: {name}
engine: {{name: {toy.engine}}}
model:
  dimensions:
    family: {toy.family}
    layers: 2
    hidden_size: 64
    heads: 4
    kv_heads: 4
    head_dim: 16
    ffn_hidden_size: 256
    vocab_size: 127
    max_positions: 64
    positions: learned
    norm: layernorm
    activation: gelu
    linear_bias: true
    tied_embeddings: true
data: {{mock: true}}
training:
  steps: {steps}
  sequence_length: 64
  micro_batch_size: 1
  global_batch_size: 4
  learning_rate: {{peak: 1.0e-3}}
  evaluation: {{every_steps: 100000, batches: 0}}
  precision: fp32
parallelism:
  tp_size: {toy.tp_size}
  pp_size: 1
  vp_size: 1
  cp_size: 1
  ep_size: 1
  sequence_parallel: false
  sharding: {toy.sharding}
  recompute: none
cluster:
  profile: test-cluster
  operator: {operator}
  namespace: {namespace}
  nodes: 2
  processes_per_node: 2
  image: {toy.image}
  storage: {{claim: {claim}}}
checkpoints: {{every_steps: {every}, keep_last: 100}}
monitoring: {{log_every_steps: 1, tensorboard: false}}
"""


@dataclass(frozen=True, slots=True)
class Toy:
    """What of the shrunk run depends on its engine."""

    engine: str
    """The engine."""
    family: str
    """The model's family."""
    tp_size: int
    """Tensor parallel degree."""
    sharding: str
    """What data-parallel ranks share."""
    image: str
    """The image that has the engine."""


MEGATRON = Toy("megatron", "gpt", 2, "none", images.USERLAND)
FOUNDRY = Toy("llm-foundry", "mpt", 1, "fsdp", images.FOUNDRY)


def engine_pythons() -> dict[str, str]:
    """Where commands find the engines on this machine: in the environments that pods have."""
    made = environments()
    return {
        ENGINES[toy.engine].installation.variable: str(made[toy.image] / "bin/python")
        for toy in (MEGATRON, FOUNDRY)
        if toy.image in made
    }


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The command `seatrial`, with one account's access to one cluster."""

    home: Path
    """Where specs and the user's own catalog are."""
    kubeconfig: Path
    """The access."""
    namespace: str
    """The namespace of the runs."""

    def prepare(self) -> None:
        """Write the user's own catalog."""
        catalog = self.home / "catalog"
        catalog.mkdir()
        (catalog / "node_types.toml").write_text(NODE_TYPES)
        (catalog / "profiles.toml").write_text(PROFILES)

    def write_spec(
        self, name: str, operator: str, steps: int, every: int, toy: Toy = MEGATRON
    ) -> Path:
        """A spec of a run of the toy."""
        path = self.home / f"{name}.yaml"
        path.write_text(
            SPEC.format(
                name=name,
                operator=operator,
                namespace=self.namespace,
                steps=steps,
                every=every,
                toy=toy,
                claim=CLAIM,
            )
        )
        return path

    def run(self, *words: object, timeout: float = 900, code: int | None = 0) -> str:
        """What a command prints; it must end with the code."""
        done = self.started(*words)
        try:
            out, err = done.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            done.kill()
            raise
        assert code is None or done.returncode == code, f"{words}: {done.returncode}\n{out}\n{err}"
        return out

    def started(self, *words: object) -> "subprocess.Popen[str]":
        """A command that goes on."""
        return subprocess.Popen(
            [sys.executable, "-m", "seatrial", *map(str, words)],
            env={
                **os.environ,
                "KUBECONFIG": str(self.kubeconfig),
                "SEATRIAL_CATALOG": str(self.home / "catalog"),
                "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
                "COLUMNS": "160",
                **engine_pythons(),
            },
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def json(self, *words: object) -> Any:
        """What a command answers to a program."""
        return json.loads(self.run(*words, "--json"))


def losses(volume: Path, run: str) -> dict[int, float]:
    """The loss of each step of a run; of one that was done twice, the last."""
    return {
        event.step: event.values["loss"]
        for event in read_events(volume / run / "events.jsonl")
        if event.kind is EventKind.STEP
    }


def starts(volume: Path, run: str) -> list[int]:
    """The steps from which a run has started, each time."""
    events = read_events(volume / run / "events.jsonl")
    return [event.step for event in events if event.kind is EventKind.START]
