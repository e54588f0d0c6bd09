# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from seatrial.engine_process.process import worker_python
from seatrial.errors import MissingExtraError
from tests.conftest import MEGATRON


def test_a_host_without_the_engine_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MEGATRON.installation.variable, raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[worker\]'"):
        worker_python(MEGATRON)


def test_a_wrong_worker_python_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(MEGATRON.installation.variable, str(tmp_path / "nothing"))
    with pytest.raises(MissingExtraError, match="which is not executable"):
        worker_python(MEGATRON)
