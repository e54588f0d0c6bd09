# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of an end of document that nothing names; without the libraries that read one."""

FILE = "tokenizer.json"


def rule_of(end: str) -> str:
    """What is wrong."""
    return (
        f"nothing beside {FILE} names the token that ends a document: data are prepared with "
        f"{end}, the only usual one that it has, and training stops, because its loader names none."
    )


def fix_of(end: str) -> str:
    """What to do about it."""
    return f'Put a tokenizer_config.json with "eos_token": "{end}" beside it.'
