# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint's state belongs to: the facts that decide whether it can be resumed."""

from dataclasses import asdict, dataclass
from typing import Any

from seatrial.hashing import digest
from seatrial.planning.layout import Layout


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The dimensions that the tensors have."""

    layers: int
    hidden_size: int
    ffn_hidden_size: int
    """Width of the feed-forward part."""
    heads: int
    kv_heads: int
    """Heads of keys and values."""
    head_dim: int
    """Width of a head."""
    positions: str
    """Kind of positions, by the engine's name."""
    max_positions: int
    """Length of the table of learned positions; 0 where there is none."""
    norm: str
    """Kind of normalisation, by the engine's name."""
    gated: bool
    """Whether the feed-forward part is gated (SwiGLU)."""
    linear_bias: bool
    """Whether linear layers have a bias."""
    qkv_bias: bool
    """Whether queries, keys and values have one."""
    qk_norm: bool
    """Whether queries and keys are normalised."""
    tied_embeddings: bool
    """Whether the first and the last embedding are one."""
    padded_vocab_size: int
    """Rows of the embedding, padding included."""
    experts: int
    """Experts of a layer; 0 in a dense model."""
    dense_layers: int
    """Leading layers without experts."""
    expert_ffn_hidden_size: int
    """Width of an expert."""
    shared_expert_ffn_hidden_size: int
    """Width of the shared expert; 0 without one."""


@dataclass(frozen=True, slots=True)
class SavedConstants:
    """What decides what the model computes, and has no tensor of its own: any of it loads."""

    rotary_base: float
    """Base of the rotation of positions; 0 where none are rotated."""
    rotary_percent: float
    """Share of each head that is rotated."""
    rotary_scaling: float
    """Factor by which the rotation is stretched for longer texts; 0 where it is not."""
    norm_epsilon: float
    """What keeps a normalisation from dividing by nothing."""


@dataclass(frozen=True, slots=True)
class DataOrder:
    """What decides which sample comes when."""

    blend: tuple[str, ...]
    """Weights and paths of the data sets, as the engine is given them; empty for mock data."""
    sizes: tuple[int, ...]
    """Bytes of the token files of the blend; empty where they were not looked at."""
    split: str
    """Shares of training, validation and test."""
    seed: int
    """The seed of the shuffle."""
    sequence_length: int
    """Tokens of a sample."""
    train_samples: int
    """Samples of the whole run: the engine shuffles as many epochs as they take."""

    @property
    def fingerprint(self) -> str:
        """A digest that two runs share when they read the same samples in the same order."""
        return digest(asdict(self))


@dataclass(frozen=True, slots=True)
class SavedSchedule:
    """The learning rate over the run, which the engine compares when it loads a checkpoint."""

    peak: float
    """The highest rate."""
    minimum: float
    """The lowest rate after the warm-up."""
    style: str
    """How it falls, by the engine's name."""
    warmup_samples: int
    """Sequences of the warm-up."""
    decay_samples: int
    """Sequences after which the lowest rate is reached."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What wrote the checkpoint."""

    seatrial: str
    engine: str
    """Name and version of the engine."""
    torch: str


@dataclass(frozen=True, slots=True)
class Setup:
    """The facts about a run that its checkpoints depend on."""

    layout: Layout
    """How it is spread."""
    model: ModelShape
    data_order: DataOrder
    """What is read when."""
    tokenizer: str
    """The tokenizer, as the engine is given it."""
    precision: str
    """`fp32`, `bf16` or `fp16`: which copies of the weights there are."""
    checkpoint_format: str
    """The engine's format of checkpoints."""
    optimizer: str
    optimizer_sharding: str
    """How its state is kept: `none`, or the engine's sharding type."""
    global_batch_size: int
    """Sequences a step."""
    versions: Versions
    """What wrote it, or would."""
    schedule: SavedSchedule | None = None
    """The learning rate; absent in records from before it was written down."""
    constants: SavedConstants | None = None
    """Constants of the model; absent in such records too, and for engines that do not tell."""


@dataclass(frozen=True, slots=True)
class CheckpointFormat:
    """What an engine can do with the checkpoints of a setup, and how they are stored."""

    has_tensor_list: bool = True
    """Whether a list of tensors tells what lies in which file; else every file is an archive."""
    is_detected: bool = False
    """Whether a run that saves in another format loads it all the same."""
    is_bound_to_layout: bool = False
    """Whether it loads only into the layout that saved it."""
    is_reshardable: bool = True
    """Whether another tp and pp can load it."""
    has_flexible_padding: bool = False
    """Whether the weights load into an embedding with more or fewer rows of padding."""
    optimizer_names: str = ""
    """By which names the optimizer's state is kept, where there are several kinds of them."""
    has_expert_optimizer: bool = False
    """Whether experts, where there are any, have an optimizer of their own in this layout."""


def setup_to_dict(setup: Setup) -> dict[str, Any]:
    """The facts as they are stored; what older records did not have is left out of theirs."""
    values = asdict(setup)
    values["layout"]["world_size"] = setup.layout.world_size
    for name in ("schedule", "constants"):
        if values[name] is None:
            del values[name]
    return values


def setup_from_dict(values: dict[str, Any]) -> Setup:
    """The facts as they were stored; KeyError or TypeError where they are others."""
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
    """The layout as it was stored; ValueError where its sizes are no layout of so many ranks."""
    sizes = dict(values)
    ranks = sizes.pop("world_size")
    if not all(type(size) is int for size in sizes.values()):
        raise ValueError("a size of the layout is no number")
    layout = Layout(**sizes)
    if layout.world_size != ranks:
        raise ValueError(f"a layout of {layout.world_size} ranks on {ranks}")
    return layout
