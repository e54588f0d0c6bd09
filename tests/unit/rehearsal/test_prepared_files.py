# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A rehearsal reads the user's data when they are all there."""

from pathlib import Path

from seatrial.catalog.catalog import Catalog
from seatrial.rehearsal.rehearse import prepared_files
from tests.conftest import loaded, plan_spec


def pair(prefix: Path) -> str:
    """A prepared pair of files, as far as their names go."""
    for end in ("bin", "idx"):
        prefix.with_name(f"{prefix.name}.{end}").touch()
    return str(prefix)


def files(*overrides: str) -> tuple[str, ...]:
    return prepared_files(plan_spec(loaded(*overrides), Catalog()))


def test_mock_data_have_no_files() -> None:
    assert files() == ()


def test_prepared_sources_must_all_be_there(tmp_path: Path) -> None:
    first, second = pair(tmp_path / "a"), str(tmp_path / "b")
    sources = f"data={{sources: [{{prepared: {first}}}, {{prepared: {second}}}]}}"
    assert files(sources) == ()
    pair(tmp_path / "b")
    assert files(sources) == (first, second)


def test_raw_sources_are_read_from_the_blend(tmp_path: Path) -> None:
    raw = (f"data={{sources: [{{from: /corpus}}], location: {tmp_path}}}",)
    assert files(*raw) == ()
    name = pair(tmp_path / "corpus-00000")
    (tmp_path / "blend.txt").write_text(f"0.5 {name}\n")
    assert files(*raw) == (name,)
    Path(f"{name}.idx").unlink()
    assert files(*raw) == ()
