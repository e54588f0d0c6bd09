# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of a list, where it is needed: never another one, and never half of it."""

from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seatrial.dataprep.tokenizers.locations import CACHE, tokenizer_path
from seatrial.errors import SeatrialError
from seatrial.storage.directory import LocalStore

DATA = b'{"model": {}}' * 100
TASKS: Any = SimpleNamespace(
    name="a",
    settings=SimpleNamespace(tokenizer=SimpleNamespace(sha256=sha256(DATA).hexdigest())),
)


class Remote:
    """A store that counts how often it is read."""

    address = "s3://bucket/data"

    def __init__(self, data: bytes) -> None:
        self.data, self.reads = data, 0

    def read(self, _: str) -> bytes:
        self.reads += 1
        return self.data


def test_a_copy_that_a_power_cut_left_empty_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    store: Any = Remote(DATA)
    file = tokenizer_path(store, TASKS)
    assert (file.read_bytes(), store.reads) == (DATA, 1)
    assert tokenizer_path(store, TASKS) == file
    assert store.reads == 1
    for damage in (b"", DATA[:50], DATA[:-1] + b"?"):
        file.write_bytes(damage)
        assert tokenizer_path(store, TASKS).read_bytes() == DATA
    assert store.reads == 4
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("is_local", [True, False])
def test_another_tokenizer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    store: Any = LocalStore(tmp_path) if is_local else Remote(b"other")
    (tmp_path / "work" / "a").mkdir(parents=True)
    (tmp_path / "work" / "a" / "tokenizer").write_bytes(b"other")
    with pytest.raises(SeatrialError, match="the tokenizer has the digest"):
        tokenizer_path(store, TASKS)
