# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks: generated hostile input, counted. `make attack` runs all of it, CI a short form."""

import os
from collections.abc import Callable

import pytest


@pytest.fixture(scope="session")
def attack_size() -> Callable[[int, int], int]:
    """Choose how many cases to generate: all of them, or few with SEATRIAL_ATTACK=short."""
    is_short = os.environ.get("SEATRIAL_ATTACK") == "short"

    def choose(full: int, short: int) -> int:
        return short if is_short else full

    return choose
