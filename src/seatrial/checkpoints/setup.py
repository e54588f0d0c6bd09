# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The configuration that a checkpoint depends on, and that decides if a run can resume from it."""

from dataclasses import asdict, dataclass
from typing import Any

from seatrial.hashing import digest
from seatrial.planning.layout import Layout


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The dimensions of the tensors."""

    layers: int
    hidden_size: int
    ffn_hidden_size: int
    """Width of the feed-forward layers."""
    heads: int
    kv_heads: int
    """Number of key and value heads."""
    head_dim: int
    positions: str
    """The position embedding type, under the engine's name."""
    max_positions: int
    """Length of the learned position table; 0 if there is none."""
    norm: str
    """The normalisation type, under the engine's name."""
    gated: bool
    """True for a gated feed-forward layer (SwiGLU)."""
    linear_bias: bool
    """True if linear layers have a bias."""
    qkv_bias: bool
    """True if queries, keys and values have a bias."""
    qk_norm: bool
    """True if queries and keys are normalised."""
    tied_embeddings: bool
    """True if input and output embeddings are shared."""
    padded_vocab_size: int
    """Rows in the embedding, including padding."""
    experts: int
    """Experts per layer; 0 for a dense model."""
    dense_layers: int
    """Leading layers without experts."""
    expert_ffn_hidden_size: int
    """Width of an expert."""
    shared_expert_ffn_hidden_size: int
    """Width of the shared expert; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class SavedConstants:
    """Constants that affect the model's output but are not tensors, so any value loads."""

    rotary_base: float
    """Base of the rotary embedding; 0 if the model has none."""
    rotary_percent: float
    """Fraction of each head that is rotated."""
    rotary_scaling: float
    """Scaling factor of the rotary embedding for longer contexts; 0 if not scaled."""
    norm_epsilon: float
    """Value added in normalisations to avoid division by zero."""


@dataclass(frozen=True, slots=True)
class DataOrder:
    """The settings that determine the order of samples."""

    blend: tuple[str, ...]
    """Weights and paths of the data sets, as passed to the engine; empty for mock data."""
    sizes: tuple[int, ...]
    """Sizes of the blend's token files in bytes; empty if unknown."""
    split: str
    """Proportions of training, validation and test data."""
    seed: int
    """The seed of the shuffle."""
    sequence_length: int
    """Tokens per sample."""
    train_samples: int
    """Number of samples in the whole run. The engine shuffles enough epochs to provide them."""

    @property
    def fingerprint(self) -> str:
        """A digest that is equal if two runs read the same samples in the same order."""
        return digest(asdict(self))


@dataclass(frozen=True, slots=True)
class SavedSchedule:
    """The learning-rate schedule, which the engine compares when it loads a checkpoint."""

    peak: float
    """The highest learning rate."""
    minimum: float
    """The lowest learning rate after the warm-up."""
    style: str
    """The decay style, under the engine's name."""
    warmup_samples: int
    """Length of the warm-up in sequences."""
    decay_samples: int
    """Number of sequences after which the learning rate reaches its minimum."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The software that wrote the checkpoint."""

    seatrial: str
    engine: str
    """Name and version of the engine."""
    torch: str


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration of a run that its checkpoints depend on."""

    layout: Layout
    model: ModelShape
    data_order: DataOrder
    tokenizer: str
    """The tokenizer, as passed to the engine."""
    precision: str
    """`fp32`, `bf16` or `fp16`. Determines which copies of the weights exist."""
    checkpoint_format: str
    """The engine's checkpoint format."""
    optimizer: str
    optimizer_sharding: str
    """How the optimizer state is stored: `none`, or the engine's sharding type."""
    global_batch_size: int
    """Sequences per step."""
    versions: Versions
    """The software that wrote the checkpoint, or would write it."""
    schedule: SavedSchedule | None = None
    """The learning-rate schedule; None in old records."""
    constants: SavedConstants | None = None
    """The model's constants; None in old records, and for engines that do not report them."""
    parts: dict[str, Any] | None = None
    """The parts of the architecture that `model` and `constants` do not describe, by dotted name,
    without those that are not set; None in old records, and for engines that do not report them."""


@dataclass(frozen=True, slots=True)
class CheckpointFormat:
    """The format of a setup's checkpoints, and what the engine can do with them."""

    has_tensor_list: bool = True
    """True if a metadata file maps tensors to shards; otherwise every file is an archive."""
    is_detected: bool = False
    """True if a run that saves in a different format can load this one."""
    is_bound_to_layout: bool = False
    """True if only a run with the same layout can load the checkpoint."""
    is_reshardable: bool = True
    """True if the checkpoint can be loaded with a different tp and pp."""
    has_flexible_padding: bool = False
    """True if the weights load into an embedding with a different number of padding rows."""
    optimizer_names: str = ""
    """The naming scheme of the optimizer state, if the engine has several."""
    has_expert_optimizer: bool = False
    """True if experts have a separate optimizer in this layout."""


def setup_to_dict(setup: Setup) -> dict[str, Any]:
    """Serialize the setup. Omits fields that are None, because old records do not have them."""
    values = asdict(setup)
    values["layout"]["world_size"] = setup.layout.world_size
    for name in ("schedule", "constants", "parts"):
        if values[name] is None:
            del values[name]
    return values


def setup_from_dict(values: dict[str, Any]) -> Setup:
    """Parse a setup. Raises KeyError or TypeError if it is malformed."""
    order = values["data_order"]
    parts: dict[str, Any] = {
        "layout": _layout_from_dict(values["layout"]),
        "model": ModelShape(**values["model"]),
        "data_order": DataOrder(
            **order | {"blend": tuple(order["blend"]), "sizes": tuple(order["sizes"])}
        ),
        "versions": Versions(**values["versions"]),
    }
    if values.get("schedule") is not None:
        parts["schedule"] = SavedSchedule(**values["schedule"])
    if values.get("constants") is not None:
        parts["constants"] = SavedConstants(**values["constants"])
    return Setup(**values | parts)


def _layout_from_dict(values: dict[str, Any]) -> Layout:
    """Parse the layout. Raises ValueError if its sizes do not match the number of ranks."""
    sizes = dict(values)
    ranks = sizes.pop("world_size")
    if not all(type(size) is int for size in sizes.values()):
        raise ValueError("a layout size is not an integer")
    layout = Layout(**sizes)
    if layout.world_size != ranks:
        raise ValueError(
            f"the layout needs {layout.world_size} ranks, but the world size is {ranks}"
        )
    return layout
