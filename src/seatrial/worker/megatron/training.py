# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The call into the engine: its argument parser, its model builder, its training loop."""

import sys

from huggingface_hub import snapshot_download
from megatron.core.enums import ModelType
from megatron.training import pretrain
from megatron.training.argument_utils import (
    gpt_config_from_args,
    pretrain_cfg_container_from_args,
)
from megatron.training.arguments import parse_and_validate_args
from torch.distributed.checkpoint.api import CheckpointException

from seatrial.checkpoints.starts import StaleStartError
from seatrial.checkpoints.stopping import StopCode, StopError
from seatrial.errors import SeatrialError
from seatrial.worker.checkpointing import safe_load
from seatrial.worker.megatron import fault_injection
from seatrial.worker.megatron.commit import MegatronCommitter
from seatrial.worker.megatron.gpt import build_datasets, forward_step
from seatrial.worker.megatron.heartbeat import beating
from seatrial.worker.megatron.initial_weights import bring_in
from seatrial.worker.megatron.observe import MegatronObserver
from seatrial.worker.megatron.replacements import ON_ANY_DEVICE, replace
from seatrial.worker.megatron.resume import Resumption
from seatrial.worker.settings import Settings
from seatrial.worker.supervisor.heartbeats import BeatWriter

TOKENIZER = "--tokenizer-model"
TOKENIZER_FILES = ("*.json", "*.model", "*.txt", "*.tiktoken")
"""What a repository on the Hub may keep of a tokenizer, and not its weights."""


def train(chosen: Settings, heart: BeatWriter | None = None) -> None:
    """Train as the command line says; the engine's own exit code ends the process.

    What a person can mend ends it with a line that says how, and not with a traceback.
    """
    try:
        _train(chosen, heart or BeatWriter(None, chosen.rank))
    except SeatrialError as error:
        sys.stderr.write(f"seatrial: {error}\n")
        raise SystemExit(error.code if isinstance(error, StopError) else 1) from None
    except CheckpointException as error:
        # torch gathers what went wrong in writing; that a later start has begun is final.
        causes = [cause for cause, _ in error.failures.values()]
        stale = next((cause for cause in causes if isinstance(cause, StaleStartError)), None)
        if stale is None:
            raise
        sys.stderr.write(f"seatrial: {stale}\n")
        raise SystemExit(StopCode.STALE) from None


def _train(chosen: Settings, heart: BeatWriter) -> None:
    events = chosen.events if chosen.writes_events else None
    # From here on, so that the log also tells of arguments that the engine refuses.
    observer = MegatronObserver(events, chosen.kill_step, shares=chosen.events is not None)
    with observer.watching(), beating(heart):
        replace(ON_ANY_DEVICE)
        protect_checkpoints(chosen)
        if chosen.tokenizer_revision:
            pin_tokenizer(sys.argv, chosen.tokenizer_revision)
        args = parse_and_validate_args()
        # Before the processes meet: they would not wait for each other as long as this may take.
        bring_in(chosen, args, heart)
        container = pretrain_cfg_container_from_args(args, gpt_config_from_args(args))
        if chosen.trouble:
            fault_injection.install(fault_injection.parsed(chosen.trouble))
        pretrain(container, build_datasets, ModelType.encoder_or_decoder, forward_step)


def protect_checkpoints(chosen: Settings) -> None:
    """Put the protocol around saving, the choice before loading, and limits on unpickling."""
    safe_load.install()
    keeper = MegatronCommitter()
    keeper.install()
    Resumption(chosen, keeper).install()


def pin_tokenizer(words: list[str], revision: str) -> None:
    """Let the engine load the tokenizer from a copy of that revision."""
    if TOKENIZER in words:
        place = words.index(TOKENIZER) + 1
        words[place] = snapshot_download(
            words[place], revision=revision, allow_patterns=list(TOKENIZER_FILES)
        )
