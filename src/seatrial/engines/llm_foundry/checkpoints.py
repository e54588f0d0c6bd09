# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry's checkpoints: the configuration they depend on, and their contents.

Setting names include their sections (`model.d_model`). Omitted settings have MPT's defaults
(`llmfoundry/models/mpt/configuration_mpt.py`, LLM Foundry 0.22.0). A worker and a plan produce the
same setup.

A checkpoint is sharded or whole. This module reads it without torch and without executing code. A
whole checkpoint is a single torch archive: a pickle that describes the state, and the raw numbers
of each tensor. The pickle is read into stand-ins, and the numbers are only located, so the file may
be larger than memory. Composer also saves the configuration of a Hugging Face model, and MPT is one
(composer 0.32.1, `get_metadata` in models/huggingface.py). The saved configuration describes the
trained model, even if the spec has changed since.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from seatrial.checkpoints.exchange.weight_map import WeightExchange
from seatrial.checkpoints.naming import METADATA
from seatrial.checkpoints.pickle_rules import Storage, UnsafeFileError
from seatrial.checkpoints.scan import ScannedArchive, scan_archive
from seatrial.checkpoints.setup import (
    CheckpointFormat,
    DataOrder,
    ModelShape,
    SavedSchedule,
    Setup,
    Versions,
)
from seatrial.checkpoints.stopping import StopCode, stop
from seatrial.checkpoints.stored_tensors import (
    Chunk,
    Contents,
    StoredItem,
    StoredTensor,
    listed,
    read_stored,
    scan_items,
    stored_items,
)
from seatrial.checkpoints.verification import unreadable
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.engines.checkpoints import EngineCheckpoints
from seatrial.engines.llm_foundry import hub_model
from seatrial.planning.layout import Layout
from seatrial.storage.location import Location

Values = Mapping[str, Any]
"""Settings by name, prefixed with their sections."""

WHOLE = "composer-whole"
"""The format without sharding: one file, written by the first rank."""
SHARDED = "composer-sharded"
"""The format with FSDP: one file per rank, and torch's tensor metadata."""
FSDP = "composer-fsdp"
"""The optimizer sharding with FSDP."""
WHOLE_FILE = "rank0.pt"
"""The file of a whole checkpoint."""

_PRECISIONS = {"amp_bf16": "bf16", "amp_fp16": "fp16"}


def setup_from_settings(given: Values, versions: Versions, world_size: int) -> Setup:
    """Return the configuration that a checkpoint from a run with these settings depends on."""
    # Composer disables FSDP on a single rank.
    sharded = world_size > 1 and given.get("fsdp_config.state_dict_type") == "sharded"
    precision = str(given.get("precision") or "fp32")
    return Setup(
        layout=Layout(dp_size=world_size),
        model=_model(given),
        data_order=_data_order(given),
        tokenizer=str(given.get("tokenizer.name") or ""),
        precision=_PRECISIONS.get(precision, precision),
        checkpoint_format=SHARDED if sharded else WHOLE,
        optimizer=str(given.get("optimizer.name") or ""),
        optimizer_sharding=FSDP if sharded else "none",
        global_batch_size=int(given.get("global_train_batch_size") or 0),
        versions=versions,
        schedule=_schedule(given),
    )


def flat(tree: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Flatten nested settings to full names."""
    return dict(_flat(tree, before))


def _flat(tree: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _model(values: Values) -> ModelShape:
    """Return the dimensions. For a model with the Hub's own code, only those the plan overrides."""
    if values.get("model.name") == "hf_causal_lm":
        return _hub_model(values)
    hidden, heads = _number(values, "model.d_model"), _number(values, "model.n_heads")
    grouped = values.get("model.attn_config.kv_n_heads")
    learned = not (values.get("model.attn_config.alibi") or values.get("model.attn_config.rope"))
    bias = not values.get("model.no_bias")
    inner = values.get("model.ffn_config.ffn_hidden_size")
    return ModelShape(
        layers=_number(values, "model.n_layers"),
        hidden_size=hidden,
        ffn_hidden_size=int(
            inner or round(hidden * float(values.get("model.expansion_ratio") or 4))
        ),
        heads=heads,
        kv_heads=int(grouped or heads),
        head_dim=hidden // max(1, heads),
        positions=_positions(values),
        max_positions=_number(values, "model.max_seq_len") if learned else 0,
        norm=str(values.get("model.norm_type") or "low_precision_layernorm"),
        gated=values.get("model.ffn_config.ffn_type") == "mptglu",
        linear_bias=bias,
        qkv_bias=bias,
        qk_norm=False,
        tied_embeddings=values.get("model.tie_word_embeddings", True) is not False,
        padded_vocab_size=_number(values, "model.vocab_size"),
        experts=0,
        dense_layers=0,
        expert_ffn_hidden_size=0,
        shared_expert_ffn_hidden_size=0,
    )


def _hub_model(values: Values) -> ModelShape:
    given = {
        name.removeprefix("model.config_overrides."): value
        for name, value in values.items()
        if name.startswith("model.config_overrides.")
    }
    hidden, heads = _number(given, "hidden_size"), _number(given, "num_attention_heads")
    return ModelShape(
        layers=_number(given, "num_hidden_layers"),
        hidden_size=hidden,
        ffn_hidden_size=_number(given, "intermediate_size"),
        heads=heads,
        kv_heads=_number(given, "num_key_value_heads"),
        head_dim=hidden // max(1, heads),
        positions=str(values.get("model.pretrained_model_name_or_path") or ""),
        max_positions=0,
        norm="",
        gated=True,
        linear_bias=False,
        qkv_bias=False,
        qk_norm=False,
        tied_embeddings=bool(given.get("tie_word_embeddings")),
        padded_vocab_size=0,
        experts=0,
        dense_layers=0,
        expert_ffn_hidden_size=0,
        shared_expert_ffn_hidden_size=0,
    )


def _positions(values: Values) -> str:
    for kind in ("alibi", "rope"):
        if values.get(f"model.attn_config.{kind}"):
            return kind
    return "learned"


def _data_order(values: Values) -> DataOrder:
    dataset = "train_loader.dataset."
    # In a pod, `local` is the copy of `remote` on the node.
    named = {name: values[name] for name in values if name.startswith(dataset)}
    remote = {name for name in named if name.endswith(".remote") and named[name]}
    copies = {f"{name.removesuffix('remote')}local" for name in remote}
    blend = [
        str(value)
        for name, value in named.items()
        if name.endswith((".local", ".remote", ".proportion")) and value and name not in copies
    ]
    batch = _number(values, "global_train_batch_size")
    return DataOrder(
        blend=tuple(blend),
        sizes=(),
        split=str(values.get(f"{dataset}split") or ""),
        seed=_number(values, f"{dataset}shuffle_seed"),
        sequence_length=_number(values, "max_seq_len"),
        train_samples=_steps(values.get("max_duration")) * batch,
    )


def _schedule(values: Values) -> SavedSchedule | None:
    if values.get("optimizer.lr") is None:
        return None
    batch, peak = _number(values, "global_train_batch_size"), float(values["optimizer.lr"])
    end = values.get("scheduler.t_max") or values.get("max_duration")
    return SavedSchedule(
        peak=peak,
        minimum=float(values.get("scheduler.alpha_f") or 0.0) * peak,
        style=str(values.get("scheduler.name") or ""),
        warmup_samples=_steps(values.get("scheduler.t_warmup")) * batch,
        decay_samples=_steps(end) * batch,
    )


def _number(values: Values, name: str) -> int:
    return int(values.get(name) or 0)


def _steps(duration: object) -> int:
    """Return the number of steps in a Composer duration; 0 for other units."""
    text = str(duration or "").removesuffix("ba")
    return int(text) if text.isdigit() else 0


MODEL = "state.model."
"""The prefix of the model's tensors in a sharded checkpoint."""
CONFIG = ("state", "integrations", "huggingface", "model", "config", "content")
"""The path of the model's configuration."""
STORAGES = {
    "FloatStorage": ("float32", 4),
    "BFloat16Storage": ("bfloat16", 2),
    "HalfStorage": ("float16", 2),
    "DoubleStorage": ("float64", 8),
}
"""Storage classes for weights, with the data type and its size in bytes."""


def sharded_contents(place: Location, directory: str) -> Contents:
    """Read a verified FSDP checkpoint. Raises UnsafeFileError if it is not Composer's."""
    tensors, places = listed(place, directory)
    prefix = ".".join(CONFIG) + "."
    settings = {
        name.removeprefix(prefix): read_stored(place, directory, item)
        for (name, _), item in places.items()
        if name.startswith(prefix)
    }
    ours = {
        name.removeprefix(MODEL): tensor
        for name, tensor in tensors.items()
        if name.startswith(MODEL)
    }
    return _contents(ours, settings)


def whole_contents(place: Location, directory: str) -> Contents:
    """Read a verified single-file checkpoint. Raises UnsafeFileError if it is not Composer's."""
    with place.open(f"{directory}/{WHOLE_FILE}") as stream:
        try:
            return _whole(scan_archive(stream))
        except UnsafeFileError as error:
            raise UnsafeFileError(f"{WHOLE_FILE}: {error}") from None


def _contents(tensors: dict[str, StoredTensor], settings: dict[str, Any]) -> Contents:
    if not tensors or not settings:
        raise UnsafeFileError("it contains no Hugging Face model or no model configuration")
    return Contents(tensors, settings)


def _whole(archive: ScannedArchive) -> Contents:
    if archive.notes.get("byteorder", b"little") != b"little":
        raise UnsafeFileError("it was written on a machine with a different byte order")
    state = archive.content.value
    try:
        tensors = {
            str(name): _tensor(str(name), one, archive)
            for name, one in _at(state, ("state", "model")).items()
        }
        settings = flat(_at(state, CONFIG))
    except (
        *(AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError),
    ) as error:
        raise UnsafeFileError(f"it is not a Composer checkpoint ({error})") from error
    return _contents(tensors, settings)


def _at(tree: Any, names: Iterable[str]) -> Any:
    for name in names:
        tree = tree[name]
    return tree


def _tensor(name: str, told: Any, archive: ScannedArchive) -> StoredTensor:
    """Return a tensor from the arguments of the function that would create the tensor."""
    storage: Storage
    storage, offset, size, strides = told.arguments[:4]
    dtype, width = STORAGES[storage.kind]
    shape = tuple(int(one) for one in size)
    if tuple(strides) != _strides(shape):
        raise ValueError(f"{name} is not contiguous")
    count = 1
    for one in shape:
        count *= one
    # The scanner has already checked that the tensor is inside its storage.
    begin = archive.offset + archive.entries[f"data/{storage.key}"].begin + offset * width
    item = StoredItem(name, WHOLE_FILE, begin, count * width)
    chunk = Chunk((0,) * len(shape), shape, item, plain=True)
    return StoredTensor(name, dtype, shape, (chunk,))


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    found: list[int] = []
    step = 1
    for size in reversed(shape):
        found.append(step)
        step *= size
    return tuple(reversed(found))


def refuse_foreign(load: str) -> None:
    """Raise StopError if a file, or a directory with shards, must not be loaded."""
    if "://" in load:
        rule = "a checkpoint in an object store would be loaded without being scanned."
        fix = "Copy it to a directory with seatrial checkpoints copy, and use that directory."
        raise stop(StopCode.NO_CHECKPOINT, found(CheckpointCode.UNRECORDED, load, rule, fix, load))
    path = Path(load)
    try:
        for file, items in _items(path).items():
            with file.open("rb") as stream:
                scan_items(stream, items)
    except UnsafeFileError as error:
        rule = f"the file is not safe to load: {error}. No code from it was executed."
        fix = "Do not load the file. Find out what wrote it, or use different weights."
        raise stop(StopCode.NO_CHECKPOINT, found(CheckpointCode.PICKLE, load, rule, fix)) from error
    except OSError as error:
        raise stop(StopCode.NO_CHECKPOINT, unreadable(load, error)) from error


def _items(path: Path) -> dict[Path, list[StoredItem]]:
    """Return every item in a checkpoint by file. A whole checkpoint is one item."""
    if not path.is_dir():
        return {path: [StoredItem(path.name, path.name, 0, path.stat().st_size)]}
    found_items: dict[Path, list[StoredItem]] = defaultdict(list)
    for item in stored_items((path / METADATA).read_bytes()):
        if "/" in item.file:
            raise UnsafeFileError(f"the metadata references {item.file!r}, which is not a shard")
        found_items[path / item.file].append(item)
    return found_items


class ComposerCheckpoints(EngineCheckpoints):
    """Composer's checkpoints."""

    formats = (WHOLE, SHARDED)
    exchange = WeightExchange(
        hub_model.model_of_saved,
        hub_model.entries_of_saved,
        hub_model.refuse_plan,
        hub_model.config_of_saved,
    )

    def setup(self, arguments: Mapping[str, Any], versions: Versions, world_size: int) -> Setup:
        """Return the configuration that decides if a run can resume from a checkpoint."""
        return setup_from_settings(arguments, versions, world_size)

    def format(self, setup: Setup) -> CheckpointFormat:
        """Return the format: one file from the first rank, or shards for any number of ranks."""
        return CheckpointFormat(has_tensor_list=setup.checkpoint_format != WHOLE)

    def tokenizer(self, setup: Setup) -> str:
        """Return a Hugging Face tokenizer, because transformers loads all tokenizers."""
        return f"HuggingFaceTokenizer {setup.tokenizer}".strip()

    def contents(self, place: Location, directory: str, setup: Setup) -> Contents:
        """Return the tensors, and the model configuration that was saved with them."""
        read = whole_contents if setup.checkpoint_format == WHOLE else sharded_contents
        return read(place, directory)
