# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The call into the engine: its argument parser, its model builder, its training loop."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from megatron.core.enums import ModelType
from megatron.training import pretrain
from megatron.training.argument_utils import pretrain_cfg_container_from_args
from megatron.training.arguments import parse_and_validate_args
from torch.distributed.checkpoint.api import CheckpointException

from seatrial.checkpoints.starts import StaleStartError
from seatrial.checkpoints.stopping import StopCode, StopError
from seatrial.errors import SeatrialError
from seatrial.worker.megatron import fault_injection, safe_load
from seatrial.worker.megatron.arguments import hand_over
from seatrial.worker.megatron.commit import MegatronCommitter
from seatrial.worker.megatron.comparison import ExpertCounts, start_from_strong_weights
from seatrial.worker.megatron.engine_patches import ON_ANY_DEVICE, apply_patches
from seatrial.worker.megatron.gpt import (
    build_datasets,
    embedding_ranks,
    forward_step,
    pin_tokenizer,
)
from seatrial.worker.megatron.heartbeat import writing_heartbeats
from seatrial.worker.megatron.initial_weights import import_initial_weights
from seatrial.worker.megatron.model_config import model_config
from seatrial.worker.megatron.observe import MegatronObserver
from seatrial.worker.megatron.resume import Resumption
from seatrial.worker.settings import Device, Settings
from seatrial.worker.supervisor.heartbeats import BeatWriter

FUSED_GRADIENTS = "fused_weight_gradient_mlp_cuda"
"""Apex's extension, which accumulates weight gradients inside the matrix multiplication."""


def train(
    chosen: Settings,
    arguments: Sequence[str],
    heart: BeatWriter | None = None,
    nccl_file: Path | None = None,
) -> None:
    """Train. The process exits with the engine's exit code.

    For errors that the user can fix, exit with a message and not with a traceback.

    Args:
        chosen: The worker's own settings.
        arguments: The engine's arguments.
        heart: This process's heartbeat.
        nccl_file: NCCL's log file, if enabled.
    """
    events = chosen.events if chosen.writes_events else None
    # Create the observer here, so that the log also records arguments that the engine rejects.
    shares = chosen.events is not None
    observer = MegatronObserver(events, chosen.kill_step, shares, nccl_file)
    try:
        _train(chosen, arguments, observer, heart or BeatWriter(None, chosen.rank))
    except SeatrialError as error:
        sys.stderr.write(f"seatrial: {error}\n")
        raise SystemExit(error.code if isinstance(error, StopError) else 1) from None
    except CheckpointException as error:
        # torch collects the errors from a save; an error caused by a later start is final.
        causes = [cause for cause, _ in error.failures.values()]
        stale = next((cause for cause in causes if isinstance(cause, StaleStartError)), None)
        if stale is None:
            raise
        sys.stderr.write(f"seatrial: {stale}\n")
        raise SystemExit(StopCode.STALE) from None


def _train(
    chosen: Settings, arguments: Sequence[str], observer: MegatronObserver, heart: BeatWriter
) -> None:
    with observer.watching(), writing_heartbeats(heart):
        apply_patches(ON_ANY_DEVICE)
        protect_checkpoints(chosen)
        args = parse_and_validate_args(hand_over(arguments, partial(fit_to_host, chosen)))
        # Import before the rendezvous, because the import may take longer than its timeout.
        import_initial_weights(chosen, args, heart)
        model = model_config(args)
        if chosen.strong_weights:
            start_from_strong_weights(model, chosen.strong_weights)
        container = pretrain_cfg_container_from_args(args, model)
        if chosen.counts_experts:
            counts = ExpertCounts()
            counts.install()
            observer.step_values = counts.share
        if chosen.trouble:
            fault_injection.install(fault_injection.parsed(chosen.trouble))
        pretrain(
            container,
            build_datasets,
            ModelType.encoder_or_decoder,
            forward_step,
            get_embedding_ranks=embedding_ranks,
        )


def fit_to_host(chosen: Settings, engine_args: Namespace) -> Namespace:
    """Use a copy of the tokenizer, and disable a fusion that is not installed."""
    engine_args = pin_tokenizer(engine_args, chosen.tokenizer_revision, chosen.tokenizer)
    if chosen.device is Device.GPU and find_spec(FUSED_GRADIENTS) is None:
        # The fusion is enabled by default; without the extension, the first layer fails.
        return Namespace(**(vars(engine_args) | {"gradient_accumulation_fusion": False}))
    return engine_args


def protect_checkpoints(chosen: Settings) -> None:
    """Install the commit protocol, checkpoint selection, and limits on unpickling."""
    safe_load.install()
    keeper = MegatronCommitter()
    keeper.install()
    Resumption(chosen, keeper).install()
