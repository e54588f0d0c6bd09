# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests of data preparation."""

import pytest

from seatrial.dataprep.kernel import run


@pytest.fixture(autouse=True)
def _small_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' process may be large, and each task would then load its tokenizer again."""
    monkeypatch.setattr(run, "memory_in_use", lambda: 0)
