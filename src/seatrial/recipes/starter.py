# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A new run.yaml: the values that were asked for; what it leaves out is the planner's."""

import json
import re
from dataclasses import dataclass

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.models import ModelPreset
from seatrial.catalog.profiles import Profile
from seatrial.codes.spec import SpecCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.planning.resolve import resolve_basis
from seatrial.spec.cluster import Operator
from seatrial.spec.engine import DEFAULT_ENGINE
from seatrial.spec.loader import loads
from seatrial.spec.run import API_VERSION

_PLAIN = re.compile(r"[A-Za-z0-9_./][\w./:@+%~-]*[\w/]|\w", re.ASCII)
_READ_OTHERWISE = re.compile(r"(true|false|null|[-+.]?[0-9][0-9.xoe+-]*)", re.IGNORECASE)
_BUCKETS = ("s3://", "abfs://", "abfss://", "gs://", "gcs://", "az://")
PROCESSES_WITHOUT_GPUS = 2
"""Processes on a machine without GPUs: the fewest that show what several do."""
SEQUENCES_WITHOUT_GPUS = 8
"""Sequences of a step for each process without a GPU."""
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
    tokens: str | None = None
    """Length of the run; what is usual for the profile when absent."""
    volume: str | None = None
    """Where a run on this host keeps its files; the spec's default when absent."""


@dataclass(frozen=True, slots=True)
class Starter:
    """A new spec, and what its maker should be told."""

    text: str
    """The file."""
    node_type: str
    """Machine type that was chosen."""


@dataclass(frozen=True, slots=True)
class Usual:
    """What a new run is like unless its maker says otherwise."""

    model: str
    """Preset of the catalog."""
    tokens: str
    """Length of the run."""


def usual(profile: Profile) -> Usual:
    """What is usual: on one host, what a laptop can train in a minute or two."""
    if Operator.TORCHRUN in profile.operators:
        return Usual("stories-260k", "300k")
    return Usual("gpt3-125m", "10B")


def starter(wishes: Wishes, catalog: Catalog) -> Starter:
    """A spec that validates; raises FindingsError when wishes forbid it.

    Layout, batch and saves are `auto`: whether the model fits, and how, is the planner's to say.
    """
    _refuse_unprintable(wishes)
    preset = catalog.model(wishes.model)
    profile = catalog.profile(wishes.profile)
    node_name = wishes.node_type or profile.default_node_type
    node = catalog.node_type(node_name)
    per_node = wishes.processes_per_node or node.gpus or PROCESSES_WITHOUT_GPUS
    tokens = usual(profile).tokens if wishes.tokens is None else wishes.tokens
    tokenizer = (preset.tokenizer or None) if wishes.tokenizer is None else wishes.tokenizer
    lines = [
        *_head(wishes, preset),
        *_data(wishes.data, tokenizer),
        "training:",
        f"  tokens: {_count(tokens)}    # or steps, or samples",
        f"  global_batch_size: {_batch(node.gpus, wishes.nodes * per_node)}",
        "",
        "# auto: seatrial plan chooses a value and shows why. Values that you set are kept.",
        "parallelism: {tp_size: auto, pp_size: auto, recompute: auto}",
        "",
        *_cluster(wishes, node_name, node.gpus, per_node),
        *_volume(wishes.volume, profile),
        *_access(wishes, preset, profile),
    ]
    if preset.engine != DEFAULT_ENGINE:
        lines += ["", f"engine: {{name: {preset.engine}}}"]
    text = "\n".join(lines) + "\n"
    # Raises where names or machines are wrong; the rest is left to the planner.
    resolve_basis(loads(text, "run.yaml"), catalog)
    return Starter(text, node_name)


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
            "it contains a character that cannot be printed, such as a line break.",
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


def _head(wishes: Wishes, preset: ModelPreset) -> list[str]:
    """Version, name and model."""
    dimensions = preset.architecture
    shape = f"{dimensions.layers} layers × {dimensions.hidden_size}"
    return [
        "# The spec of this run. All keys: seatrial schema, or the spec reference.",
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
            "  mock: true    # random tokens; for your own text, use instead:",
            "  # sources:",
            "  #   - from: s3://BUCKET/PATH    # or hf://datasets/OWNER/NAME@REVISION, abfs://, gs://",
        ]
    if tokenizer is not None:
        lines.append(f"  tokenizer: {_scalar(tokenizer)}")
    return [*lines, ""]


def _cluster(wishes: Wishes, node_type: str, gpus: int, per_node: int) -> list[str]:
    lines = [
        "cluster:",
        f"  profile: {_scalar(wishes.profile)}    # seatrial catalog list profiles",
        f"  node_type: {_scalar(node_type)}",
        f"  nodes: {wishes.nodes}",
    ]
    if per_node != gpus:
        lines.append(f"  processes_per_node: {per_node}")
    return lines


def _batch(gpus: int, processes: int) -> str:
    """The batch: the planner's, or a small one where processors would work on it for minutes."""
    if gpus:
        return "auto    # sequences per step"
    return f"{SEQUENCES_WITHOUT_GPUS * processes}    # sequences per step; few, without GPUs"


def _volume(directory: str | None, profile: Profile) -> list[str]:
    """Where data and checkpoints go on this host."""
    if directory is None or Operator.TORCHRUN not in profile.operators:
        return []
    return [f"  storage: {{mount: {_scalar(directory)}}}    # data, checkpoints"]


def _access(wishes: Wishes, preset: ModelPreset, profile: Profile) -> list[str]:
    """How pods get at what is not public, as comments to fill in."""
    if Operator.TORCHRUN in profile.operators:
        return []
    lines, address = [], wishes.data or ""
    if address.startswith(_BUCKETS):
        lines += [
            "  # Pods access the bucket through a service account, not with keys:",
            "  # service_account: training",
        ]
    gated = wishes.tokenizer in (None, preset.tokenizer) and _GATED in preset.note
    if gated or address.startswith("hf://"):
        what = "The tokenizer is gated" if gated else "If the dataset is gated"
        lines += [
            f"  # {what}: a Hugging Face token, from a Kubernetes secret that you create:",
            "  # secrets:",
            "  #   - {secret: huggingface, key: token, env: HF_TOKEN}",
        ]
    return lines
