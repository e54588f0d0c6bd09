# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Settings as the words that LLM Foundry itself takes, and as the YAML that people keep.

Both mean the same: `llmfoundry train FILE NAME=VALUE...` puts the words over the file, each value
read as YAML (OmegaConf's from_cli). The worker takes words alone, so that nothing is mounted.
"""

import json
import re
from typing import Any

from seatrial.engines.engine import Arguments, ArgumentValue

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*|[0-9]+(ba|gb)")
_TAKEN = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""What a parser of YAML takes for something else than a text."""

OURS = "worker."
"""What the names of settings begin with that the worker takes for itself."""
MADE_UP = "# The data and the tokenizer are made up by Seatrial's worker before it trains."


def settings_words(arguments: Arguments) -> list[str]:
    """`model.d_model=768` for each setting, in order."""
    return [f"{name}={_flow(value)}" for name, value in arguments.items() if value is not None]


def settings_yaml(arguments: Arguments) -> str:
    """The settings as a file for `composer -c llmfoundry train FILE`.

    What is told to our worker is left out, for LLM Foundry refuses a section that it does not know.
    """
    theirs = {name: value for name, value in arguments.items() if not name.startswith(OURS)}
    made_up = [MADE_UP] if len(theirs) < len(arguments) else []
    return "\n".join([*made_up, *_lines(_nested(theirs), "")]) + "\n"


def _nested(arguments: Arguments) -> dict[str, Any]:
    """The settings by their sections."""
    tree: dict[str, Any] = {}
    for name, value in arguments.items():
        if value is None:
            continue
        *sections, last = name.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return tree


def _lines(tree: dict[str, Any], indent: str) -> list[str]:
    lines = []
    for name, value in tree.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *_lines(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{name}: {_flow(value)}")
    return lines


def _flow(value: ArgumentValue) -> str:
    """A value in one line; of an empty list nothing is needed, so that it stands for a mapping."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_flow, value))}]" if value else "{}"
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _TAKEN
        return value if plain else json.dumps(value)
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value)


def _number(value: float) -> str:
    """A number with a point: parsers of YAML 1.1 take 1e-08 for a text."""
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else text
