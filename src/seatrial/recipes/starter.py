# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A new run.yaml: eight values that were asked for, a first layout, and a comment at each."""

import json
import re
from dataclasses import dataclass

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.models import ModelPreset
from seatrial.catalog.profiles import Profile
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.planning.first_layout import USUAL_BATCH, FirstLayout, first_layout
from seatrial.planning.resolve import resolve
from seatrial.spec.cluster import Operator
from seatrial.spec.codes import SpecCode
from seatrial.spec.engine import EngineName
from seatrial.spec.loader import loads
from seatrial.spec.run import API_VERSION
from seatrial.units import format_bytes, parse_count

GIB = 1 << 30

_PLAIN = re.compile(r"[A-Za-z0-9_./][\w./:@+%~-]*[\w/]|\w", re.ASCII)
_READ_OTHERWISE = re.compile(r"(true|false|null|[-+.]?[0-9][0-9.xoe+-]*)", re.IGNORECASE)
_BUCKETS = ("s3://", "abfs://", "abfss://", "gs://", "gcs://", "az://")
_GATED = "licence to be accepted"
"""How the note of a preset says that its tokenizer cannot be had without an account."""


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
    _refuse_unprintable(wishes)
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
    tokenizer = wishes.tokenizer
    if tokenizer is None:
        tokenizer = preset.tokenizer or None
    shortage = ""
    if not first.fits:
        state, room = format_bytes(first.state_bytes), format_bytes(memory)
        shortage = f"weights, gradients and optimizer state alone take about {state} of {room}."
    lines = [
        *_head(wishes, preset),
        *_data(wishes.data, tokenizer),
        *_training(wishes, preset, first),
        *_parallelism(preset, first, memory),
        *_cluster(wishes, node_name, node.gpus, per_node),
        *_access(wishes, preset, profile),
        "",
        f"checkpoints: {{every_steps: {_save_interval(wishes, preset, first)}, keep_last: 3}}",
    ]
    if foundry:
        lines += ["", f"engine: {{name: {preset.engine}}}"]
    text = "\n".join(lines) + "\n"
    resolve(loads(text, "run.yaml"), catalog)
    return Starter(text, node_name, shortage)


def _refuse_unprintable(wishes: Wishes) -> None:
    """Refuse line breaks and control characters: no file could hold them readably."""
    given = {
        "name": wishes.name,
        "data.sources[0].from": wishes.data,
        "data.tokenizer": wishes.tokenizer,
        "training.tokens": wishes.tokens,
    }
    found = [
        Finding(
            SpecCode.TYPE,
            Severity.ERROR,
            Where(field=field),
            "it has a character that cannot be printed, such as a line break.",
            "",
            "Remove it.",
        )
        for field, value in given.items()
        if value is not None and not value.isprintable()
    ]
    if found:
        raise FindingsError(found)


def _scalar(value: str) -> str:
    """The text as YAML that reads as the same text; in quotes where it must be."""
    if _PLAIN.fullmatch(value) and not _READ_OTHERWISE.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _count(value: str) -> str:
    """A count as YAML: a number stays one."""
    return value if re.fullmatch(r"\w[\w.]*", value, re.ASCII) else _scalar(value)


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
        f"name: {_scalar(wishes.name)}",
        "",
        f"model: {{preset: {_scalar(wishes.model)}}}    # {shape}; seatrial catalog list models",
        "",
    ]


def _data(address: str | None, tokenizer: str | None) -> list[str]:
    """Sources, or mock data."""
    lines = ["data:"]
    if address is not None:
        lines += ["  sources:", f"    - from: {_scalar(address)}"]
    else:
        lines += [
            "  mock: true    # made-up tokens; for your own text, in its place:",
            "  # sources:",
            "  #   - from: s3://BUCKET/PATH    # or hf://datasets/OWNER/NAME@REVISION, abfs://, gs://",
        ]
    if tokenizer is not None:
        lines.append(f"  tokenizer: {_scalar(tokenizer)}")
    return [*lines, ""]


def _training(wishes: Wishes, preset: ModelPreset, first: FirstLayout) -> list[str]:
    """Length and batch."""
    batch, usual = first.global_batch_size, preset.global_batch_size or USUAL_BATCH
    about = "sequences a step, over all ranks"
    if batch != usual:
        about += f"; {usual:,} would not divide by dp {first.layout.dp_size}"
    return [
        "training:",
        f"  tokens: {_count(wishes.tokens)}    # or steps, or samples",
        "  micro_batch_size: 1",
        f"  global_batch_size: {batch}    # {about}",
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
        "# A legal first layout, counted roughly; auto leaves a value to seatrial plan.",
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
        f"  profile: {_scalar(wishes.profile)}    # seatrial catalog list profiles",
        f"  node_type: {_scalar(node_type)}",
        f"  nodes: {wishes.nodes}",
    ]
    if per_node != gpus:
        lines.append(f"  processes_per_node: {per_node}")
    return lines


def _access(wishes: Wishes, preset: ModelPreset, profile: Profile) -> list[str]:
    """How pods get at what is not public, as comments to fill in."""
    if Operator.TORCHRUN in profile.operators:
        return []
    lines, address = [], wishes.data or ""
    if address.startswith(_BUCKETS):
        lines += [
            "  # Access to the bucket comes from a service account, not from keys:",
            "  # service_account: training",
        ]
    gated = wishes.tokenizer in (None, preset.tokenizer) and _GATED in preset.note
    if gated or address.startswith("hf://"):
        what = "The tokenizer is gated" if gated else "If the dataset is gated"
        lines += [
            f"  # {what}: a Hugging Face token, from a Kubernetes secret that you made:",
            "  # secrets:",
            "  #   - {secret: huggingface, key: token, env: HF_TOKEN}",
        ]
    return lines
