# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tests that start the real engine: they need the worker's environment."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seatrial.engine_process.process import worker_python
from seatrial.errors import MissingExtraError
from tests.conftest import MEGATRON
from tests.scanned import scan_recorded


@pytest.fixture(scope="session", autouse=True)
def _worker() -> str:
    """The worker's Python; its absence is an error here, not a reason to skip."""
    variable = MEGATRON.installation.variable
    try:
        return worker_python(MEGATRON)
    except MissingExtraError as error:
        pytest.fail(f"{error} (make engine sets {variable}; now {os.environ.get(variable)})")


@pytest.fixture(scope="session", autouse=True)
def _scanner_accepts_what_was_written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Scan every checkpoint that the tests of this session have written and left intact."""
    yield
    scan_recorded(tmp_path_factory.getbasetemp())


FIGURES = Path(__file__).parents[2] / "build" / "engine-figures.jsonl"
"""What was measured, one JSON line a row; docs/tools/recorded_tables.py makes the page of it."""

Figure = Callable[..., None]
"""Called with the name of a table and the cells of a row."""


@pytest.fixture
def figure() -> Figure:
    """Records a measured row."""

    def record(table: str, *cells: str) -> None:
        FIGURES.parent.mkdir(exist_ok=True)
        with FIGURES.open("a") as stream:
            stream.write(json.dumps({"table": table, "row": cells}, ensure_ascii=False) + "\n")

    return record
