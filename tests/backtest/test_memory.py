# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The memory back-test with model sizes held out, against its bars."""

import pytest

from backtest import memory_write
from backtest.memory_ran import fsdp_runs
from backtest.memory_report import memory_lines
from seatrial.planning.memory.breakdown import MemoryFit

# Half a minute of CPU, which a busy machine may stretch.
pytestmark = [pytest.mark.backtest, pytest.mark.timeout(900)]


def test_every_bar_is_met() -> None:
    missed = [f"{line.title}: {line.measured}" for line in memory_lines() if not line.met]
    assert not missed


def test_no_more_than_one_of_ten_runs_with_fsdp_is_refused_falsely() -> None:
    found = fsdp_runs()
    assert len(found["llm-foundry"]) > 200
    assert not [run for run in found["llm-foundry"] if run.verdict is MemoryFit.DOES_NOT_FIT]
    runs = [run for own in found.values() for run in own]
    assert sum(run.verdict is MemoryFit.DOES_NOT_FIT for run in runs) <= 0.1 * len(runs)


def test_the_shipped_constants_are_what_the_script_writes() -> None:
    assert memory_write.FILE.read_text("utf-8") == memory_write.text()
