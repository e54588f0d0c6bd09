# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's cache of indices: a description is on the disk after the files that it speaks of."""

from pathlib import Path

import pytest

from seatrial.worker.megatron import index_cache


def test_a_description_gets_its_name_after_its_files_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    building = tmp_path / ".building-1"
    building.mkdir()
    names = ["a-description.txt", "a-index.npy", "b-description.txt", "b-index.npy"]
    for name in names:
        (building / name).write_text(name)
    seen: list[list[str]] = []
    monkeypatch.setattr(
        index_cache,
        "sync_directory",
        lambda path: seen.append(sorted(each.name for each in path.iterdir() if each.is_file())),
    )
    index_cache._put_in_place(building, tmp_path)
    assert seen == [["a-index.npy", "b-index.npy"], sorted(names)]
