# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The call into LLM Foundry: settings, mock data, callbacks and training."""

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
"""The column format of LLM Foundry's own converter."""
SPLITS = {"train": 1.0, "val": 0.25}
"""The folders, and the number of their samples relative to the training samples."""


def make_mock_data(mock: Mock) -> None:
    """Write the tokenizer, and the data if requested."""
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
    """Write to a temporary directory, and rename it when it is complete."""
    if place.exists():
        return
    made = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    write(made)
    try:
        made.rename(place)
    except OSError:
        # Another process was faster.
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
    """Write tokens among which small IDs are far more frequent, so that the model can learn."""
    random = numpy.random.default_rng([mock.seed, split])
    with MDSWriter(out=str(place), columns=COLUMNS) as out:
        for _ in range(samples):
            share = random.random(mock.sequence_length) ** 3
            out.write({"tokens": (share * mock.vocab_size).astype(numpy.int32)})


PATIENCE = 60.0
"""Seconds after which a block without a size is an error."""
TICK = 0.02


class _WaitingMemory(memory.BuiltinSharedMemory):  # type: ignore[misc]
    """A shared memory block that waits until it has its size."""

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
    """Make the streaming library use shared memory blocks that wait for their size."""
    memory.BuiltinSharedMemory = _WaitingMemory


CALLBACK = "seatrial"
"""The name of Seatrial's callback in LLM Foundry's registry."""
POD = "POD_NAME"
"""Set in every pod, and nowhere else."""


def train(chosen: Settings, words: list[str], heart: BeatWriter) -> bool:
    """Train. Return True if the last step was reached.

    For errors that the user can fix, exit with a message and not with a traceback.
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
    elif chosen.tokenizer:
        settings.use_copy(configured, chosen.tokenizer)
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
    """Prepare a pod for LLM Foundry, which expects a host."""
    # LLM Foundry's ranks synchronise through files in the working directory (llmfoundry 0.22.0,
    # utils/builders.py), which may not be writable for the pod's user; HOME is writable.
    os.chdir(Path.home())
    # A restarted container finds the shared memory of its predecessor, and the streaming library
    # then rejects its directories. Unlike a host, a pod has no shared memory from other runs.
    join_ranks(configured)
    clean_stale_shared_memory()


def _always(observer: ComposerObserver) -> type[Callback]:
    """Return a class for the registry, which creates callbacks itself; it returns `observer`."""
    return type("SeatrialCallback", (Callback,), {"__new__": lambda cls: observer})
