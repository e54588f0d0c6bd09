# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of a tokenizer that training could not load; without the libraries that read one."""

FILE = "tokenizer.json"
_CLASS = ' and "tokenizer_class": "PreTrainedTokenizerFast"'
"""What a loader before transformers 5 needs too, and a later one takes."""
NO_CLASS_FIX = f'Put a tokenizer_config.json with "eos_token"{_CLASS} beside it.'


def no_class_rule(engine: str) -> str:
    """What is wrong with a tokenizer for an engine of that title."""
    return f"nothing beside {FILE} names a class that loads it, and {engine}'s loader wants one."


def rule_of(end: str) -> str:
    return (
        f"nothing beside {FILE} names the token that ends a document: data are prepared with "
        f"{end}, the only usual one that it has, and training stops, because its loader names none."
    )


def fix_of(end: str) -> str:
    """What to do about it."""
    return f'Put a tokenizer_config.json with "eos_token": "{end}"{_CLASS} beside it.'
