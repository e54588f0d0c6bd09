# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Addresses in messages."""

from seatrial.spec.secrets import REDACTED, looks_secret


def named(address: str) -> str:
    """An address for a message: without what looks like a secret."""
    return REDACTED if looks_secret(address, "revision") else address
