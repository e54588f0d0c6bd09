# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The table of what the second engine changed counts every file, each with a reason."""

import subprocess
from pathlib import Path

import pytest

from scripts import write_change_set as changes


def git(root: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit of the engine's, and one of others."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- change-set -->\nold\n<!-- end -->\nafter\n")
    own = tmp_path / "src/seatrial/worker/llm_foundry/run.py"
    elsewhere = tmp_path / "src/seatrial/checks/rule.py"
    for file in (own, elsewhere):
        file.parent.mkdir(parents=True)
        file.write_text("1\n2\n3\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "src")
    git(tmp_path, "commit", "-qm", "engines: bring it")
    elsewhere.write_text("1\n")
    git(tmp_path, "commit", "-qam", "checks: another thing")
    monkeypatch.setattr(changes, "ROOT", tmp_path)
    monkeypatch.setattr(changes, "PAGE", page)
    monkeypatch.setattr(changes, "SUBJECTS", ("engines: bring it",))
    return tmp_path


def test_lines_of_its_commits_are_counted_and_of_no_others(repository: Path) -> None:
    changes.main()
    page = (repository / "page.md").read_text()
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "old" not in page
    assert "| **its own places** | **3** | **0** | |" in page
    reason = changes.REASONS["src/seatrial/checks/"]
    assert f"| `src/seatrial/checks/` | 3 | 0 | {reason} |" in page


def test_a_subject_without_a_commit_ends_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "SUBJECTS", ("engines: never was",))
    with pytest.raises(SystemExit, match="never was"):
        changes.main()


def test_a_page_without_a_place_ends_it(repository: Path) -> None:
    (repository / "page.md").write_text("nothing\n")
    with pytest.raises(SystemExit, match="no place for the table"):
        changes.main()


def test_every_file_has_a_place_or_a_reason() -> None:
    assert changes.place("src/seatrial/engines/llm_foundry/engine.py") == (True, "its adapter")
    assert changes.place("src/seatrial/engines/engine.py") == (False, "src/seatrial/engines/")
    with pytest.raises(SystemExit, match="no reason"):
        changes.place("src/seatrial/catalogue.py")
