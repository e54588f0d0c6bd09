# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The call into LLM Foundry: settings, made-up data, callbacks, its own training."""

import os
import sys
from pathlib import Path
from typing import Any

from composer.core import Callback
from llmfoundry.command_utils.train import train as train_by_foundry
from llmfoundry.registry import callbacks
from streaming.base.util import clean_stale_shared_memory

from seatrial.checkpoints.stopping import StopError
from seatrial.errors import SeatrialError
from seatrial.worker.llm_foundry import given, mock_data, shared_memory
from seatrial.worker.llm_foundry.keeping import Keeper, join_ranks
from seatrial.worker.llm_foundry.observe import Observer
from seatrial.worker.settings import Settings
from seatrial.worker.supervisor.beats import BeatWriter

CALLBACK = "seatrial"
"""The name of our callback in LLM Foundry's registry."""
POD = "POD_NAME"
"""Set in every pod, and nowhere else."""


def train(chosen: Settings, words: list[str], heart: BeatWriter) -> bool:
    """Train as the words say; whether the last step was reached.

    What a person can mend ends the process with a line that says how, and not with a traceback.
    """
    try:
        return _train(chosen, words, heart)
    except SeatrialError as error:
        sys.stderr.write(f"seatrial: {error}\n")
        raise SystemExit(error.code if isinstance(error, StopError) else 1) from None


def _train(chosen: Settings, words: list[str], heart: BeatWriter) -> bool:
    shared_memory.install()
    configured, mock = given.read(words)
    keeper = Keeper(chosen, configured)
    observer = Observer(chosen, configured, heart, keeper)
    if mock is not None:
        mock_data.make(mock)
    callbacks.register(CALLBACK, func=_always(observer))
    configured.setdefault("callbacks", {})
    configured.callbacks[CALLBACK] = {}
    with observer.watching():
        if POD in os.environ:
            _settle_in_pod(configured)
        with keeper.resuming():
            trainer: Any = train_by_foundry(configured)
            done = int(trainer.state.timestamp.batch)
            trainer.close()
    return done >= observer.total_steps


def _settle_in_pod(configured: Any) -> None:
    """Make of a pod what LLM Foundry expects of a host."""
    # Its ranks wait for each other by files in the working directory (llmfoundry 0.22.0,
    # utils/builders.py), to which the pod's user may have no right; that of HOME is the pod's own.
    os.chdir(Path.home())
    # A container that starts again finds the memory of the one before, and the streaming library
    # refuses its directories then; a pod has no other run's, and a host may have.
    join_ranks(configured)
    clean_stale_shared_memory()


def _always(observer: Observer) -> type[Callback]:
    """A class for the registry, which makes its callbacks itself, that gives this one."""
    return type("SeatrialCallback", (Callback,), {"__new__": lambda cls: observer})
