# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from seatrial.engine_process.process import WORKER_PYTHON, worker_python
from seatrial.errors import MissingExtraError


def test_a_host_without_the_engine_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WORKER_PYTHON, raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[worker\]'"):
        worker_python()


def test_a_wrong_worker_python_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(WORKER_PYTHON, str(tmp_path / "nothing"))
    with pytest.raises(MissingExtraError, match="which is not executable"):
        worker_python()
