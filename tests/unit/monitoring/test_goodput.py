# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.goodput import AttemptTimes, Bucket, account

NOW = 1_794_700_000.0


def event(kind: EventKind, after: float, step: int = 0, **values: object) -> Event:
    return Event(kind, step, NOW + after, values)


def steps(first: int, last: int, begin: float, each: float = 2.0) -> list[Event]:
    """Steps one after the other, the first of which begins then."""
    return [
        event(EventKind.STEP, begin + each * (n + 1), step, seconds=each)
        for n, step in enumerate(range(first, last + 1))
    ]


def test_an_undisturbed_run_is_starting_training_saving_and_evaluating() -> None:
    events = [
        event(EventKind.START, 30, began=NOW + 10),
        *steps(1, 10, 30),
        event(EventKind.SAVE, 54, 10, seconds=4.0),
        event(EventKind.EVALUATION, 57, 10, seconds=3.0),
        *steps(11, 20, 57),
        event(EventKind.EXIT, 78, 20, code=0),
    ]
    found = account([AttemptTimes(events, NOW, NOW + 80)])
    assert dict(found.seconds) == pytest.approx(
        {
            Bucket.WAITING: 12,
            Bucket.STARTING: 20,
            Bucket.TRAINING: 41,
            Bucket.SAVING: 4,
            Bucket.EVALUATING: 3,
            Bucket.REPLAYED: 0,
            Bucket.HUNG: 0,
        }
    )
    assert found.wall == pytest.approx(80)
    assert found.share == pytest.approx(41 / 80)
    assert (found.restarts, found.replayed_steps, found.clipped) == (0, 0, 0)


def test_a_restart_replays_what_was_lost() -> None:
    events = [
        event(EventKind.START, 10, began=NOW),
        *steps(1, 15, 10),
        # Killed in step 16, a second in; torchrun starts again five seconds later.
        event(EventKind.RESTART, 48, count=1, began=NOW + 46),
        event(EventKind.START, 60, 10, began=NOW + 46),
        *steps(11, 20, 60),
    ]
    found = account([AttemptTimes(events, NOW, NOW + 80)])
    assert found.seconds[Bucket.TRAINING] == pytest.approx(2 * 20)
    # Steps 11 to 15 again, and the one that was not finished.
    assert found.seconds[Bucket.REPLAYED] == pytest.approx(2 * 5 + 2)
    assert found.seconds[Bucket.WAITING] == pytest.approx(4)
    assert found.seconds[Bucket.STARTING] == pytest.approx(10 + 14)
    assert (found.restarts, found.replayed_steps) == (1, 5)
    assert found.wall == pytest.approx(80)


def test_a_hang_is_what_is_longer_than_a_step_may_take() -> None:
    hung = [event(EventKind.START, 10), *steps(1, 10, 10), event(EventKind.EXIT, 630, 10, code=1)]
    found = account([AttemptTimes(hung, NOW + 10)])
    assert found.seconds[Bucket.HUNG] == pytest.approx(598)
    assert found.seconds[Bucket.REPLAYED] == pytest.approx(2)
    stuck = [event(EventKind.START, 10), *steps(1, 10, 10), *steps(11, 11, 30, each=300.0)]
    found = account([AttemptTimes(stuck, NOW + 10)])
    assert found.seconds[Bucket.HUNG] == pytest.approx(298)


def test_time_between_attempts_is_told_apart() -> None:
    first = AttemptTimes([event(EventKind.START, 5), *steps(1, 5, 5)], NOW, NOW + 16)
    second = AttemptTimes([event(EventKind.START, 3605, 4), *steps(5, 6, 3605)], NOW + 3600)
    found = account([first, second])
    assert found.between == pytest.approx(3584)
    assert found.wall == pytest.approx(16 + 9)
    assert (found.attempts, found.restarts, found.replayed_steps) == (2, 0, 1)


def test_an_attempt_that_never_trained_waited_and_started() -> None:
    refused = [event(EventKind.EXIT, 42, code=1, began=NOW + 30)]
    found = account([AttemptTimes(refused, NOW, NOW + 45)])
    assert found.seconds[Bucket.WAITING] == pytest.approx(33)
    assert found.seconds[Bucket.STARTING] == pytest.approx(12)
    assert found.share == 0


def test_means_of_many_steps_count_as_many() -> None:
    events = [
        Event(EventKind.STEP, n, NOW + 2.0 * n, {"seconds": 2.0, "steps": 10})
        for n in range(10, 110, 10)
    ]
    found = account([AttemptTimes(events, NOW)])
    assert found.seconds[Bucket.TRAINING] == pytest.approx(200)
    assert found.seconds[Bucket.HUNG] == 0


def test_a_log_that_contradicts_itself_says_so() -> None:
    events = [event(EventKind.START, 0), *steps(1, 5, 0), *steps(6, 6, 9, each=4.0)]
    assert account([AttemptTimes(events, NOW)]).clipped == pytest.approx(1)


kinds = st.sampled_from(list(EventKind))
numbers = st.one_of(st.none(), st.floats(-10, 1e4), st.just(float("nan")))
any_event = st.builds(
    lambda kind, step, after, seconds, began: event(
        kind, after, step, seconds=seconds, began=None if began is None else NOW + began
    ),
    kinds,
    st.integers(0, 50),
    st.floats(0, 1e5),
    numbers,
    st.one_of(st.none(), st.floats(0, 1e5)),
)


@given(st.lists(st.lists(any_event, max_size=12), min_size=1, max_size=4))
def test_the_buckets_add_up_to_the_wall_time_whatever_happens(logs: list[list[Event]]) -> None:
    attempts, at, wall = [], 0.0, 0.0
    for log in logs:
        submitted, ended = at, at + 2e5
        moved = [Event(e.kind, e.step, e.time + at, e.values) for e in log]
        attempts.append(AttemptTimes(moved, NOW + submitted, NOW + ended))
        wall += ended - submitted
        at = ended + 100.0
    found = account(attempts)
    assert found.wall == pytest.approx(wall, rel=1e-9)
    assert found.between == pytest.approx(100.0 * (len(logs) - 1), abs=1e-3)
    assert min(found.seconds.values()) >= 0
