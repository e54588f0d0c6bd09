# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A new run.yaml: eight values that were asked for, a first layout, and a comment at each."""

from dataclasses import dataclass

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.models import ModelPreset
from seatrial.planning.first_layout import FirstLayout, first_layout
from seatrial.planning.resolve import resolve
from seatrial.spec.engine import EngineName
from seatrial.spec.loader import loads
from seatrial.spec.run import API_VERSION
from seatrial.units import format_bytes, parse_count

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a person says when making a new spec."""

    name: str
    """Name of the run."""
    model: str
    """Preset of the catalog."""
    profile: str
    """Kind of cluster."""
    node_type: str | None = None
    """Machine type; the profile's default when absent."""
    nodes: int = 1
    """Machines."""
    processes_per_node: int | None = None
    """Processes on each machine; all its GPUs when absent."""
    data: str | None = None
    """Address of the raw text; mock data when absent."""
    tokenizer: str | None = None
    """The tokenizer; the preset's own when absent."""
    tokens: str = "10B"
    """Length of the run."""


@dataclass(frozen=True, slots=True)
class Starter:
    """A new spec, and what its maker should be told."""

    text: str
    """The file."""
    node_type: str
    """Machine type that was chosen."""
    shortage: str
    """Why it will not fit into memory, in a sentence; empty when the rough count is good."""


def starter(wishes: Wishes, catalog: Catalog) -> Starter:
    """A spec that validates and resolves to a plan; raises FindingsError when wishes forbid it."""
    preset = catalog.model(wishes.model)
    profile = catalog.profile(wishes.profile)
    node_name = wishes.node_type or profile.default_node_type
    node = catalog.node_type(node_name)
    per_node = wishes.processes_per_node or node.gpus or 1
    memory = 0
    if node.accelerator:
        memory = int(catalog.accelerator(node.accelerator).usable_memory_gib * GIB)
    # LLM Foundry has no tensor or pipeline parallelism: every rank is a data-parallel one.
    foundry = preset.engine == EngineName.LLM_FOUNDRY
    first = first_layout(preset, wishes.nodes * per_node, per_node, memory, divide=not foundry)
    shortage = ""
    if not first.fits:
        state, room = format_bytes(first.state_bytes), format_bytes(memory)
        shortage = f"weights, gradients and optimizer state alone take about {state} of {room}."
    lines = [
        *_head(wishes, preset),
        *_data(wishes.data, wishes.tokenizer or preset.tokenizer),
        *_training(wishes, first),
        *_parallelism(preset, first, memory),
        *_cluster(wishes, node_name, node.gpus, per_node),
        f"checkpoints: {{every_steps: {_save_interval(wishes, preset, first)}, keep_last: 3}}",
    ]
    if foundry:
        lines += ["", f"engine: {{name: {preset.engine}}}"]
    text = "\n".join(lines) + "\n"
    resolve(loads(text, "run.yaml"), catalog)
    return Starter(text, node_name, shortage)


def _save_interval(wishes: Wishes, preset: ModelPreset, first: FirstLayout) -> int:
    """Ten saves in a short run, one every 1000 steps in a long one."""
    try:
        tokens = parse_count(wishes.tokens)
    except ValueError:
        return 1000
    steps = tokens // (first.global_batch_size * preset.sequence_length)
    return max(1, min(1000, steps // 10))


def _head(wishes: Wishes, preset: ModelPreset) -> list[str]:
    """Version, name and model."""
    dimensions = preset.architecture
    shape = f"{dimensions.layers} layers × {dimensions.hidden_size}"
    return [
        "# What this run should do. Every key: seatrial schema, or the reference of the spec.",
        "# Check it after each change: seatrial validate THIS_FILE",
        f"apiVersion: {API_VERSION}",
        f"name: {wishes.name}",
        "",
        f"model: {{preset: {wishes.model}}}    # {shape}; seatrial catalog list models",
        "",
    ]


def _data(address: str | None, tokenizer: str) -> list[str]:
    """Sources, or mock data."""
    lines = ["data:"]
    if address:
        lines += ["  sources:", f"    - from: {address}"]
    else:
        lines += [
            "  mock: true    # made-up tokens; for your own text, in its place:",
            "  # sources:",
            "  #   - from: s3://BUCKET/PATH    # or hf://datasets/OWNER/NAME@REVISION, abfs://, gs://",
        ]
    if tokenizer:
        lines.append(f"  tokenizer: {tokenizer}")
    return [*lines, ""]


def _training(wishes: Wishes, layout: FirstLayout) -> list[str]:
    """Length and batch."""
    return [
        "training:",
        f"  tokens: {wishes.tokens}    # or steps, or samples",
        "  micro_batch_size: 1",
        f"  global_batch_size: {layout.global_batch_size}    # sequences a step, over all ranks",
        "",
    ]


def _parallelism(preset: ModelPreset, first: FirstLayout, memory: int) -> list[str]:
    """The first layout, and how it was come by."""
    layout = first.layout
    state = format_bytes(first.state_bytes)
    if not memory:
        count = f"# Weights, gradients and optimizer state: about {state} a rank."
    else:
        verdict = "" if first.fits else " It does not fit: use more nodes."
        count = f"# State: about {state} of {format_bytes(memory)} a GPU.{verdict}"
    lines = [
        "# A legal first layout, counted roughly; it is not tuned.",
        count,
        "parallelism:",
        f"  tp_size: {layout.tp_size}",
        f"  pp_size: {layout.pp_size}",
        "  vp_size: 1",
        "  cp_size: 1",
    ]
    if preset.architecture.is_moe:
        lines.append(f"  ep_size: {layout.ep_size}")
    if first.first_stage_layers is not None:
        lines.append(f"  first_stage_layers: {first.first_stage_layers}")
        lines.append(f"  last_stage_layers: {first.last_stage_layers}")
    sharding = "fsdp" if preset.engine == EngineName.LLM_FOUNDRY else "optimizer"
    lines += [
        f"  sequence_parallel: {'true' if layout.tp_size > 1 else 'false'}",
        f"  sharding: {sharding}",
        "  recompute: selective",
        "",
    ]
    return lines


def _cluster(wishes: Wishes, node_type: str, gpus: int, per_node: int) -> list[str]:
    """Where it runs."""
    lines = [
        "cluster:",
        f"  profile: {wishes.profile}    # seatrial catalog list profiles",
        f"  node_type: {node_type}",
        f"  nodes: {wishes.nodes}",
    ]
    if per_node != gpus:
        lines.append(f"  processes_per_node: {per_node}")
    return [*lines, ""]
