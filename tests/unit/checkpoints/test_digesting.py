# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The digest is of what was written, in pieces of any size."""

import hashlib
import os
import random
from pathlib import Path

from seatrial.checkpoints.digesting_file import SMALL, DigestingFile, Digests


def test_small_and_long_pieces_are_hashed_in_order(tmp_path: Path) -> None:
    draw, digests, path = random.Random(1), Digests(), str(tmp_path / "shard")  # noqa: S311
    pieces = [draw.randbytes(n) for n in (10, 3 * SMALL, 1, SMALL, SMALL + 1, 0, 5 * SMALL, 7)]
    with DigestingFile(path, digests) as file:
        for piece in pieces:
            assert file.write(memoryview(piece)) == len(piece)
        assert file.tell() == sum(map(len, pieces))
        os.fsync(file.fileno())
    whole = b"".join(pieces)
    assert Path(path).read_bytes() == whole
    told = digests.take(path)
    assert told is not None
    assert (told.name, told.size) == ("shard", len(whole))
    assert told.sha256 == hashlib.sha256(whole).hexdigest()
    assert digests.take(path) is None


def test_a_buffer_may_be_used_again_after_the_write(tmp_path: Path) -> None:
    digests, path = Digests(), str(tmp_path / "shard")
    buffer = bytearray(b"a" * 2 * SMALL)
    with DigestingFile(path, digests) as file:
        file.write(buffer)
        buffer[:] = b"b" * len(buffer)
        file.write(buffer)
    told = digests.take(path)
    assert told is not None
    assert told.sha256 == hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_a_file_that_failed_has_no_digest(tmp_path: Path) -> None:
    digests, path = Digests(), str(tmp_path / "shard")
    file = DigestingFile(path, digests)
    file.write(b"some")
    file.__exit__(OSError, OSError("full"), None)
    assert digests.take(path) is None
