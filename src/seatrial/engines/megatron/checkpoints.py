# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron's checkpoints: the configuration they depend on, and their contents.

A worker and a plan produce the same setup. A worker has the engine's arguments after validation; a
plan has the flags that it would pass. Both are plain names with values, and omitted flags have the
engine's defaults (`megatron/training/arguments.py`, megatron-core 0.19.2).
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seatrial.checkpoints.exchange.weight_map import WeightExchange
from seatrial.checkpoints.pickle_rules import UnsafeFileError
from seatrial.checkpoints.setup import (
    CheckpointFormat,
    DataOrder,
    ModelShape,
    SavedConstants,
    SavedSchedule,
    Setup,
    Versions,
)
from seatrial.checkpoints.stored_tensors import Contents, listed, read_stored
from seatrial.engines.checkpoints import EngineCheckpoints
from seatrial.engines.megatron import hub_model
from seatrial.engines.megatron.saved_model import architecture_of_arguments
from seatrial.engines.megatron.weight_map import entries
from seatrial.errors import FindingsError
from seatrial.planning.layout import Layout
from seatrial.spec.model import Activation
from seatrial.spec.model_parts import RopeScalingKind
from seatrial.spec.pipeline_layout import parse_layout
from seatrial.storage.location import Location
from seatrial.storage.state_files import parse_json

COMMON = "common_state/shard_0_1"
"""The item with all non-tensor state (megatron-core 0.19.2, serialization.py)."""
OLD_FORMAT = "torch"
"""The engine's format with one file per rank. The engine detects it on load
(`_get_checkpoint_format`, megatron-core 0.19.2) and loads it only in the layout that saved it."""
FSDP = "fsdp_dtensor"
"""The checkpoint format with FSDP, and the name of its optimizer sharding."""
RESHARDABLE = frozenset({"none", "fully_reshardable", "fully_sharded_model_space", FSDP})
"""Optimizer shardings that load with different tensor and pipeline degrees (megatron-core 0.19.2,
`DistributedOptimizer.checkpoint_fully_reshardable_formats`)."""
SPEC_TOKENIZER = "seatrial_tokenizer"
"""The worker's own argument with the tokenizer in the spec, if ranks load a copy of it."""
_ROTATED = ("rope", "mrope", "yarn")
_FETCHED = re.compile(r"/models--([^/]+)/snapshots/")

Values = Mapping[str, Any]
"""Arguments by name, with underscores."""


def setup_from_arguments(given: Mapping[str, Any], versions: Versions, world_size: int) -> Setup:
    """Return the configuration that a checkpoint depends on. Flags may contain dashes."""
    values = {name.replace("-", "_"): value for name, value in given.items()}
    return Setup(
        layout=_layout(values, world_size),
        model=_model(values),
        data_order=_data_order(values),
        tokenizer=_tokenizer(values),
        precision="bf16" if values.get("bf16") else "fp16" if values.get("fp16") else "fp32",
        checkpoint_format=str(values.get("ckpt_format") or "torch_dist"),
        optimizer=str(values.get("optimizer") or "adam"),
        optimizer_sharding=_sharding(values),
        global_batch_size=last_batch_size(values),
        versions=versions,
        schedule=_schedule(values),
        constants=_constants(values),
        parts=_parts(values),
    )


def last_batch_size(values: Mapping[str, Any]) -> int:
    """Return the global batch size; with a schedule, the last one."""
    schedule = values.get("step_batch_size_schedule")
    # With a schedule, the engine sets its own argument to one micro-batch per rank.
    last = str(schedule).rpartition(":")[2] if schedule else ""
    return int(last) if last.isdecimal() else _number(values, "global_batch_size")


def _number(values: Values, name: str, default: int = 0) -> int:
    value = values.get(name)
    return default if value is None else int(value)


def _layout(values: Values, world_size: int) -> Layout:
    tp = _number(values, "tensor_model_parallel_size", 1)
    pp = _number(values, "pipeline_model_parallel_size", 1)
    cp = _number(values, "context_parallel_size", 1)
    vp = values.get("virtual_pipeline_model_parallel_size") or values.get(
        "num_virtual_stages_per_pipeline_rank"
    )
    custom = values.get("pipeline_model_parallel_layout")
    if custom is not None and "virtual_pipeline_model_parallel_size" not in values:
        # These are flags, from which the engine derives the number.
        vp = len(parse_layout(str(custom)).stages) // pp
    experts = bool(values.get("num_experts"))
    return Layout(
        tp_size=tp,
        pp_size=pp,
        vp_size=int(vp or 1),
        cp_size=cp,
        ep_size=_number(values, "expert_model_parallel_size", 1),
        etp_size=_number(values, "expert_tensor_parallel_size", tp) if experts else tp,
    ).spread_over(world_size)


def _model(values: Values) -> ModelShape:
    hidden, heads = _number(values, "hidden_size"), _number(values, "num_attention_heads")
    grouped = bool(values.get("group_query_attention"))
    positions = str(values.get("position_embedding_type") or "learned_absolute")
    learned = positions == "learned_absolute"
    experts = _number(values, "num_experts")
    # The engine inverts the flag when it parses it.
    bias = values.get("add_bias_linear", not values.get("disable_bias_linear"))
    ffn = _number(values, "ffn_hidden_size", 4 * hidden)
    return ModelShape(
        layers=_number(values, "num_layers"),
        hidden_size=hidden,
        ffn_hidden_size=ffn,
        heads=heads,
        kv_heads=_number(values, "num_query_groups", heads) if grouped else heads,
        head_dim=_number(values, "kv_channels", hidden // max(1, heads)),
        positions=positions,
        max_positions=_number(values, "max_position_embeddings") if learned else 0,
        norm=str(values.get("normalization") or "LayerNorm"),
        gated=bool(values.get("swiglu")),
        linear_bias=bool(bias),
        qkv_bias=bool(bias) or bool(values.get("add_qkv_bias")),
        qk_norm=bool(values.get("qk_layernorm")),
        tied_embeddings=not values.get("untie_embeddings_and_output_weights"),
        padded_vocab_size=_number(values, "padded_vocab_size"),
        experts=experts,
        dense_layers=_dense_layers(values.get("moe_layer_freq")) if experts else 0,
        expert_ffn_hidden_size=_number(values, "moe_ffn_hidden_size", ffn) if experts else 0,
        shared_expert_ffn_hidden_size=(
            _number(values, "moe_shared_expert_intermediate_size") if experts else 0
        ),
    )


def _constants(values: Values) -> SavedConstants:
    rotated = values.get("position_embedding_type") in _ROTATED
    scaled = rotated and values.get("use_rope_scaling")
    # The engine stores the option under the name that its model uses.
    epsilon = values.get("layernorm_epsilon", values.get("norm_epsilon"))
    return SavedConstants(
        rotary_base=float(values.get("rotary_base") or 10000) if rotated else 0.0,
        rotary_percent=float(values.get("rotary_percent") or 1.0) if rotated else 0.0,
        rotary_scaling=float(values.get("rope_scaling_factor") or 8.0) if scaled else 0.0,
        norm_epsilon=float(epsilon or 1e-5),
    )


_SINGLE_PARTS = ("attention_sinks", "mtp_layers", "no_rope_every", "norm_centered_at_one")
_TRAINED_ONLY = ("aux_loss_coefficient", "balancing", "bias_update_rate")
"""Fields of experts that change how the model is trained, not what it computes."""


def _parts(values: Values) -> dict[str, Any] | None:
    """Return the parts of the model that `ModelShape` and `SavedConstants` do not describe.

    None if arguments change the model in a way that no dimension describes.
    """
    try:
        model = architecture_of_arguments(values, "")
    except (FindingsError, ValidationError, KeyError, ValueError):
        return None
    dumped = model.model_dump(mode="json")
    found = {name: dumped[name] for name in _SINGLE_PARTS if dumped.get(name)}
    if model.activation in (Activation.CLAMPED_SWIGLU, Activation.SQUARED_RELU):
        found["activation"] = str(model.activation)
    described = {field.name for field in fields(ModelShape)} | set(_TRAINED_ONLY)
    for part in ("latent_attention", "window", "rope_scaling", "moe"):
        inner = {
            name: value for name, value in (dumped.get(part) or {}).items() if value is not None
        }
        if inner.get("kind") != RopeScalingKind.LLAMA3:
            found |= {f"{part}.{name}": inner[name] for name in inner.keys() - described}
    return found


def _dense_layers(pattern: object) -> int:
    """Return the number of leading layers without experts, from a list or a pattern."""
    if isinstance(pattern, (list, tuple)):
        return next((i for i, one in enumerate(pattern) if one), len(pattern))
    match = re.match(r"\(?\[0\]\*(\d+)", str(pattern or ""))
    return int(match[1]) if match else 0


def _data_order(values: Values) -> DataOrder:
    blend = _blend(values)
    batch = _number(values, "global_batch_size")
    steps = values.get("train_iters")
    return DataOrder(
        blend=blend,
        sizes=_sizes(blend),
        split=_split(values.get("split")),
        seed=_number(values, "seed", 1234),
        sequence_length=_number(values, "seq_length"),
        train_samples=(
            int(values["train_samples"]) if values.get("train_samples") else int(steps or 0) * batch
        ),
    )


def _schedule(values: Values) -> SavedSchedule | None:
    """Return the schedule in samples, as in `get_optimizer_param_scheduler`."""
    if values.get("lr") is None:
        return None
    batch = _number(values, "global_batch_size")
    length = _number(values, "train_samples") or batch * _number(values, "train_iters")
    decay = _number(values, "lr_decay_samples") or batch * _number(values, "lr_decay_iters")
    warmup = _number(values, "lr_warmup_samples") or batch * _number(values, "lr_warmup_iters")
    share = values.get("lr_warmup_fraction")
    decay = decay or length
    return SavedSchedule(
        peak=float(values["lr"]),
        minimum=float(values.get("min_lr") or 0.0),
        style=str(values.get("lr_decay_style") or "linear"),
        warmup_samples=warmup if share is None else int(float(share) * decay),
        decay_samples=decay,
    )


def _blend(values: Values) -> tuple[str, ...]:
    """Return the weights and paths of the blend, read from its file if possible."""
    if values.get("mock_data"):
        return ()
    if values.get("data_path"):
        return tuple(str(word) for word in values["data_path"])
    file = values.get("data_args_path")
    if not file:
        return ()
    try:
        return tuple(Path(str(file)).read_text(encoding="utf-8").split())
    except OSError:
        return (f"@{file}",)


def _sizes(blend: tuple[str, ...]) -> tuple[int, ...]:
    """Return the sizes of the token files in bytes; empty unless all are readable here."""
    found = []
    for word in blend:
        file = Path(f"{word}.bin")
        if file.is_file():
            found.append(file.stat().st_size)
    named = [word for word in blend if "/" in word and not word.startswith("@")]
    return tuple(found) if len(found) == len(named) else ()


def _split(text: object) -> str:
    """Normalise the numbers, so that 99,1 and 99.0,1 are equal."""
    try:
        return ",".join(f"{float(share):g}" for share in str(text or "").split(","))
    except ValueError:
        return str(text or "")


def _tokenizer(values: Values) -> str:
    kind = str(values.get("tokenizer_type") or "")
    model = str(values.get(SPEC_TOKENIZER) or values.get("tokenizer_model") or "")
    # A Hub revision is loaded from the copy that the worker downloaded.
    fetched = _FETCHED.search(model)
    model = fetched[1].replace("--", "/") if fetched else model
    return f"{kind} {model}".strip()


def _sharding(values: Values) -> str:
    """Return the optimizer sharding, as in `_build_sharded_state_dict_metadata`."""
    if values.get("use_megatron_fsdp") or values.get("ckpt_format") == FSDP:
        return FSDP
    if not values.get("use_distributed_optimizer"):
        return "none"
    whole = values.get("dist_ckpt_optim_fully_reshardable")
    return "fully_reshardable" if whole else "dp_reshardable"


def contents_of(place: Location, directory: str) -> Contents:
    """Read a verified Megatron checkpoint. Raises UnsafeFileError if it is not Megatron's."""
    tensors, places = listed(place, directory)
    if (COMMON, ()) not in places:
        raise UnsafeFileError(f"the tensor metadata is incomplete ({COMMON} is missing)")
    held = read_stored(place, directory, places[COMMON, ()])
    try:
        return Contents(tensors, dict(held[0]["args"].state))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise UnsafeFileError(f"{COMMON} contains no engine arguments") from error


class MegatronCheckpoints(EngineCheckpoints):
    """Megatron's checkpoints."""

    formats = ("torch_dist", OLD_FORMAT, "torch_dcp", FSDP, "zarr")
    exchange = WeightExchange(
        hub_model.model_of_arguments,
        lambda model, _: entries(model),
        hub_model.refuse_plan,
    )

    def setup(self, arguments: Mapping[str, Any], versions: Versions, world_size: int) -> Setup:
        """Return the configuration that decides if a run can resume from a checkpoint."""
        return setup_from_arguments(arguments, versions, world_size)

    def format(self, setup: Setup) -> CheckpointFormat:
        """Return the properties of a checkpoint format with an optimizer sharding."""
        layout, sharding = setup.layout, setup.optimizer_sharding
        old = setup.checkpoint_format == OLD_FORMAT
        return CheckpointFormat(
            is_detected=old,
            is_bound_to_layout=old,
            is_reshardable=sharding in RESHARDABLE,
            # Embeddings and their optimizer state may have different shapes
            # (megatron-core 0.19.2, tensor_parallel/layers.py, allow_shape_mismatch).
            has_flexible_padding=True,
            optimizer_names=FSDP if sharding == FSDP else "",
            # The engine keeps a second optimizer for experts with a different layout.
            has_expert_optimizer=layout.ep_size > 1 or layout.etp_size != layout.tp_size,
        )

    def format_file_problem(self, content: bytes) -> str:
        """Report a file by which Megatron would detect an older format."""
        try:
            good = parse_json(content)["sharded_backend"] == "torch_dist"
        except (ValueError, KeyError, TypeError):
            good = False
        return "" if good else "the file does not state the checkpoint format torch_dist."

    def contents(self, place: Location, directory: str, setup: Setup) -> Contents:
        """Return the tensors, and the arguments that were saved with them."""
        return contents_of(place, directory)
