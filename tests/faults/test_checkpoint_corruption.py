# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""1,000 corruptions of a checkpoint through the verifier; 50 late commits of an orphan."""

from pathlib import Path

import pytest

from tests.faults.checkpoint_starts import record
from tests.unit.checkpoints.made import make_checkpoint
from tests.unit.checkpoints.test_corruption import CORRUPTIONS, silent_corruptions
from tests.unit.checkpoints.test_starts import late_commit_is_refused

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]


def test_a_thousand_corruptions_and_none_is_silent(tmp_path: Path) -> None:
    pristine = tmp_path / "checkpoints"
    for step in (10, 20):
        make_checkpoint(pristine, step)
    silent, drawn = silent_corruptions(pristine, tmp_path / "copy", 1000)
    record("corruptions", cases=sum(drawn.values()), silent=len(silent), kinds=dict(drawn))
    print(f"CORRUPTIONS | {sum(drawn.values())} | {len(silent)} silent | {dict(drawn)} |")  # noqa: T201
    assert not silent
    assert min(drawn[corruption.__name__] for corruption in CORRUPTIONS) > 50


def test_fifty_late_commits_are_refused(tmp_path: Path) -> None:
    refused = sum(late_commit_is_refused(tmp_path / str(seed), seed) for seed in range(50))
    record("late-commits", cases=50, refused=refused)
    print(f"LATE COMMITS | {refused} of 50 refused |")  # noqa: T201
    assert refused == 50
