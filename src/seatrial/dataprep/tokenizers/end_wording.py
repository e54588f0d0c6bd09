# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Messages about a tokenizer that training cannot load; imports no tokenizer library."""

FILE = "tokenizer.json"
_CLASS = ' and "tokenizer_class": "PreTrainedTokenizerFast"'
"""Needed by loaders before transformers 5; later ones accept it."""
NO_CLASS_FIX = f'Put a tokenizer_config.json with "eos_token"{_CLASS} next to it.'


def no_class_rule(engine: str) -> str:
    """Describe a tokenizer without a class for an engine whose loader needs one."""
    return f"no file next to {FILE} names its tokenizer class, which {engine}'s loader needs."


def rule_of(end: str) -> str:
    return (
        f"no file next to {FILE} names the end-of-document token. seatrial data prepare uses "
        f"{end}, the only well-known end-of-document token in the vocabulary, but training would "
        "fail, because its tokenizer loader finds none."
    )


def fix_of(end: str) -> str:
    return f'Put a tokenizer_config.json with "eos_token": "{end}"{_CLASS} next to it.'
