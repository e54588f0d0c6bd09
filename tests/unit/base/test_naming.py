# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.naming import (
    MAX_RUN_NAME,
    as_dns_label,
    is_dns_label,
    names_namespace,
    names_object,
    nearest,
)


@pytest.mark.parametrize("name", ["a", "slim-7b", "a1", "x" * 63])
def test_kubernetes_takes_these_names(name: str) -> None:
    assert is_dns_label(name)


@pytest.mark.parametrize("name", ["", "7b", "A", "a_b", "a-", "-a", "a.b", "x" * 64, "a\n"])
def test_kubernetes_refuses_these_names(name: str) -> None:
    assert not is_dns_label(name)


def test_what_others_made_may_begin_with_a_digit_or_hold_dots() -> None:
    assert names_namespace("7b-team")
    assert not names_namespace("team.ml")
    assert names_object("7b.registry-key")
    assert names_object("x" * 63 + "." + "y" * 189)
    assert not names_object("x" * 254)
    assert not names_object("team.gpu-queue", 10)


@pytest.mark.parametrize("name", ["", "A", "a_b", "a-", "-a", "a..b", ".a", "a.", "a\n"])
def test_no_object_has_these_names(name: str) -> None:
    assert not names_object(name)
    assert not names_namespace(name)


@given(st.text())
def test_a_proposed_name_is_always_usable(text: str) -> None:
    assert is_dns_label(as_dns_label(text), MAX_RUN_NAME)


def test_the_nearest_name_is_found_whatever_its_case() -> None:
    assert nearest("Tokenz", ["tokens", "steps"]) == "tokens"
    assert nearest("apiversion", ["apiVersion", "name"]) == "apiVersion"
    assert nearest("zebra", ["tokens", "steps"]) is None


def test_half_a_name_is_enough_where_it_ends_at_a_separator() -> None:
    nodes = ["p4d.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p6-b200.48xlarge", "p6-b300.48xlarge"]
    assert nearest("p5", nodes) == "p5.48xlarge"
    assert nearest("tp", ["tp_size", "pp_size"]) == "tp_size"
    assert nearest("p6", nodes) is None
    assert nearest("p", nodes) is None
