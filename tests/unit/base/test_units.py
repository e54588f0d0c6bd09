# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from seatrial.units import decimal_quotient, format_bytes, format_count, parse_bytes, parse_count


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1500", 1500),
        ("1_000", 1000),
        ("100k", 100_000),
        ("2.5M", 2_500_000),
        ("150B", 150_000_000_000),
        ("1.5T", 1_500_000_000_000),
        ("0.3 B", 300_000_000),
    ],
)
def test_counts_are_exact(text: str, number: int) -> None:
    assert parse_count(text) == number


@pytest.mark.parametrize("text", ["", "B", "-1", "1.5", "1e9", "12 apples", "0.3k5", "1__0x"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_count(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("16Ti", 16 << 40),
        ("1.5GiB", 3 << 29),
        ("2T", 2 * 10**12),
        ("1024", 1024),
        ("500G", 5 * 10**11),
    ],
)
def test_sizes_know_both_kinds_of_prefix(text: str, number: int) -> None:
    assert parse_bytes(text) == number


@pytest.mark.parametrize("text", ["16ti", "1.3", "x", "1 parsec"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_bytes(text)


def test_numbers_are_written_for_people() -> None:
    assert format_count(7_465_689_088) == "7.47 B"
    assert format_count(174_615_846_912) == "175 B"
    assert format_count(950) == "950"
    assert format_count(15 * 10**12) == "15 T"
    assert format_bytes(3 << 40) == "3 TiB"
    assert format_bytes(1536) == "1.5 KiB"


@pytest.mark.parametrize(
    ("number", "by", "quotient"),
    [(0.003, 10, "0.0003"), (6e-4, 10, "6e-05"), (0.0003, 0.003, "0.1"), (1.2e-4, 10, "1.2e-05")],
)
def test_a_quotient_is_written_as_by_a_person(number: float, by: float, quotient: str) -> None:
    assert str(decimal_quotient(number, by)) == quotient
