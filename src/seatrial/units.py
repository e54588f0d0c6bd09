# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read and format counts and sizes: `150B`, `16Ti`."""

import re
from decimal import Decimal

_COUNT_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_BYTE_FACTORS = {
    "": 1,
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", start=1)},
    **{letter: 1000**power for power, letter in enumerate("KMGTP", start=1)},
}

_COUNT = re.compile(r"(\d[\d_]*(?:\.\d+)?)\s*([kmbgtKMBGT]?)")
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*((?:[KMGTP]i?)?)B?")


def parse_count(text: str) -> int:
    """Read a count such as `150B`, `1.5T`, `2_000` or `100k`."""
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a count such as 1500, 100k, 2.5M, 150B or 1.5T")
    return _whole(match[1].replace("_", ""), _COUNT_FACTORS[match[2].lower()], text)


def parse_bytes(text: str) -> int:
    """Read a size such as `16Ti`, `1.2TiB`, `500G` or `1024`."""
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 500Gi, 16Ti or 2T")
    return _whole(match[1], _BYTE_FACTORS[match[2]], text)


def _whole(number: str, factor: int, text: str) -> int:
    """Multiply exactly, in integers, and reject a result that is not whole."""
    before, _, after = number.partition(".")
    unit: int = 10 ** len(after)
    product, rest = divmod(int(before + after) * factor, unit)
    if rest:
        raise ValueError(f"{text!r} is not a whole number")
    return product


def decimal_quotient(number: float, by: float) -> float:
    """Divide in decimal arithmetic: 0.003 / 10 is 0.0003, not 0.00030000000000000003."""
    return float(Decimal(repr(number)) / Decimal(repr(by)))


def format_count(number: int) -> str:
    """Format a count: `7.47 B`, `51.2 k`, `950`."""
    for factor, suffix in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {suffix}" if number < 1000 * factor else f"{number:,}"
    return str(number)


def format_bytes(size: int) -> str:
    """Format a size in powers of 1024: `2.2 TiB`."""
    value = float(size)
    for suffix in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            return f"{value:.3g} {suffix}"
        value /= 1024
    return f"{value:.3g} PiB"
