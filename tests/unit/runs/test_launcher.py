# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The launcher, whatever its backend."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from seatrial.errors import SeatrialError, UsageError
from seatrial.planning.plan import Plan
from seatrial.runs.launch.decision import ON_HOST, ActiveAttempt, FoundAttempts
from seatrial.runs.launch.differences import FieldDifference
from seatrial.runs.launch.launcher import Submitted, Wanted, launch
from seatrial.runs.ledger.ledger import AttemptRecord, AttemptTakenError, End, Ledger
from seatrial.runs.status.observe import JobState
from tests.unit.runs.fake_cluster import wanted


@dataclass
class RacingBackend:
    """Another launch wins the first race, and leaves a run of another spec."""

    changes: list[list[FieldDifference]]
    """The differences that each look finds."""
    looks: int = 0
    ended: list[End | None] = field(default_factory=list)
    namespace: str = ""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def refuse_unfit(self, wanted: Wanted) -> None:
        """Refuse nothing."""

    @contextmanager
    def hold(self, wanted: Wanted) -> Iterator[None]:
        yield

    def find(self, wanted: Wanted) -> FoundAttempts:
        self.looks += 1
        record = AttemptRecord(self.looks, "x", "2026-01-01T00:00:00Z", "host", "other")
        active = ActiveAttempt(self.looks, JobState.RUNNING)
        return FoundAttempts(
            ledger=Ledger((record,)), is_changed=True, phrases=ON_HOST, active=active
        )

    def spec_changes(self, plan: Plan) -> list[FieldDifference]:
        return self.changes[self.looks - 1]

    def end_previous(self, found: FoundAttempts, end: End | None) -> None:
        self.ended.append(end)

    def submit(self, wanted: Wanted, record: AttemptRecord, *, is_begun: bool) -> Submitted | None:
        if self.looks == 1:
            raise AttemptTakenError
        return Submitted("host", 0)

    def outrun(self, run: str) -> SeatrialError:
        return UsageError(run)


FIRST = [FieldDifference("training.seed", 1, 2)]
SECOND = [FieldDifference("training.seed", 3, 2)]


@pytest.mark.parametrize(("second", "questions"), [(FIRST, [FIRST]), (SECOND, [FIRST, SECOND])])
def test_another_spec_that_wins_the_race_is_asked_about(
    second: list[FieldDifference], questions: list[list[FieldDifference]]
) -> None:
    asked: list[list[FieldDifference]] = []

    def confirm(changes: list[FieldDifference]) -> bool:
        asked.append(changes)
        return True

    assert launch(RacingBackend([FIRST, second]), wanted(), confirm).is_new
    assert asked == questions
