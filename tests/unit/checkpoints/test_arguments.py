# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A worker's arguments and a plan's flags come to the same setup."""

from argparse import Namespace
from pathlib import Path

from seatrial.checkpoints.setup import SavedConstants, SavedSchedule, Versions
from seatrial.engines.megatron.checkpoints import setup_from_arguments

VERSIONS = Versions("0", "engine", "torch")
FLAGS = {
    "num-layers": 4,
    "hidden-size": 64,
    "ffn-hidden-size": 256,
    "num-attention-heads": 4,
    "group-query-attention": True,
    "num-query-groups": 2,
    "kv-channels": 16,
    "position-embedding-type": "rope",
    "rotary-base": 500000,
    "norm-epsilon": 1e-6,
    "max-position-embeddings": 64,
    "normalization": "RMSNorm",
    "swiglu": True,
    "disable-bias-linear": True,
    "untie-embeddings-and-output-weights": True,
    "padded-vocab-size": 128,
    "num-experts": 4,
    "moe-ffn-hidden-size": 96,
    "moe-layer-freq": "([0]*1+[1]*3)",
    "data-path": ("0.5", "/data/a", "0.5", "/data/b"),
    "split": "99,1,0",
    "train-iters": 10,
    "global-batch-size": 4,
    "seq-length": 64,
    "seed": 7,
    "bf16": True,
    "tokenizer-type": "HuggingFaceTokenizer",
    "tokenizer-model": "org/name",
    "tensor-model-parallel-size": 2,
    "num-virtual-stages-per-pipeline-rank": None,
    "use-distributed-optimizer": True,
    "dist-ckpt-optim-fully-reshardable": True,
    "ckpt-format": "torch_dist",
    "lr": 1e-4,
    "min-lr": 1e-5,
    "lr-decay-style": "cosine",
    "lr-warmup-iters": 2,
    "lr-decay-iters": 8,
}
ARGUMENTS = {
    **{name.replace("-", "_"): value for name, value in FLAGS.items()},
    "data_path": ["0.5", "/data/a", "0.5", "/data/b"],
    "moe_layer_freq": [0, 1, 1, 1],
    "add_bias_linear": False,
    "split": "99.0,1.0,0.0",
    "optimizer": "adam",
    "layernorm_epsilon": 1e-6,
    "rotary_percent": 1.0,
    "use_rope_scaling": False,
    "rope_scaling_factor": 8.0,
    "tokenizer_model": "/cache/models--org--name/snapshots/abc123",
    "virtual_pipeline_model_parallel_size": None,
    "expert_tensor_parallel_size": 2,
    "train_samples": None,
    "lr_warmup_samples": 0,
    "lr_warmup_fraction": None,
    "lr_decay_samples": None,
}


def test_both_come_to_the_same() -> None:
    planned = setup_from_arguments(FLAGS, VERSIONS, 4)
    running = setup_from_arguments(vars(Namespace(**ARGUMENTS)), VERSIONS, 4)
    assert planned == running
    assert planned.layout.dp_size == 2
    assert planned.model.kv_heads == 2
    assert planned.model.dense_layers == 1
    assert planned.model.max_positions == 0
    assert planned.data_order.train_samples == 40
    assert planned.optimizer_sharding == "fully_reshardable"
    assert planned.schedule == SavedSchedule(1e-4, 1e-5, "cosine", 8, 32)
    assert planned.constants == SavedConstants(500000.0, 1.0, 0.0, 1e-6)


def test_a_custom_layout_has_the_chunks_that_the_engine_derives() -> None:
    sizes = {"pipeline-model-parallel-size": 2, "pipeline-model-parallel-layout": "Et|t|t|tL"}
    saved = {name.replace("-", "_"): value for name, value in sizes.items()}
    planned = setup_from_arguments({**FLAGS, **sizes}, VERSIONS, 4)
    running = {**ARGUMENTS, **saved, "virtual_pipeline_model_parallel_size": 2}
    assert planned.layout.vp_size == 2
    assert planned == setup_from_arguments(running, VERSIONS, 4)


def test_what_is_not_rotated_has_no_base() -> None:
    flags = {**FLAGS, "position-embedding-type": "learned_absolute", "use-rope-scaling": True}
    constants = setup_from_arguments(flags, VERSIONS, 4).constants
    assert constants == SavedConstants(0.0, 0.0, 0.0, 1e-6)
    flags = {**FLAGS, "use-rope-scaling": True, "rope-scaling-factor": 32}
    scaled = setup_from_arguments(flags, VERSIONS, 4).constants
    assert scaled is not None
    assert scaled.rotary_scaling == 32


def test_a_decay_that_nobody_gave_is_the_whole_run() -> None:
    flags = {**FLAGS, "lr-decay-iters": None, "lr-warmup-iters": None, "lr-warmup-fraction": 0.5}
    schedule = setup_from_arguments(flags, VERSIONS, 4).schedule
    assert schedule is not None
    assert (schedule.warmup_samples, schedule.decay_samples) == (20, 40)
    assert setup_from_arguments({**FLAGS, "lr": None}, VERSIONS, 4).schedule is None


def test_the_blend_of_a_file_is_read(tmp_path: Path) -> None:
    prefix = tmp_path / "a"
    Path(f"{prefix}.bin").write_bytes(b"12345")
    file = tmp_path / "blend.txt"
    file.write_text(f"1 {prefix}\n")
    given = {**FLAGS, "data-path": None, "data-args-path": str(file)}
    order = setup_from_arguments(given, VERSIONS, 4).data_order
    assert order.blend == ("1", str(prefix))
    assert order.sizes == (5,)
    elsewhere = {**given, "data-args-path": "/nowhere/blend.txt"}
    assert setup_from_arguments(elsewhere, VERSIONS, 4).data_order.blend == ("@/nowhere/blend.txt",)


def test_what_decides_the_order_decides_the_fingerprint() -> None:
    one = setup_from_arguments(FLAGS, VERSIONS, 4).data_order
    other = setup_from_arguments({**FLAGS, "seed": 8}, VERSIONS, 4).data_order
    more = setup_from_arguments({**FLAGS, "tensor-model-parallel-size": 1}, VERSIONS, 4).data_order
    assert one.fingerprint != other.fingerprint
    assert one.fingerprint == more.fingerprint


def test_parts_of_a_model_are_the_same_from_flags_and_from_arguments() -> None:
    flags = FLAGS | {"window-size": "15,0", "window-attn-skip-freq": 2, "moe-router-topk": 2}
    parsed = {**ARGUMENTS, "window_size": (15, 0), "window_attn_skip_freq": 2, "moe_router_topk": 2}
    planned = setup_from_arguments(flags, VERSIONS, 4).parts
    assert planned == setup_from_arguments(parsed, VERSIONS, 4).parts
    assert planned == {"window.tokens": 16, "window.full_every": 2, "moe.top_k": 2}


def test_a_model_without_dimensions_for_its_arguments_has_no_parts() -> None:
    assert setup_from_arguments(FLAGS | {"use-mup": True}, VERSIONS, 4).parts is None
