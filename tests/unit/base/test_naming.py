# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.naming import MAX_RUN_NAME, as_dns_label, is_dns_label, nearest


@pytest.mark.parametrize("name", ["a", "slim-7b", "a1", "x" * 63])
def test_kubernetes_takes_these_names(name: str) -> None:
    assert is_dns_label(name)


@pytest.mark.parametrize("name", ["", "7b", "A", "a_b", "a-", "-a", "a.b", "x" * 64, "a\n"])
def test_kubernetes_refuses_these_names(name: str) -> None:
    assert not is_dns_label(name)


@given(st.text())
def test_a_proposed_name_is_always_usable(text: str) -> None:
    assert is_dns_label(as_dns_label(text), MAX_RUN_NAME)


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert nearest("Tokenz", ["tokens", "steps"]) == "tokens"
    assert nearest("apiversion", ["apiVersion", "name"]) == "apiVersion"
    assert nearest("zebra", ["tokens", "steps"]) is None
