# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where the wall time went, on real trainings with restarts: the buckets add up to it."""

import time
from pathlib import Path

import pytest

from seatrial.monitoring.goodput import Bucket
from seatrial.monitoring.view import RunView
from tests.engine.conftest import Figure
from tests.engine.toy import DENSE, start

pytestmark = [pytest.mark.engine, pytest.mark.slow]

MOST = 0.01
"""The share of the wall time that the buckets may miss it by."""


@pytest.mark.parametrize(
    "restarts",
    [
        pytest.param(1, id="torchrun starts again"),
        pytest.param(0, id="submitted again"),
    ],
)
def test_the_buckets_add_up_to_the_wall_time(restarts: int, tmp_path: Path, figure: Figure) -> None:
    saves = str(tmp_path / "saves")
    model = {**DENSE, "save": saves, "load": saves, "save-interval": 10, "eval-iters": 1}
    model |= {"eval-interval": 10}
    view, wall = RunView(), 0.0
    # A rank dies in step 14, after the save of step 10.
    for number, (kill, more) in enumerate(
        [((1, 14), restarts)] if restarts else [((1, 14), 0), (None, 0)], start=1
    ):
        began = time.time()
        outcome = start(tmp_path, f"start-{number}", model, 2, kill, restarts=more)
        ended = time.time()
        wall += ended - began
        view.begin(number, began)
        for event in outcome.events:
            view.take(event)
        view.end(ended)
    spent = view.goodput()
    missed = abs(spent.wall - wall) / wall
    in_stretches = sum(stretch.seconds for stretch in view.stretches.stretches)
    print(
        f"buckets {spent.wall:.2f} s, clock {wall:.2f} s, {100 * missed:.3f} % apart; "
        f"events claim {spent.clipped:.3f} s more than there was"
    )
    figure("goodput", str(restarts), f"{wall:.1f} s", f"{100 * missed:.3f} %")
    assert missed <= MOST
    assert in_stretches == pytest.approx(spent.wall)
    # What events claim beyond the time there was would be booked twice by who adds them up.
    assert spent.clipped <= MOST * wall
    assert spent.replayed_steps == 3
    assert spent.restarts == restarts
    for bucket in (Bucket.TRAINING, Bucket.REPLAYED, Bucket.SAVING, Bucket.STARTING):
        assert spent.seconds[bucket] > 0, bucket
    first, second = view.restarts()
    assert (first.last_step, second.first_step, first.lost_steps) == (13, 10, 3)
