# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure what the commit protocol adds to a save: the engine's own writer, with it and without.

    PYTHON_OF_THE_WORKER -m benchmarks.save_overhead [--bytes 1G] [--repeats 5]
        [--directory DIR]

One rank saves a state of so many bytes through megatron-core's own `dist_checkpointing.save`: as it
is, with its own integrity manifest (`verify_integrity`), and with the protocol (digests while
writing, list, record). The three are taken in turn, and the medians are compared. Files are synced
to the disk by all of them, as the engine does. A plain copy of the state with a sync and its digest
alone are timed beside, to tell the disk and the hashing from the code.
"""

import argparse
import hashlib
import os
import shutil
import statistics
import tempfile
import time
from argparse import Namespace
from pathlib import Path

from seatrial.worker.megatron.cpu.start import start_on_cpu

start_on_cpu(())

import torch  # noqa: E402  (the engine asks torch.cuda at its import)
from megatron.core import dist_checkpointing  # noqa: E402
from megatron.core.dist_checkpointing import ShardedTensor  # noqa: E402
from megatron.core.dist_checkpointing.strategies import filesystem_async  # noqa: E402

from seatrial.checkpoints.commit import commit, make_room  # noqa: E402
from seatrial.checkpoints.record import Record, ShardList  # noqa: E402
from seatrial.checkpoints.starts import claim, refuse_stale  # noqa: E402
from seatrial.engines.megatron.checkpoint_names import NAMING  # noqa: E402
from seatrial.storage.location import LocalPlace  # noqa: E402
from seatrial.units import format_bytes, parse_bytes  # noqa: E402
from seatrial.worker.megatron import commit_digests  # noqa: E402
from seatrial.worker.megatron.commit import run_setup  # noqa: E402

TENSORS = 24
"""Of how many tensors the state is made, as of so many layers."""
PLAIN, OWN, PROTOCOL = "as it is", "its own manifest", "the protocol"
COPY, DIGEST = "a plain write", "a digest alone"


def state(size: int) -> dict[str, ShardedTensor]:
    rows = size // TENSORS // 4 // 1024
    tensors = {f"layer{i}": torch.randn(rows, 1024) for i in range(TENSORS)}
    return {key: ShardedTensor.from_rank_offsets(key, data) for key, data in tensors.items()}


class Protocol:
    """The worker's protocol around the engine's writer, to be put on and taken off."""

    def __init__(self, place: LocalPlace) -> None:
        self.place = place
        self.incarnation = claim(place, "1", 0).incarnation
        writer = filesystem_async.FileSystemWriterAsync
        names = ("write_preloaded_data", "prepare_write_data", "retrieve_write_results")
        self._originals = {name: writer.__dict__[name] for name in names}
        self.written = commit_digests.Written(
            lambda: self.incarnation, lambda: refuse_stale(place, self.incarnation)
        )

    def on(self) -> None:
        commit_digests.install_writing()
        writer = filesystem_async.FileSystemWriterAsync
        writer.prepare_write_data = self.written.naming(writer.prepare_write_data)
        writer.retrieve_write_results = self.written.collecting(writer.retrieve_write_results)

    def off(self) -> None:
        for name, original in self._originals.items():
            setattr(filesystem_async.FileSystemWriterAsync, name, original)
        filesystem_async.__dict__.pop("open", None)

    def save(self, wanted: dict[str, ShardedTensor], step: int) -> None:
        directory = Path(self.place.address, NAMING.directory_name(step))
        make_room(self.place, NAMING.directory_name(step), self.incarnation)
        dist_checkpointing.save(dict(wanted), str(directory))
        files = self.written.take(str(directory))
        setup = run_setup(Namespace(world_size=1))
        record = Record(step, 0, "", self.incarnation, ShardList(0, 0, ""), setup)
        commit(self.place, files, record)


def measure(root: Path, size: int, repeats: int) -> dict[str, list[float]]:
    wanted, protocol = state(size), Protocol(LocalPlace(root))
    seconds: dict[str, list[float]] = {name: [] for name in (COPY, DIGEST, PLAIN, OWN, PROTOCOL)}
    step = 0
    for turn in range(repeats + 1):
        for name in seconds:
            step += 1
            directory = root / NAMING.directory_name(step)
            directory.mkdir()
            os.sync()
            if name == PROTOCOL:
                protocol.on()
            began = time.perf_counter()
            if name == COPY:
                write_plainly(directory / "state", wanted)
            elif name == DIGEST:
                digest(wanted)
            elif name == PROTOCOL:
                protocol.save(wanted, step)
            else:
                kept = dict(wanted)
                dist_checkpointing.save(kept, str(directory), verify_integrity=name == OWN)
            taken = time.perf_counter() - began
            protocol.off()
            shutil.rmtree(directory)
            # The first turn warms up.
            if turn:
                seconds[name].append(taken)
    return seconds


def write_plainly(path: Path, wanted: dict[str, ShardedTensor]) -> None:
    """The bytes of the state in one file, on the disk."""
    with path.open("wb") as stream:
        for tensor in wanted.values():
            stream.write(memoryview(tensor.data.numpy()).cast("B"))
        stream.flush()
        os.fsync(stream.fileno())


def digest(wanted: dict[str, ShardedTensor]) -> str:
    """The SHA-256 of the state, in one thread, as of one file."""
    hasher = hashlib.sha256()
    for tensor in wanted.values():
        hasher.update(memoryview(tensor.data.numpy()).cast("B"))
    return hasher.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=parse_bytes, default=parse_bytes("1G"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=None)
    given = parser.parse_args()
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29591"}
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        seconds = measure(Path(directory), given.bytes, given.repeats)
    base = statistics.median(seconds[PLAIN])
    print(f"{format_bytes(given.bytes)} of state, {given.repeats} saves of each kind")
    for name, taken in seconds.items():
        middle = statistics.median(taken)
        shown = " ".join(f"{one:.2f}" for one in sorted(taken))
        print(f"{name:<18} {middle:6.2f} s  {middle / base - 1:+7.1%}   ({shown})")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
