# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The notebook's page, with the real engine for its rehearsal."""

from pathlib import Path

import pytest

from docs.tools.page_parts import ROOT
from tests.unit.docs.test_readme import run_doctests

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


def test_the_notebook_rehearses_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs/guides/notebook.md"
    run_doctests(page.read_text(encoding="utf-8"), page, "tests/engine/test_notebook.py")
