# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A decay at the end of the run begins when the warm-up is over."""

import pytest

from seatrial.codes.planning import PlanCode
from seatrial.errors import FindingsError
from tests.conftest import resolved

LATE = "training.learning_rate={style: wsd, anneal: {steps: 900}, warmup: {steps: 100}}"
EARLY = "training.learning_rate={style: wsd, anneal: {fraction: 0.95}, warmup: {steps: 100}}"
LONGER = "training.learning_rate={style: wsd, anneal: {steps: 1200}}"


def test_a_decay_that_begins_in_the_warm_up_is_refused() -> None:
    with pytest.raises(FindingsError) as raised:
        resolved(EARLY)
    (finding,) = raised.value.findings
    assert finding.code is PlanCode.ANNEAL
    assert (
        "the decay takes the last 972,800 of 1,024,000 samples, so it begins before the warm-up "
        "ends after 102,400."
    ) in str(raised.value)
    assert "Use at most 921,600 samples, or a shorter warm-up." in str(raised.value)


def test_a_decay_longer_than_the_run_is_refused() -> None:
    with pytest.raises(FindingsError, match="begins before the warm-up ends"):
        resolved(LONGER)


def test_a_decay_that_begins_where_the_warm_up_ends_is_accepted() -> None:
    assert resolved(LATE).schedule.anneal_samples == 921_600
