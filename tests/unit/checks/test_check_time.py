# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The static check stays quick; `benchmarks.check` measures the whole command."""

from time import process_time

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.recipes.shipped import recipe, recipe_names

MOST_SECONDS = 1.0
"""Of processor time, so that a busy machine changes little."""


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_is_checked_in_less_than_a_second(name: str, catalog: Catalog) -> None:
    text = recipe(name).text
    # Facts are read at the first check, as at the first of a process; the least of some counts,
    # for whatever else the process does is not the check's.
    taken = []
    for _ in range(3):
        began = process_time()
        check(text, "run.yaml", catalog)
        taken.append(process_time() - began)
    assert min(taken) < MOST_SECONDS
