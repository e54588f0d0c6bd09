# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A small real run with checkpoints of steps 2, 4 and 6 of 8, and what can be done to them."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from docs.tools.recorded_tables import FAULTS
from seatrial.checkpoints.naming import RECORD, shard_list_name
from seatrial.engine_process.process import TrainingOutcome, worker_python
from seatrial.engines.megatron.checkpoint_names import NAMING, TRACKER
from seatrial.engines.megatron.command_line import Arguments, command_line
from tests.conftest import MEGATRON
from tests.engine.toy import DENSE, SHARDED
from tests.faults.warm import Warm

STEPS, EVERY = 8, 2
NEWEST, OLDER, OLDEST = 6, 4, 2
TINY: Arguments = {
    **DENSE,
    **SHARDED,
    "num-layers": 2,
    "hidden-size": 32,
    "seq-length": 16,
    "max-position-embeddings": 16,
    "train-iters": STEPS,
    "save-interval": EVERY,
}
ASYNCHRONOUS: Arguments = {
    "async-save": True,
    "use-persistent-ckpt-worker": True,
    "async-strategy": "mcore",
}
SEEDS = "SEATRIAL_FAULT_SEEDS"
"""`FIRST:LAST`: which of the cases to run, the last one not included."""


def seeds(number: int) -> range:
    """The cases that are asked for; all of them when nobody asks."""
    first, _, last = os.environ.get(SEEDS, f"0:{number}").partition(":")
    return range(int(first), min(number, int(last)))


def record(suite: str, **values: object) -> None:
    """Append the result of a case, so that a suite can be continued."""
    FAULTS.parent.mkdir(exist_ok=True)
    with FAULTS.open("a") as stream:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        stream.write(json.dumps({"suite": suite, "at": at, **values}) + "\n")


class Engine(Warm):
    """The real engine, loaded once; every start is a process of its own."""

    def __init__(self) -> None:
        more = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
        super().__init__(worker_python(MEGATRON), "tests.faults.warm_worker", **more)

    def start(
        self,
        directory: Path,
        saved: Path,
        more: Arguments | None = None,
        environment: dict[str, str] | None = None,
    ) -> tuple[TrainingOutcome, str]:
        """One start on a run's checkpoints, and what it printed."""
        arguments = {**TINY, **(more or {}), "save": str(saved), "load": str(saved)}
        log = directory / "run.log"
        outcome = self.begin(log, command_line(arguments), environment or {})
        return outcome, log.read_text(errors="replace")


def whole_run(engine: Engine, directory: Path, more: Arguments | None = None) -> TrainingOutcome:
    """A run that was never disturbed, of whose checkpoints the last is then taken away."""
    saved = directory / "saved"
    outcome, printed = engine.start(directory, saved, more)
    assert outcome.code == 0, printed[-3000:]
    shutil.rmtree(saved / NAMING.directory_name(STEPS))
    (saved / TRACKER).write_text(str(NEWEST))
    return outcome


def figures(outcome: TrainingOutcome) -> dict[int, tuple[float, float]]:
    """Loss and gradient norm of each step."""
    return {s: (e.values["loss"], e.values["grad_norm"]) for s, e in outcome.steps().items()}


Corruption = Callable[[Path, random.Random], int]
"""Damages something, and says which step is then the newest good one."""


def _file(saved: Path, draw: random.Random) -> Path:
    return draw.choice(
        sorted(f for f in (saved / NAMING.directory_name(NEWEST)).iterdir() if f.is_file())
    )


def bit_flip(saved: Path, draw: random.Random) -> int:
    file = _file(saved, draw)
    data = bytearray(file.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)
    return OLDER


def zeroed(saved: Path, draw: random.Random) -> int:
    file = saved / NAMING.directory_name(NEWEST) / "__0_i1_0.distcp"
    data = bytearray(file.read_bytes())
    while True:
        begin = draw.randrange(len(data) - 4096)
        if any(data[begin : begin + 4096]):
            data[begin : begin + 4096] = bytes(4096)
            file.write_bytes(data)
            return OLDER


def truncated(saved: Path, draw: random.Random) -> int:
    file = _file(saved, draw)
    data = file.read_bytes()
    file.write_bytes(data[: draw.randrange(len(data))])
    return OLDER


def swapped(saved: Path, draw: random.Random) -> int:
    one, other = (saved / NAMING.directory_name(s) / "__0_i1_0.distcp" for s in (NEWEST, OLDER))
    mine, theirs = one.read_bytes(), other.read_bytes()
    one.write_bytes(theirs)
    other.write_bytes(mine)
    return OLDEST


def deleted(saved: Path, draw: random.Random) -> int:
    _file(saved, draw).unlink()
    return OLDER


def stale_record(saved: Path, draw: random.Random) -> int:
    for name in draw.choice([(RECORD,), (RECORD, shard_list_name(1)), (shard_list_name(1),)]):
        shutil.copy(
            saved / NAMING.directory_name(OLDER) / name,
            saved / NAMING.directory_name(NEWEST) / name,
        )
    return OLDER


def garbage_tracker(saved: Path, draw: random.Random) -> int:
    garbage = draw.choice([b"", b"garbage", draw.randbytes(16), b"99999999", b"-1", b"release"])
    (saved / TRACKER).write_bytes(garbage)
    return NEWEST


CORRUPTIONS: tuple[Corruption, ...] = (
    bit_flip,
    zeroed,
    truncated,
    swapped,
    deleted,
    stale_record,
    garbage_tracker,
)


def corrupt(saved: Path, seed: int) -> tuple[str, int]:
    """Damage a run's checkpoints as a seed says: how, and the step to be resumed from."""
    draw = random.Random(seed)  # noqa: S311
    corruption = CORRUPTIONS[seed % len(CORRUPTIONS)]
    return corruption.__name__, corruption(saved, draw)


def cases(pristine: Path, directory: Path, number: int) -> Iterator[tuple[int, str, int, Path]]:
    """Each case: its seed, what was done, the step to be resumed from, the damaged copy."""
    for seed in seeds(number):
        saved = directory / str(seed) / "saved"
        shutil.copytree(pristine, saved)
        what, expected = corrupt(saved, seed)
        yield seed, what, expected, saved
