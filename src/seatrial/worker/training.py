# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The call into the engine: its argument parser, its model builder, its training loop."""

from megatron.core.enums import ModelType
from megatron.training import pretrain
from megatron.training.argument_utils import (
    gpt_config_from_args,
    pretrain_cfg_container_from_args,
)
from megatron.training.arguments import parse_and_validate_args

from seatrial.monitoring.event_log import EventLog
from seatrial.worker.gpt import build_datasets, forward_step
from seatrial.worker.observe import Observer
from seatrial.worker.replacements import ON_ANY_DEVICE, replace
from seatrial.worker.settings import Settings


def train(chosen: Settings) -> None:
    """Train as the command line says; the engine's own exit code ends the process."""
    replace(ON_ANY_DEVICE)
    args = parse_and_validate_args()
    container = pretrain_cfg_container_from_args(args, gpt_config_from_args(args))
    # The last rank holds the last pipeline stage, and so the loss.
    last = args.rank == args.world_size - 1
    log = EventLog(chosen.events) if chosen.events and last else None
    kill_step = chosen.kill[1] if chosen.kill and chosen.kill[0] == args.rank else None
    with Observer(log, kill_step).watching():
        pretrain(container, build_datasets, ModelType.encoder_or_decoder, forward_step)
