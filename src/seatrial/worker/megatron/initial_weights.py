# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Convert a run's initial Hugging Face weights to a checkpoint, once, before the first step.

The first rank converts the weights on the shared volume; the other ranks wait for the record, which
is written last. An interrupted conversion is repeated; an interrupted download resumes.
"""

import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from seatrial.checkpoints.commit import CommitError
from seatrial.checkpoints.exchange.import_plan import misfits, plan_import, read_model
from seatrial.checkpoints.inventory import checkpoints
from seatrial.checkpoints.naming import RECORD
from seatrial.checkpoints.stopping import StopCode, StopError
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.engines.megatron.hub_model import model_of_arguments, option_fix
from seatrial.engines.megatron.weight_map import entries
from seatrial.errors import FindingsError
from seatrial.findings import Severity
from seatrial.huggingface.config import HubModel
from seatrial.storage.location import LocalPlace
from seatrial.storage.state_files import write_state
from seatrial.units import format_bytes
from seatrial.worker.megatron.import_weights import STEP, write_weights
from seatrial.worker.settings import Settings
from seatrial.worker.supervisor.heartbeats import BeatWriter
from seatrial.worker.weights.hub_download import fetch_config, fetch_weights, source_record

LOOK_SECONDS = 2.0
"""Interval at which ranks check if the weights exist or have grown."""
SOURCE = "source.json"
"""The file next to the converted weights that names where they came from."""
SAY_SECONDS = 30.0
"""Interval between progress messages."""


def import_initial_weights(chosen: Settings, engine_args: Namespace, heart: BeatWriter) -> None:
    """Create the checkpoint that the engine starts from, if the run has initial weights.

    Args:
        chosen: The weights, and the rank of this process.
        engine_args: The engine's arguments.
        heart: The heartbeat, which records progress.
    """
    if not chosen.initial_weights:
        return
    target = Path(engine_args.pretrained_checkpoint)
    if chosen.rank == 0 and not _is_settled(engine_args):
        try:
            with _growing(target, heart):
                _bring(chosen.initial_weights, target, engine_args)
        except FindingsError as error:
            raise StopError(StopCode.NO_CHECKPOINT, str(error)) from error
        except CommitError:
            # A process from an earlier start finished first, with the same weights.
            if not _is_settled(engine_args):
                raise
    while not _is_settled(engine_args):
        heart.still()
        time.sleep(LOOK_SECONDS)


def _is_settled(engine_args: Namespace) -> bool:
    """True if there is a checkpoint to load: the weights, or one that the run saved later."""
    brought = Path(engine_args.pretrained_checkpoint, NAMING.directory_name(STEP), RECORD)
    if brought.exists():
        return True
    own = LocalPlace(engine_args.load) if engine_args.load else None
    return own is not None and any(one.record is not None for one in checkpoints(own))


def _bring(source: str, target: Path, engine_args: Namespace) -> None:
    """Download, check and convert. Reject a mismatch before downloading the weights."""
    run = model_of_arguments(vars(engine_args), source)
    shutil.rmtree(target / NAMING.directory_name(STEP), ignore_errors=True)
    fetched = target / "download" if "://" in source else None
    if fetched is not None:
        fetched.mkdir(parents=True, exist_ok=True)
        fetch_config(source, fetched)
    directory = fetched or Path(source)
    _refuse_misfits(
        read_model(directory),
        run,
        source,
        engine_args.padded_vocab_size or run.architecture.vocab_size,
    )
    if fetched is not None:
        _say(f"downloading {source} to {fetched} (only once per run)")
        fetch_weights(source, fetched)
        write_state(target / SOURCE, source_record(source, fetched))
    plan = plan_import(directory, entries)
    _say(f"converting {source} ({format_bytes(plan.size)}) to a checkpoint in {target}")
    write_weights(plan, target, lambda *_: None)
    if fetched is not None:
        shutil.rmtree(fetched, ignore_errors=True)
    _say(f"converted {source} to {target}")


def _refuse_misfits(weights: HubModel, run: HubModel, source: str, padded: int) -> None:
    found = misfits(weights, run, source, padded, option_fix)
    for finding in found:
        if finding.severity is not Severity.ERROR:
            _say(f"{finding.severity} {finding.code} {finding.one_line()}")
    errors = [finding for finding in found if finding.severity is Severity.ERROR]
    if errors:
        raise FindingsError(errors)


@contextmanager
def _growing(directory: Path, heart: BeatWriter) -> Iterator[None]:
    """Record progress while the files in a directory grow. A hung download is not progress."""
    over = Event()

    def look() -> None:
        size, reported = -1, time.monotonic()
        while not over.wait(LOOK_SECONDS):
            before, size = size, _size(directory)
            if size == before:
                continue
            heart.still()
            if time.monotonic() - reported > SAY_SECONDS:
                reported = time.monotonic()
                _say(f"{format_bytes(size)} written")

    thread = Thread(target=look, name="seatrial-weights", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _size(directory: Path) -> int:
    """Return the total size of a directory. Files may disappear meanwhile."""
    total = 0
    for file in directory.rglob("*"):
        try:
            total += file.stat().st_size
        except OSError:
            continue
    return total


def _say(text: str) -> None:
    sys.stderr.write(f"seatrial: {text}\n")
    sys.stderr.flush()
