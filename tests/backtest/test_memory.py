# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The memory back-test with model sizes held out, against its bars."""

import pytest

from scripts.backtest import memory_write
from scripts.backtest.memory_report import memory_lines

# Half a minute of CPU, which a busy machine may stretch.
pytestmark = [pytest.mark.backtest, pytest.mark.timeout(900)]


def test_every_bar_is_met() -> None:
    missed = [f"{line.title}: {line.measured}" for line in memory_lines() if not line.met]
    assert not missed


def test_the_shipped_constants_are_what_the_script_writes() -> None:
    assert memory_write.FILE.read_text("utf-8") == memory_write.text()
