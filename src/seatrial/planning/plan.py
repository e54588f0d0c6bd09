# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The plan: a fully resolved spec, from which all later steps start."""

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
    """The origin of a resolved value."""

    YOU = "you"
    """The spec or an override."""
    CATALOG = "catalog"
    """A preset, node type or profile in the catalog."""
    DEFAULT = "default"
    """The default of the field, or the only possible value."""
    PLANNER = "planner"
    """The planner."""
    HOST = "host"
    """Detected on this host."""


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """The model with its sizes."""

    name: str
    """The preset's name, or `custom`."""
    architecture: Architecture
    """Every dimension."""
    sequence_length: int
    """Tokens per sequence."""
    padded_vocab_size: int
    """Vocabulary size with padding."""
    parameters: int
    """Parameters of the whole model, each counted once."""
    active_parameters: int
    """Parameters that one token uses."""
    tokenizer: str
    """The tokenizer in the spec or the preset; empty for mock data without a tokenizer."""


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines of the run."""

    profile: str
    """Kind of cluster."""
    operator: Operator
    """The operator that starts the processes."""
    node_type: str
    """Machine type."""
    nodes: int
    """Number of nodes."""
    processes_per_node: int
    """Processes per node."""
    accelerator: str
    """The GPU; empty on a host without one."""
    fabric: str
    """Network between the nodes."""
    image: str
    """Container image, as a name in the catalog or a reference; empty without Kubernetes."""
    storage: str
    """Storage tier, or the existing PVC as `claim/NAME`."""

    @property
    def world_size(self) -> int:
        """Number of processes."""
        return self.nodes * self.processes_per_node


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch of a step, and how it is split."""

    micro_batch_size: int
    """Sequences that one data-parallel rank processes at a time."""
    global_batch_size: int
    """Sequences per step; with a batch schedule, after its last change."""
    micro_batches: int
    """Micro-batches that each data-parallel rank processes per step."""
    tokens_per_step: int
    """Tokens per step."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that follows from a spec and the catalog."""

    spec: RunSpec
    """The spec, with chosen values in place of `auto`."""
    model: PlannedModel
    """The model with its sizes."""
    machines: Machines
    """The machines of the run."""
    layout: Layout
    """The parallel degrees."""
    sequence_parallel: bool
    """True if norms and dropout are split along the sequence."""
    sharding: Sharding
    """Which state is sharded over the data-parallel ranks."""
    recompute: Recompute
    """Which activations are recomputed."""
    stages: tuple[Stage, ...]
    """The layers of each pipeline stage."""
    stage_parameters: tuple[int, ...]
    """Parameters on one rank of each stage."""
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
    """Where prepared data is stored."""
    origins: Mapping[str, Origin]
    """The origin of each resolved spec field."""
    findings: tuple[Finding, ...] = ()
    """Warnings and notes."""

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data for JSON."""
        # The serializer does not support immutable mappings.
        plain = replace(self, origins=dict(self.origins))
        data: dict[str, Any] = to_jsonable_python(plain, by_alias=True)
        for stage in data["stages"]:
            # Digests of plans without a custom layout stay equal to those of earlier versions.
            if stage["mtp"] is None:
                del stage["mtp"]
        data["machines"]["world_size"] = self.machines.world_size
        data["layout"]["world_size"] = self.layout.world_size
        data["layout"]["edp_size"] = self.layout.edp_size
        if len(self.length.phases) == 1:
            # Plans that were stored before batch schedules existed stay valid.
            del data["length"]["phases"]
        return data

    @property
    def digest(self) -> str:
        """The digest of the plan, without descriptions, origins and findings."""
        data = self.to_dict()
        for remark in ("origins", "findings"):
            del data[remark]
        del data["spec"]["description"]
        return digest(data)


def dataset_location(plan: Plan) -> str:
    """Return the data set that the run reads; empty for mock data, or if there are several."""
    sources = plan.spec.data.sources or ()
    if any(source.prepared is None for source in sources):
        return plan.data_location
    places = {str(source.prepared).rstrip("/").rpartition("/")[0] for source in sources}
    return places.pop() if len(places) == 1 else ""


BROUGHT_IN = "initial-weights"
"""The directory next to a run's checkpoints for imported Hugging Face weights."""


def parent_location(spec: RunSpec) -> str:
    """Return the location of the parent's checkpoints: from the spec, or the default."""
    parent = spec.continue_from
    if parent is None:
        return ""
    mount = spec.cluster.storage.mount.rstrip("/")
    return parent.checkpoints or f"{mount}/{parent.run}/checkpoints"


def weights_location(plan: Plan) -> str | None:
    """Return the checkpoint that a run starts from, or None for random weights.

    The worker converts Hugging Face weights to a checkpoint before the first step.
    """
    weights = plan.spec.initial_weights
    if weights is None:
        return None
    return weights.checkpoint or f"{plan.checkpoint_location.rstrip('/')}/{BROUGHT_IN}"
