# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How often to save."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.planning.saving.interval import (
    DEFAULT_RATE,
    best_interval,
    daly_interval,
    failure_rates,
    losses,
    rate_of,
    steps_between_saves,
    young_interval,
)

HOUR = 3600.0


def test_youngs_rule() -> None:
    assert young_interval(50.0, 10_000.0) == 1000.0


def test_dalys_rule_corrects_youngs_for_long_saves() -> None:
    # C = 0.16 s, M = 120 s: the figures of the goodput experiment in the reliability research.
    assert daly_interval(0.16, 120.0) == pytest.approx(6.09, abs=0.01)
    assert daly_interval(300.0, 100.0) == 100.0
    assert daly_interval(0.0, 100.0) == 0.0


@given(
    save=st.floats(0.1, 2000),
    between=st.floats(2000, 1e7),
    restart=st.floats(0, 2000),
    other=st.floats(0.05, 20),
)
def test_no_other_interval_loses_less(
    save: float, between: float, restart: float, other: float
) -> None:
    best = best_interval(save, restart, between)
    least = losses(best, save, restart, between).total
    assert least <= losses(best * other, save, restart, between).total + 1e-9


@given(save=st.floats(0.1, 100), between=st.floats(1e5, 1e7))
def test_dalys_rule_is_near_the_best_for_short_saves(save: float, between: float) -> None:
    assert daly_interval(save, between) == pytest.approx(
        best_interval(save, 0.0, between), rel=1e-3
    )


def test_losses_agree_with_a_simulated_run() -> None:
    interval, save, restart, between = 600.0, 60.0, 120.0, 3 * HOUR
    generator = random.Random(7)  # noqa: S311
    clock, useful, next_failure = 0.0, 0.0, generator.expovariate(1 / between)
    saving = 0.0
    for _ in range(40_000):
        end = clock + interval + save
        while next_failure < end:
            clock = next_failure
            next_failure = clock + generator.expovariate(1 / between)
            # A failure during a restart starts it anew.
            while next_failure < clock + restart:
                clock = next_failure
                next_failure = clock + generator.expovariate(1 / between)
            clock += restart
            end = clock + interval + save
        clock, useful, saving = end, useful + interval, saving + save
    expected = losses(interval, save, restart, between)
    assert expected.saving == pytest.approx(saving / clock, rel=0.01)
    assert expected.total == pytest.approx(1 - useful / clock, rel=0.02)


def test_a_run_that_cannot_get_through_an_interval_loses_everything() -> None:
    assert losses(1e9, 10.0, 10.0, 100.0).total == 1.0
    assert losses(0.0, 10.0, 10.0, 100.0).total == 1.0


def test_an_interval_is_at_least_one_step() -> None:
    assert steps_between_saves(100.0, 40.0) == 2
    assert steps_between_saves(1.0, 40.0) == 1


def test_published_rates_come_to_what_their_sources_say() -> None:
    rates = failure_rates()
    # One interruption in 3.1 h, and 0.016 % a node and hour with 8 GPUs a node.
    assert rates["llama-3"].between_failures(16_384) / HOUR == pytest.approx(3.1, abs=0.05)
    assert rates["llama-3"].per_gpu_hour * 8 == pytest.approx(0.00016, rel=0.02)
    assert rates["meta-rsc"].between_failures(1024) / HOUR == pytest.approx(7.9)
    assert rates[DEFAULT_RATE].between_failures(16) / HOUR / 24 > 30
    assert all(len(rate.source) > 8 for rate in rates.values())


def test_a_rate_of_ones_own_takes_the_place_of_the_published_one() -> None:
    assert rate_of(None) is failure_rates()[DEFAULT_RATE]
    own = rate_of(4.0)
    assert own.between_failures(16) / HOUR / 24 == pytest.approx(365 / 4 / 16)
