# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every option of the engine: the check and the engine itself agree on each value."""

from collections.abc import Callable
from random import Random

import pytest

from tests.attack.option_agreement import compare, engine_options, figure, report
from tests.attack.option_cases import cases
from tests.engine.agreement.compare import engine

pytestmark = [pytest.mark.attack, pytest.mark.timeout(3600)]

ALL = 1_000_000
SEED = 24


def test_check_and_engine_agree_on_every_option(
    attack_size: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    with engine() as asked:
        options = engine_options(asked)
        everything = cases(options)
        few = min(attack_size(ALL, 60), len(everything))
        chosen = Random(SEED).sample(everything, few)  # noqa: S311  (which cases, no secret)
        found = list(compare(asked, chosen))
    tried = {one.case.option for one in found}
    record_property("figure", figure(tried, found))
    assert [one for one in found if one.differs] == [], report(tried, found)
    # Else nothing was compared.
    outcomes = {one.outcome for one in found}
    assert {"accepted by both", "refused by both"} <= outcomes
    assert len(options) > 800
