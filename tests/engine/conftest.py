# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tests that start the real engine: they need the worker's environment."""

import os

import pytest

from seatrial.errors import MissingExtraError
from seatrial.rehearsal.worker_process import WORKER_PYTHON, worker_python


@pytest.fixture(scope="session", autouse=True)
def _worker() -> str:
    """The worker's Python; its absence is an error here, not a reason to skip."""
    try:
        return worker_python()
    except MissingExtraError as error:
        pytest.fail(
            f"{error} (make engine sets {WORKER_PYTHON}; now {os.environ.get(WORKER_PYTHON)})"
        )
