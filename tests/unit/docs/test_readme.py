# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the README and the pages of the documentation show is what the commands print."""

import doctest
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from docs.tools.page_blocks import BLOCK, marker_before
from docs.tools.page_parts import ROOT
from docs.tools.refresh_console import pages, refreshed
from tests.unit.docs.stand_in_cluster import StandIn

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


def run_doctests(text: str, page: Path, walker: str = "") -> None:
    """Run the `>>>` blocks of a page, one after the other with the same names.

    Blocks that a test executes are skipped, unless it is the walker. Blocks with a stand-in for a
    cluster share one.
    """
    names: dict[str, object] = {}
    cluster = StandIn()
    for number, match in enumerate(BLOCK.finditer(text)):
        marker = marker_before(text[: match.start()])
        kind, value = (marker.kind, marker.value) if marker else ("", "")
        if match["info"].strip() != "pycon" or (kind == "executed by" and value != walker):
            continue
        with ExitStack() as stack:
            if kind == "stand-in cluster":
                cluster.act_out(value)
                launching = "seatrial.launch(" in match["text"]
                stack.enter_context(cluster.reached(launching=launching))
            names = run_doctest(match["text"], names, f"{page.name}, block {number}")


def run_doctest(text: str, names: dict[str, object], block: str) -> dict[str, object]:
    """Run one block, and return the names that it leaves."""
    test = doctest.DocTestParser().get_doctest(text, names, block, block, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    results = runner.run(test, out=report.append, clear_globs=False)
    assert results.attempted > 0, f"{block} runs nothing"
    assert results.failed == 0, "".join(report)
    return test.globs


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
