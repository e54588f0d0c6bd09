# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The call into LLM Foundry: settings, made-up data, callbacks, its own training."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
from composer.core import Callback
from llmfoundry.command_utils.train import train as train_by_foundry
from llmfoundry.registry import callbacks
from streaming import MDSWriter
from streaming.base.shared import memory
from streaming.base.util import clean_stale_shared_memory
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from seatrial.checkpoints.stopping import StopError
from seatrial.errors import SeatrialError
from seatrial.worker.checkpointing.loading import refusing
from seatrial.worker.llm_foundry import cpu, safe_load, settings
from seatrial.worker.llm_foundry.commit import ComposerCommitter, join_ranks
from seatrial.worker.llm_foundry.observe import ComposerObserver
from seatrial.worker.llm_foundry.settings import Mock
from seatrial.worker.settings import Device, Settings
from seatrial.worker.supervisor.heartbeats import BeatWriter

END = "<end>"
COLUMNS = {"tokens": "ndarray:int32"}
"""As LLM Foundry's own converter writes tokens."""
SPLITS = {"train": 1.0, "val": 0.25}
"""The folders, and how many samples each has beside the training's."""


def make_mock_data(mock: Mock) -> None:
    """Write the tokenizer, and the data where they are asked for."""
    mock.directory.mkdir(parents=True, exist_ok=True)
    _once(mock.directory / "tokenizer", lambda place: _write_tokenizer(place, mock.vocab_size))
    for number, (split, share) in enumerate(SPLITS.items()):
        samples = round(mock.samples * share)
        if samples:
            _once(
                mock.directory / split,
                lambda place, n=samples, s=number: _write(place, mock, n, s),  # type: ignore[misc]
            )


def _once(place: Path, write: Callable[[Path], None]) -> None:
    """Write into a directory that gets its name when it is whole."""
    if place.exists():
        return
    made = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    write(made)
    try:
        made.rename(place)
    except OSError:
        # Somebody else was faster.
        shutil.rmtree(made)


def _write_tokenizer(place: Path, vocab_size: int) -> None:
    words = {END: 0} | {f"w{number}": number for number in range(1, vocab_size)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token=END)),
        eos_token=END,
        pad_token=END,
        unk_token=END,
    )
    tokenizer.save_pretrained(str(place))


def _write(place: Path, mock: Mock, samples: int, split: int) -> None:
    """Tokens of which small ones are far more frequent, so that there is something to learn."""
    random = numpy.random.default_rng([mock.seed, split])
    with MDSWriter(out=str(place), columns=COLUMNS) as out:
        for _ in range(samples):
            share = random.random(mock.sequence_length) ** 3
            out.write({"tokens": (share * mock.vocab_size).astype(numpy.int32)})


PATIENCE = 60.0
"""Seconds after which a block without a size is an error."""
TICK = 0.02


class _WaitingMemory(memory.BuiltinSharedMemory):  # type: ignore[misc]
    """A block that is attached to only once it has its size."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                super().__init__(*args, **kwargs)
            except ValueError as error:
                if "empty file" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(TICK)
            else:
                return


def install_shared_memory() -> None:
    """Let the streaming library make its blocks so."""
    memory.BuiltinSharedMemory = _WaitingMemory


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
    if chosen.device is Device.CPU:
        cpu.install()
    install_shared_memory()
    safe_load.install()
    configured, mock = settings.read(words)
    keeper = ComposerCommitter(chosen, configured)
    observer = ComposerObserver(chosen, configured, heart, keeper)
    if mock is not None:
        make_mock_data(mock)
    callbacks.register(CALLBACK, func=_always(observer))
    configured.setdefault("callbacks", {})
    configured.callbacks[CALLBACK] = {}
    with observer.watching():
        if POD in os.environ:
            _settle_in_pod(configured)
        with keeper.resuming(), refusing(str(configured.get("load_path") or "the checkpoint")):
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


def _always(observer: ComposerObserver) -> type[Callback]:
    """A class for the registry, which makes its callbacks itself, that gives this one."""
    return type("SeatrialCallback", (Callback,), {"__new__": lambda cls: observer})
