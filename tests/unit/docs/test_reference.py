# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The reference in docs/ is what the code says, and the generator notices when it is not."""

from enum import StrEnum
from pathlib import Path

import pytest

from docs.tools.generate_reference import changes, main, pages, write
from docs.tools.reference.markdown import GENERATED, docs_of, member_docs
from docs.tools.reference.spec_page import EXAMPLE, type_words
from seatrial import validate
from seatrial.spec.fields import all_fields


def test_the_reference_is_up_to_date() -> None:
    assert changes() == {}, "run: make reference"


def test_the_generator_repeats_itself() -> None:
    assert pages() == pages()


def test_check_names_each_stale_page_and_the_command_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    (tmp_path / "spec.md").write_text("changed by hand\n")
    (tmp_path / "cli.md").unlink()
    (tmp_path / "gone.md").write_text(f"{GENERATED}\n")
    (tmp_path / "by-hand.md").write_text("not generated\n")
    assert list(changes(tmp_path)) == ["cli.md", "gone.md", "spec.md"]
    monkeypatch.setattr("docs.tools.generate_reference.changes", lambda: {"spec.md": None})
    assert main(["--check"]) == 1
    said = capsys.readouterr().err
    assert "docs/reference/spec.md" in said
    assert "make reference" in said


def test_writing_mends_everything_and_leaves_other_pages_alone(tmp_path: Path) -> None:
    (tmp_path / "gone.md").write_text(f"{GENERATED}\n")
    (tmp_path / "by-hand.md").write_text("not generated\n")
    write(tmp_path)
    assert changes(tmp_path) == {}
    assert not (tmp_path / "gone.md").exists()
    assert (tmp_path / "by-hand.md").read_text() == "not generated\n"


def test_every_field_of_the_spec_is_on_its_page() -> None:
    page = pages()["spec.md"]
    missing = [
        field.name for field in all_fields().values() if f"| `{field.path[-1]}` |" not in page
    ]
    assert missing == []


def test_the_example_of_the_spec_page_resolves_to_a_plan(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(EXAMPLE)
    result = validate(file)
    assert result.plan is not None
    assert result.findings == ()


class Undocumented(StrEnum):
    """An enum with a member that nobody explained."""

    SAID = "said"
    """Explained."""
    UNSAID = "unsaid"


def test_a_member_without_docstring_stops_the_generator() -> None:
    with pytest.raises(SystemExit, match=r"Undocumented\.SAID has no docstring"):
        # Only classes of Seatrial are read, so that for this one nothing is explained.
        member_docs(Undocumented)


def test_a_field_without_docstring_stops_the_generator() -> None:
    with pytest.raises(SystemExit, match=r"Undocumented\.field has no docstring"):
        docs_of(Undocumented, ["field"])


def test_a_type_without_words_stops_the_generator() -> None:
    with pytest.raises(SystemExit, match="no words for"):
        type_words(complex)
