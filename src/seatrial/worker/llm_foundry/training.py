# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The call into LLM Foundry: settings, made-up data, callbacks, its own training."""

import sys
from typing import Any

from composer.core import Callback
from llmfoundry.command_utils.train import train as train_by_foundry
from llmfoundry.registry import callbacks
from streaming.base.util import clean_stale_shared_memory

from seatrial.checkpoints.stopping import StopError
from seatrial.errors import SeatrialError
from seatrial.worker.llm_foundry import given, mock_data, shared_memory
from seatrial.worker.llm_foundry.keeping import Keeper
from seatrial.worker.llm_foundry.observe import Observer
from seatrial.worker.settings import Settings
from seatrial.worker.supervisor.beats import BeatWriter

CALLBACK = "seatrial"
"""The name of our callback in LLM Foundry's registry."""


def train(chosen: Settings, words: list[str], heart: BeatWriter, *, in_pod: bool = False) -> bool:
    """Train as the words say; whether the last step was reached.

    What a person can mend ends the process with a line that says how, and not with a traceback.
    """
    try:
        return _train(chosen, words, heart, in_pod=in_pod)
    except SeatrialError as error:
        sys.stderr.write(f"seatrial: {error}\n")
        raise SystemExit(error.code if isinstance(error, StopError) else 1) from None


def _train(chosen: Settings, words: list[str], heart: BeatWriter, *, in_pod: bool) -> bool:
    shared_memory.install()
    configured, mock = given.read(words)
    keeper = Keeper(chosen, configured)
    observer = Observer(chosen, configured, heart, keeper)
    if mock is not None:
        mock_data.make(mock)
    if in_pod:
        # A container that starts again finds the memory of the one before, and the streaming
        # library refuses its directories then; a pod has no other run's.
        clean_stale_shared_memory()
    callbacks.register(CALLBACK, func=_always(observer))
    configured.setdefault("callbacks", {})
    configured.callbacks[CALLBACK] = {}
    with observer.watching(), keeper.resuming():
        trainer: Any = train_by_foundry(configured)
        done = int(trainer.state.timestamp.batch)
        trainer.close()
    return done >= observer.total_steps


def _always(observer: Observer) -> type[Callback]:
    """A class for the registry, which makes its callbacks itself, that gives this one."""
    return type("SeatrialCallback", (Callback,), {"__new__": lambda cls: observer})
