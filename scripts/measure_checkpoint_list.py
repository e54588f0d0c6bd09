# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure what listing checkpoints of many files costs in time and memory.

python -m scripts.measure_checkpoint_list [--files 100000] [--checkpoints 10]
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from seatrial.checkpoints.arguments import setup_from_arguments
from seatrial.checkpoints.commit import commit
from seatrial.checkpoints.naming import FORMAT_FILE, METADATA, directory_name
from seatrial.checkpoints.place import LocalPlace
from seatrial.checkpoints.record import Record, ShardList
from seatrial.checkpoints.setup import Versions
from seatrial.checkpoints.shard_list import ShardFile
from seatrial.checkpoints.starts import claim

NO_TENSORS = (
    b"\x80\x02ctorch.distributed.checkpoint.metadata\nMetadata\n)\x81"
    b"}X\x0c\x00\x00\x00storage_data}sb."
)
"""A list of tensors that names none, without torch for it: a commit reads it."""
LISTING = """
import resource, sys
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
from seatrial.checkpoints.inventory import checkpoints
from seatrial.checkpoints.place import LocalPlace
loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
files = sum(one.record.shards.files for one in checkpoints(LocalPlace(sys.argv[1])))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(files, loaded, after)
"""


def make(root: Path, files: int, number: int) -> None:
    """Checkpoints of so many files together."""
    place = LocalPlace(root)
    start = claim(place, "1", 0)
    setup = setup_from_arguments({}, Versions("0", "engine", "torch"), 1)
    content = b"x"
    digest = hashlib.sha256(content).hexdigest()
    for step in range(1, number + 1):
        directory = root / directory_name(step)
        directory.mkdir()
        (directory / METADATA).write_bytes(NO_TENSORS)
        (directory / FORMAT_FILE).write_bytes(content)
        shards = []
        for rank in range(files // number - 2):
            name = f"__{rank}_i1_0.distcp"
            (directory / name).write_bytes(content)
            shards.append(ShardFile(name, 1, digest))
        record = Record(step, 0, "", start.incarnation, ShardList(0, 0, ""), setup)
        commit(place, shards, record)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--checkpoints", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        make(Path(directory), given.files, given.checkpoints)
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", LISTING, directory], capture_output=True, text=True, check=True
        )
        seconds = time.perf_counter() - began
    files, loaded, after = map(int, done.stdout.split())
    print(f"{files:,} files in {given.checkpoints} checkpoints listed in {seconds:.2f} s")
    print(f"memory before the list {loaded / 1024:.1f} MiB, with it {after / 1024:.1f} MiB")


if __name__ == "__main__":
    main()
