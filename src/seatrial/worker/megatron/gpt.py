# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The GPT model script that `pretrain` needs, built from the engine's own parts.

It follows Megatron-LM's pretrain_gpt.py: a dataset provider, and a forward step that returns the
model's output and a function that maps the output to the loss, the token count and the values to
report.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from megatron.core import mpu
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig, MockGPTDataset
from megatron.core.num_microbatches_calculator import init_num_microbatches_calculator
from megatron.core.parallel_state import default_embedding_ranks
from megatron.core.rerun_state_machine import get_rerun_state_machine
from megatron.core.transformer.enums import LayerType
from megatron.core.transformer.multi_token_prediction import mtp_on_this_rank
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
from megatron.core.utils import (
    get_attr_wrapped_model,
    get_batch_on_this_cp_rank,
    get_batch_on_this_tp_rank,
)
from megatron.training import get_args, get_timers, get_tokenizer, global_vars
from megatron.training.arguments import parse_args
from megatron.training.training import get_train_valid_test_num_samples, update_train_iters
from megatron.training.utils import get_blend_and_blend_per_split

from seatrial.dataprep.output.tokenizer_copy import copied_path
from seatrial.engines.megatron.checkpoints import SPEC_TOKENIZER
from seatrial.worker.megatron import safe_load
from seatrial.worker.megatron.arguments import hand_over
from seatrial.worker.settings import settings

INPUTS = ("tokens", "labels", "loss_mask", "position_ids", "attention_mask")
"""The model's inputs, in the order of its parameters."""
PACKED = ("cu_seqlens", "cu_seqlens_padded", "max_seqlen", "local_cp_size", "hybrid_cp_group")
"""Keys for packed sequences. Pretraining does not pack, but the engine reads the keys."""

TOKENIZER_FILES = ("*.json", "*.model", "*.txt", "*.tiktoken")
"""File patterns for a tokenizer in a Hub repository, without weights."""

Batch = dict[str, Any]
Reported = tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]
"""The summed loss, the number of tokens, and both values for the log."""


def load_batch(iterator: Iterator[Batch] | None, vp_stage: int | None) -> list[Any]:
    """Return this rank's part of the next micro-batch; None values on middle stages."""
    args = get_args()
    first = mpu.is_pipeline_first_stage(ignore_virtual=False, vp_stage=vp_stage)
    last = mpu.is_pipeline_last_stage(ignore_virtual=False, vp_stage=vp_stage)
    predicts = _predicts(vp_stage)
    if not (first or last or predicts):
        return [None] * len(INPUTS)
    tp_rank = mpu.get_tensor_model_parallel_rank()
    batch: Batch = {}
    if tp_rank == 0 and iterator is not None:
        loaded = next(iterator)
        batch = {key: _on_device(loaded.get(key)) for key in (*INPUTS, *PACKED)}
    batch = get_batch_on_this_tp_rank(
        batch,
        has_cu_seqlens=False,
        is_hybrid_cp=False,
        create_attention_mask_in_dataloader=args.create_attention_mask_in_dataloader,
        broadcast_src_rank=mpu.get_tensor_model_parallel_src_rank(),
        broadcast_group=mpu.get_tensor_model_parallel_group(),
        cp_size=args.context_parallel_size,
        tp_rank=tp_rank,
        micro_batch_size=args.micro_batch_size,
        seq_length=args.seq_length,
        # Layers for multi-token prediction need the tokens too.
        mtp_on_this_rank=predicts,
        pipeline_model_parallel_size=args.pipeline_model_parallel_size,
        is_pipeline_first_stage=first,
        is_pipeline_last_stage=last,
    )
    group = mpu.get_context_parallel_group()
    batch = get_batch_on_this_cp_rank(batch, is_hybrid_cp=False, cp_group=group)
    return [batch.get(key) for key in INPUTS]


def _predicts(vp_stage: int | None) -> bool:
    """True if this stage has the layers for multi-token prediction."""
    layers = get_args().mtp_num_layers
    return bool(
        layers
        and mtp_on_this_rank(_custom_layout(), layers, ignore_virtual=False, vp_stage=vp_stage)
    )


def _custom_layout() -> PipelineParallelLayerLayout | None:
    args = get_args()
    text, stages = args.pipeline_model_parallel_layout, args.pipeline_model_parallel_size
    return None if text is None else PipelineParallelLayerLayout.from_str(text, stages)


def embedding_ranks(pp_ranks: list[int]) -> list[int]:
    """Return the pipeline ranks that keep equal word embeddings.

    If a custom layout separates multi-token prediction from the output, a last stage with an output
    projection of its own is not one of them: the engine would add up their gradients.
    """
    custom, args = _custom_layout(), get_args()
    usual: list[int] = default_embedding_ranks(pp_ranks)
    if custom is None or not args.mtp_num_layers or len(pp_ranks) == 1:
        return usual
    predicting = [
        rank
        for rank, chunks in zip(pp_ranks, custom.layout, strict=True)
        if any(LayerType.mtp in chunk for chunk in chunks)
    ]
    shared = usual[:1] if args.untie_embeddings_and_output_weights else usual
    return sorted({*shared, *predicting})


def _on_device(value: Any) -> Any:
    """Move a tensor to this rank's GPU, where the engine broadcasts and computes."""
    return value.cuda(non_blocking=True) if isinstance(value, torch.Tensor) else value


def loss_of(loss_mask: torch.Tensor, output: torch.Tensor) -> Reported:
    """Return the loss summed over the unmasked tokens, and the number of these tokens."""
    mask = loss_mask.view(-1).float()
    loss = torch.sum(output.view(-1).float() * mask)
    tokens = mask.sum().clone().detach().to(torch.int)
    _check(loss)
    reported = torch.cat([loss.clone().detach().view(1), tokens.view(1).float()])
    return loss, tokens, {"lm loss": reported}


def _check(loss: torch.Tensor) -> None:
    """Let the engine stop or rerun the step if this rank's loss is NaN or infinite."""
    if not get_args().check_for_nan_in_loss_and_grad:
        return
    machine = get_rerun_state_machine()
    for name, rejected in (("not a number", torch.isnan), ("infinite", torch.isinf)):
        machine.validate_result(
            result=loss,
            rejection_func=rejected,
            message=f"the loss of a micro-batch is {name}",
            tolerance=0.0,
            fatal=True,
        )


def forward_step(
    iterator: Iterator[Batch] | None, model: torch.nn.Module, return_schedule_plan: bool = False
) -> tuple[Any, Callable[[torch.Tensor], Reported]]:
    """Run one micro-batch through this rank's part of the model, or return the schedule plan.

    The engine requests the plan when it overlaps expert communication with other work.
    """
    timers = get_timers()
    timers("batch-generator", log_level=2).start()
    stage = get_attr_wrapped_model(model, "vp_stage")
    tokens, labels, loss_mask, position_ids, attention_mask = load_batch(iterator, stage)
    timers("batch-generator").stop()
    inputs = (tokens, position_ids, attention_mask)
    forward = model.build_schedule_plan if return_schedule_plan else model
    output = forward(*inputs, labels=labels, loss_mask=loss_mask)  # type: ignore[operator]
    return output, partial(loss_of, loss_mask)


SAME_NAMED = (
    "split",
    "multiple_validation_sets",
    "full_validation",
    "num_dataset_builder_threads",
    "mmap_bin_files",
    "reset_position_ids",
    "reset_attention_mask",
    "eod_mask_loss",
    "object_storage_cache_path",
    "mid_level_dataset_surplus",
    "allow_ambiguous_pad_tokens",
)
"""Dataset settings with the same name as the engine's argument."""


def build_datasets(sizes: list[int], vp_stage: int | None = None) -> Any:
    """Build the training, validation and test datasets: blended files, or mock data."""
    args = get_args()
    blend, blend_per_split = get_blend_and_blend_per_split(args)
    config = GPTDatasetConfig(
        random_seed=args.seed,
        sequence_length=args.seq_length,
        blend=blend,
        blend_per_split=blend_per_split,
        path_to_cache=args.data_cache_path,
        tokenizer=known_by_commit(get_tokenizer()),
        create_attention_mask=args.create_attention_mask_in_dataloader,
        fast_cache_load=args.dataloader_fast_cache_load,
        defer_npy_index_mmap=args.dataloader_defer_npy_index_mmap,
        **{name: getattr(args, name) for name in SAME_NAMED},
    )
    kind = MockGPTDataset if args.mock_data else GPTDataset
    return BlendedMegatronDatasetBuilder(
        kind, sizes, partial(_reads_data, vp_stage), config
    ).build()


def pin_tokenizer(engine_args: Namespace, revision: str, copy: str = "") -> Namespace:
    """Use the data set's copy of the tokenizer, or else a copy of the pinned revision, if any."""
    if not (revision or copy) or engine_args.tokenizer_model is None:
        return engine_args
    named = engine_args.tokenizer_model
    if copy:
        # The checkpoints' records contain the name in the spec: the copy may move.
        found = {"tokenizer_model": copied_path(copy, named), SPEC_TOKENIZER: named}
    else:
        patterns = list(TOKENIZER_FILES)
        fetched = snapshot_download(named, revision=revision, allow_patterns=patterns)
        found = {"tokenizer_model": fetched}
    return Namespace(**(vars(engine_args) | found))


def known_by_commit(tokenizer: Any) -> Any:
    """Identify the tokenizer by the digest of its copy, or its commit if its revision is pinned.

    The engine includes the tokenizer's path in the name of its index cache. A copy has a different
    path on every host, so one host would not find an index built on another. The copy of a pinned
    revision is in a directory that is named after the commit.
    """
    chosen = settings()
    if tokenizer.path and chosen.tokenizer:
        tokenizer.path = chosen.tokenizer_digest
    elif tokenizer.path and chosen.tokenizer_revision:
        tokenizer.path = Path(tokenizer.path).name
    return tokenizer


# The engine calls this on every rank, rather than on rank 0 of each tensor-parallel group.
build_datasets.is_distributed = True  # type: ignore[attr-defined]


def _reads_data(vp_stage: int | None) -> bool:
    """True if this rank reads data: the first tensor-parallel rank on a stage with inputs."""
    first = mpu.is_pipeline_first_stage(ignore_virtual=False, vp_stage=vp_stage)
    last = mpu.is_pipeline_last_stage(ignore_virtual=False, vp_stage=vp_stage)
    has_inputs = first or last or _predicts(vp_stage)
    return bool(has_inputs and mpu.get_tensor_model_parallel_rank() == 0)


def parse_data_arguments(arguments: Sequence[str]) -> Namespace:
    """Parse the arguments of a training run, to build only its datasets."""
    # Other users may have written to the cache.
    safe_load.install()
    chosen = settings()

    def pin(engine_args: Namespace) -> Namespace:
        return pin_tokenizer(engine_args, chosen.tokenizer_revision, chosen.tokenizer)

    return parse_args(hand_over(arguments, pin))


def _init_batch_schedule(args: Namespace) -> None:
    """Set the batch schedule that the engine counts steps with, as at the start of training."""
    if args.step_batch_size_schedule is None:
        return
    init_num_microbatches_calculator(
        rank=1,  # Rank 0 would print the schedule.
        micro_batch_size=args.micro_batch_size,
        data_parallel_size=1,
        step_batch_size_schedule=args.step_batch_size_schedule,
        seq_length=args.seq_length,
    )


def build_indices(args: Namespace, cache: Path, find: Callable[[str], str]) -> None:
    """Run the start of training, up to the datasets.

    Args:
        args: The training arguments.
        cache: Directory for the indices.
        find: Maps a path that training uses to the path on this host.
    """
    args.data_cache_path = str(cache)
    if args.data_args_path:
        args.data_args_path = find(args.data_args_path)
    # Both options assume that the cache exists, but it is built here.
    args.dataloader_fast_cache_load = args.dataloader_defer_npy_index_mmap = False
    if args.eval_global_batch_size is None:
        args.eval_global_batch_size = args.global_batch_size
    args.iteration = 0
    open_data = GPTDataset.build_low_level_dataset
    GPTDataset.build_low_level_dataset = staticmethod(
        lambda path, config: open_data(find(path), config)
    )
    global_vars.set_args(args)
    global_vars._build_tokenizer(args)
    _init_batch_schedule(args)
    update_train_iters(args)
    build_datasets(list(get_train_valid_test_num_samples()))
