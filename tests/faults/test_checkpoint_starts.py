# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""40 damaged runs through a real start of the engine: the newest good checkpoint is used.

Needs the worker's environment. Run in pieces: SEATRIAL_FAULT_SEEDS=0:10 make faults ARGS='-k
starts'; every case is appended to build/fault-results.jsonl.
"""

from pathlib import Path

import pytest

from tests.faults.checkpoint_starts import STEPS, Engine, cases, figures, record, whole_run

pytestmark = [pytest.mark.faults, pytest.mark.engine, pytest.mark.timeout(7200)]

CASES = 40


def test_damaged_runs_start_from_the_newest_good_checkpoint(tmp_path: Path) -> None:
    engine = Engine()
    straight = figures(whole_run(engine, tmp_path / "whole"))
    failed = []
    for seed, what, expected, saved in cases(tmp_path / "whole" / "saved", tmp_path, CASES):
        outcome, printed = engine.start(saved.parent, saved)
        mine = figures(outcome)
        right = (
            outcome.code == 0
            and sorted(mine) == list(range(expected + 1, STEPS + 1))
            and all(mine[step] == straight[step] for step in mine)
        )
        first = min(mine, default=0)
        record("starts", seed=seed, what=what, code=outcome.code, first_step=first, right=right)
        print(  # noqa: T201
            f"START | {seed} | {what} | from {expected} | {'right' if right else 'WRONG'} |",
            flush=True,
        )
        if not right:
            failed.append((seed, what, outcome.code, first, printed[-500:]))
    engine.close()
    assert not failed
