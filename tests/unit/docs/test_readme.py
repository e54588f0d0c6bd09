# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the README and the pages of the documentation show is what the commands print."""

import doctest
import re
from pathlib import Path

import pytest

from docs.tools.page_blocks import BLOCK
from docs.tools.page_parts import ROOT
from docs.tools.refresh_console import pages, refreshed

FIRST_PAGES = [ROOT / "README.md", ROOT / "docs/getting-started/quickstart.md"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_shows_what_the_commands_print(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text(encoding="utf-8")
    assert refreshed(text, tmp_path).splitlines() == text.splitlines(), "run: make console"
    # Python of the page comes after its commands, and may use the files that they made.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    run_doctests(text, page)


def run_doctests(text: str, page: Path) -> None:
    """Run the `>>>` blocks of a page, one after the other with the same names."""
    names: dict[str, object] = {}
    for number, match in enumerate(BLOCK.finditer(text)):
        if match["info"].strip() != "pycon":
            continue
        block = f"{page.name}, block {number}"
        test = doctest.DocTestParser().get_doctest(match["text"], names, block, str(page), 0)
        report: list[str] = []
        results = doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
        assert results.attempted > 0, f"{block} runs nothing"
        assert results.failed == 0, "".join(report)
        names = test.globs


@pytest.mark.parametrize("page", FIRST_PAGES, ids=lambda page: page.name)
def test_the_first_pages_run_commands(page: Path) -> None:
    assert "\n$ seatrial " in page.read_text(encoding="utf-8")
    assert page in pages()


def test_a_changed_output_is_noticed(tmp_path: Path) -> None:
    shown = "```console\n$ seatrial --version\n0.0.0.never\n```\n"
    assert refreshed(shown, tmp_path) != shown


def test_a_command_that_fails_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"`seatrial validate none.yaml` ended with 2"):
        refreshed("```console\n$ seatrial validate none.yaml\n```\n", tmp_path)


def test_the_readme_links_only_to_files_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
