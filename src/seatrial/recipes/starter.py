# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Writes a new run.yaml with the user's settings; the planner chooses the rest."""

import json
import re
from dataclasses import dataclass

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.models import ModelPreset
from seatrial.catalog.profiles import Profile
from seatrial.codes.spec import SpecCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.planning.parameters import total_parameters
from seatrial.planning.resolve import EXACT_GELU_OPTION, resolve_basis
from seatrial.spec.cluster import NO_GPUS, Operator
from seatrial.spec.engine import DEFAULT_ENGINE
from seatrial.spec.loader import loads
from seatrial.spec.run import API_VERSION
from seatrial.spec.training import TrainingSpec

_PLAIN = re.compile(r"[A-Za-z0-9_./][\w./:@+%~-]*[\w/]|\w", re.ASCII)
_READ_OTHERWISE = re.compile(r"(true|false|null|[-+.]?[0-9][0-9.xoe+-]*)", re.IGNORECASE)
_BUCKETS = ("s3://", "abfs://", "abfss://", "gs://", "gcs://", "az://")
PROCESSES_WITHOUT_GPUS = 2
"""Processes on a machine without GPUs: the minimum for distributed training."""
SEQUENCES_WITHOUT_GPUS = 8
"""Sequences per step for each process without a GPU."""
LARGEST_ON_CPU = 1_000_000_000
"""Parameters of the largest model that somebody would train on CPUs."""
LONGEST_AT_FIRST = 4096
"""Sequence length of a new spec whose model does not say how it was trained."""
_GATED = "licence to be accepted"
"""Text in the note on a preset whose tokenizer is gated."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The settings for a new spec."""

    name: str
    """Name of the run."""
    model: str
    """Model preset from the catalog."""
    profile: str
    """Cluster profile."""
    node_type: str | None = None
    """Node type; defaults to the profile's."""
    accelerator: str | None = None
    """GPU of this host, for a run on one host; defaults to the GPUs that the plan detects."""
    nodes: int = 1
    """Number of nodes."""
    processes_per_node: int | None = None
    """Processes per node; defaults to one for each GPU."""
    data: str | None = None
    """Address of the raw text; defaults to mock data."""
    tokenizer: str | None = None
    """The tokenizer; defaults to the preset's."""
    tokens: str | None = None
    """Length of the run; the default depends on the profile."""
    huggingface: str | None = None
    """Address of the config.json of a model that the catalog does not list."""
    volume: str | None = None
    """Where a run on this host stores its files; defaults to the spec's default mount."""


@dataclass(frozen=True, slots=True)
class Starter:
    """A new spec."""

    text: str
    """The text of the file."""
    node_type: str
    """The node type."""


@dataclass(frozen=True, slots=True)
class Usual:
    """The defaults for a new run."""

    model: str
    """Model preset from the catalog."""
    tokens: str
    """Length of the run."""


def usual(profile: Profile) -> Usual:
    """Return the defaults; on one host, a run that takes a minute or two on a laptop."""
    if Operator.TORCHRUN in profile.operators:
        return Usual("stories-260k", "300k")
    return Usual("gpt3-125m", "10B")


def starter(wishes: Wishes, catalog: Catalog) -> Starter:
    """Return a valid spec; raise FindingsError if the settings do not allow one.

    Layout, batch size and saves are `auto`: the planner determines whether and how the model fits.
    """
    _refuse_unprintable(wishes)
    preset = chosen_model(wishes, catalog)
    profile = catalog.profile(wishes.profile)
    node_name = wishes.node_type or profile.default_node_type
    node = catalog.node_type(node_name)
    without_gpus = PROCESSES_WITHOUT_GPUS if wishes.accelerator in (None, NO_GPUS) else 1
    per_node = wishes.processes_per_node or node.gpus or without_gpus
    tokens = usual(profile).tokens if wishes.tokens is None else wishes.tokens
    tokenizer = (preset.tokenizer or None) if wishes.tokenizer is None else wishes.tokenizer
    lines = [
        *_head(wishes, preset),
        *_data(wishes.data, tokenizer),
        "training:",
        f"  tokens: {_count(tokens)}    # or steps, or samples",
        f"  global_batch_size: {_batch(preset, wishes, node.gpus, per_node)}",
        *_published(wishes, preset),
        "",
        "# auto: seatrial plan chooses a value and shows why. Values that you set are kept.",
        "parallelism: {tp_size: auto, pp_size: auto, recompute: auto}",
        "",
        *_cluster(wishes, node_name, node.gpus, per_node),
        *_volume(wishes.volume, profile, catalog),
        *_access(wishes, preset, profile),
    ]
    if preset.engine != DEFAULT_ENGINE:
        lines += ["", f"engine: {{name: {preset.engine}}}"]
    elif preset.exact_gelu:
        option = f"{EXACT_GELU_OPTION}: true"
        lines += ["", f"engine: {{options: {{{option}}}}}    # exact GELU, as published"]
    text = "\n".join(lines) + "\n"
    # This raises if names or machines are wrong; the planner checks the rest.
    resolve_basis(loads(text, "run.yaml"), catalog)
    return Starter(text, node_name)


def chosen_model(wishes: Wishes, catalog: Catalog) -> ModelPreset:
    """Return the preset, or the model by its config.json."""
    if wishes.huggingface is not None:
        return catalog.unlisted_model(wishes.huggingface)
    return catalog.model(wishes.model)


def _published(wishes: Wishes, preset: ModelPreset) -> list[str]:
    """Return the training settings that a published config.json has, or lacks."""
    lines = []
    if wishes.huggingface is not None:
        length = min(preset.sequence_length, LONGEST_AT_FIRST)
        lines.append(f"  sequence_length: {length}    # the config.json does not state it")
    usual_std = TrainingSpec.model_fields["init_std"].default
    if preset.init_std not in (None, usual_std):
        lines.append(f"  init_std: {preset.init_std:.6g}    # as published")
    return lines


def _refuse_unprintable(wishes: Wishes) -> None:
    """Reject line breaks and control characters, which would make the file unreadable."""
    given = {
        "name": wishes.name,
        "data.sources[0].from": wishes.data,
        "data.tokenizer": wishes.tokenizer,
        "model.huggingface": wishes.huggingface,
        "training.tokens": wishes.tokens,
    }
    found = [
        Finding(
            SpecCode.TYPE,
            Severity.ERROR,
            Where(field=field),
            "the value contains an unprintable character, such as a line break.",
            "",
            "Remove the character.",
        )
        for field, value in given.items()
        if value is not None and not value.isprintable()
    ]
    if found:
        raise FindingsError(found)


def _scalar(value: str) -> str:
    """Format text as a YAML scalar, with quotes if it needs them."""
    if _PLAIN.fullmatch(value) and not _READ_OTHERWISE.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _count(value: str) -> str:
    """Format a count as YAML, without quotes."""
    return value if re.fullmatch(r"\w[\w.]*", value, re.ASCII) else _scalar(value)


def _head(wishes: Wishes, preset: ModelPreset) -> list[str]:
    """Return the lines with version, name and model."""
    dimensions = preset.architecture
    shape = f"{dimensions.layers} layers × {dimensions.hidden_size}"
    model = f"{{preset: {_scalar(wishes.model)}}}    # {shape}; seatrial catalog list models"
    if wishes.huggingface is not None:
        model = f"{{huggingface: {_scalar(wishes.huggingface)}}}    # {shape}"
    return [
        "# The spec of this run. All keys: seatrial schema, or the spec reference.",
        f"apiVersion: {API_VERSION}",
        f"name: {_scalar(wishes.name)}",
        "",
        f"model: {model}",
        "",
    ]


def _data(address: str | None, tokenizer: str | None) -> list[str]:
    """Return the lines with sources or mock data."""
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
    if wishes.accelerator is not None:
        lines.append(f"  accelerator: {_scalar(wishes.accelerator)}")
    if per_node != gpus:
        lines.append(f"  processes_per_node: {per_node}")
    return lines


def _batch(preset: ModelPreset, wishes: Wishes, gpus: int, per_node: int) -> str:
    """Return the global batch size: `auto`, or a small number for training on CPUs."""
    model = preset.architecture
    needs_gpus = total_parameters(model, model.vocab_size) > LARGEST_ON_CPU
    if gpus or needs_gpus or wishes.accelerator not in (None, NO_GPUS):
        return "auto    # sequences per step"
    batch = SEQUENCES_WITHOUT_GPUS * wishes.nodes * per_node
    return f"{batch}    # sequences per step; small without GPUs"


def _volume(directory: str | None, profile: Profile, catalog: Catalog) -> list[str]:
    """Return the line with the directory on this host, or with a PVC that must exist."""
    if Operator.TORCHRUN not in profile.operators:
        needs_claim = catalog.storage(profile.default_storage).needs_claim
        claim = "  storage: {claim: training}    # name of an existing PVC with ReadWriteMany"
        return [claim] if needs_claim else []
    if directory is None:
        return []
    return [f"  storage: {{mount: {_scalar(directory)}}}    # data, checkpoints"]


def _access(wishes: Wishes, preset: ModelPreset, profile: Profile) -> list[str]:
    """Return comments for the user to complete, for access to private data."""
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
