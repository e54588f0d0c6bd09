# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The Plan: a spec with everything resolved, from which all later steps start."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pydantic_core import to_jsonable_python

from seatrial.findings import Finding
from seatrial.hashing import digest
from seatrial.planning.layout import Layout
from seatrial.planning.length import Length, Schedule
from seatrial.planning.stages import Stage
from seatrial.spec.cluster import Operator
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.run import RunSpec


class Origin(StrEnum):
    """Where a resolved value came from."""

    YOU = "you"
    """The spec or an override says so."""
    CATALOG = "catalog"
    """A preset, a node type or a profile of the catalog."""
    DEFAULT = "default"
    """The default of the field, or the only value that is possible."""
    PLANNER = "planner"
    """Chosen by the planner."""


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """The model with its sizes."""

    name: str
    """The preset's name, or `custom`."""
    architecture: Architecture
    """Every dimension."""
    sequence_length: int
    """Tokens of one sequence."""
    padded_vocab_size: int
    """Vocabulary with the entries that make it divide evenly."""
    parameters: int
    """Parameters of the whole model, each counted once."""
    active_parameters: int
    """Parameters that one token goes through."""
    tokenizer: str
    """The tokenizer, as the spec or the preset names it; empty for mock data without one."""


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines of the run."""

    profile: str
    """Kind of cluster."""
    operator: Operator
    """What starts the processes."""
    node_type: str
    """Machine type."""
    nodes: int
    """Machines."""
    processes_per_node: int
    """Processes on each."""
    accelerator: str
    """The GPU; empty on a host without one."""
    fabric: str
    """Network between nodes."""
    image: str
    """Container image, by name of the catalog or reference; empty without Kubernetes."""
    storage: str
    """Storage tier, or the existing claim as `claim/NAME`."""

    @property
    def world_size(self) -> int:
        """All processes."""
        return self.nodes * self.processes_per_node


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch of a step and how it is split."""

    micro_batch_size: int
    """Sequences that one data-parallel rank processes at a time."""
    global_batch_size: int
    """Sequences per step."""
    micro_batches: int
    """Micro batches that each data-parallel rank processes per step."""
    tokens_per_step: int
    """Tokens per step."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything about a run that follows from its spec and the catalog."""

    spec: RunSpec
    """What was asked for."""
    model: PlannedModel
    """The model with its sizes."""
    machines: Machines
    """The machines of the run."""
    layout: Layout
    """Which rank holds what."""
    sequence_parallel: bool
    """Whether norms and dropout are split along the sequence."""
    sharding: Sharding
    """What data-parallel ranks share out."""
    recompute: Recompute
    """Activations that are computed again."""
    stages: tuple[Stage, ...]
    """Which layers each pipeline stage holds."""
    stage_parameters: tuple[int, ...]
    """Parameters that one rank of each stage holds."""
    batch: Batch
    """The batch of a step."""
    length: Length
    """The length of the run."""
    schedule: Schedule
    """The learning rate over the run."""
    save_every_steps: int
    """Steps between checkpoints."""
    checkpoint_location: str
    """Where checkpoints are written."""
    data_location: str
    """Where prepared data are kept."""
    origins: Mapping[str, Origin]
    """For each resolved field of the spec, where its value came from."""
    findings: tuple[Finding, ...] = ()
    """Warnings that came up on the way."""

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data, for JSON."""
        # A mapping that cannot be changed is not known to the serializer.
        plain = replace(self, origins=dict(self.origins))
        data: dict[str, Any] = to_jsonable_python(plain, by_alias=True)
        data["machines"]["world_size"] = self.machines.world_size
        data["layout"]["world_size"] = self.layout.world_size
        data["layout"]["edp_size"] = self.layout.edp_size
        return data

    @property
    def digest(self) -> str:
        """The identity of the plan: what is done, not how it is described or was come by."""
        data = self.to_dict()
        for remark in ("origins", "findings"):
            del data[remark]
        del data["spec"]["description"]
        return digest(data)


BROUGHT_IN = "initial-weights"
"""The directory beside a run's checkpoints that Hugging Face weights are brought into."""


def parent_location(spec: RunSpec) -> str:
    """Where the parent's checkpoints lie: as the spec says, or where it would have them."""
    parent = spec.continue_from
    if parent is None:
        return ""
    mount = spec.cluster.storage.mount.rstrip("/")
    return parent.checkpoints or f"{mount}/{parent.run}/checkpoints"


def weights_location(plan: Plan) -> str | None:
    """The checkpoint whose weights a run begins with; none where they are drawn.

    Those of Hugging Face are made one by the worker, before the first step of the run.
    """
    weights = plan.spec.initial_weights
    if weights is None:
        return None
    return weights.checkpoint or f"{plan.checkpoint_location.rstrip('/')}/{BROUGHT_IN}"
