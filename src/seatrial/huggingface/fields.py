# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The fields of a config.json, each of which must be read, ignored for a reason, or refused."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from seatrial.codes.huggingface import HubConfigCode, config_refusal

REQUIRED: Any = object()
"""The default of a field that a config.json must have."""

LOCAL_COPY = "Use a model without it, or describe the model with model.dimensions."


class ConfigFields:
    """Reads fields of a config.json and records which ones were read."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        """Read from `config`; messages name `where`, a file or a name on the Hub."""
        self._config = config
        self.where = where
        self.read: set[str] = set()
        self.names: dict[str, str] = {}
        """Fields by the path of the dimension that they set."""

    def has(self, name: str) -> bool:
        """True if the config.json has the field, be it `null`."""
        return name in self._config

    def take(self, name: str, default: Any = REQUIRED) -> Any:
        """Return a value; `null` counts as missing, as in transformers."""
        self.read.add(name)
        value = self._config.get(name)
        if value is not None:
            return value
        if default is REQUIRED:
            rule = f"the config.json does not state {name}."
            fix = "Use the config.json that was published with the model."
            raise config_refusal(HubConfigCode.INVALID, self.where, name, rule, fix)
        return default

    def typed(self, name: str, kind: type, default: Any = REQUIRED) -> Any:
        """Return a value of a type; an integer is accepted as a float."""
        value = self.take(name, default)
        if value is None or (value is default and name not in self._config):
            return value
        return self.convert(name, value, kind)

    def convert(self, name: str, value: Any, kind: type) -> Any:
        """Return `value` as a type, for a field that is called `name` in messages."""
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if kind is float and is_number:
            with suppress(OverflowError):
                return float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.reject(name, _KINDS[kind], value)
        return value

    def reject(self, name: str, needed: str, value: Any) -> NoReturn:
        """Refuse a value that is malformed, whatever the engine supports."""
        fix = "Use the config.json that was published with the model."
        shown = json.dumps(value, default=str)
        rule = f"{name} must be {needed}, not {_shorten(shown)}."
        raise config_refusal(HubConfigCode.INVALID, self.where, name, rule, fix, shown[:200])

    def size(self, name: str, default: Any = REQUIRED) -> int:
        """Return an integer."""
        found: int = self.typed(name, int, default)
        return found

    def flag(self, name: str, default: Any = REQUIRED) -> bool:
        """Return a boolean."""
        found: bool = self.typed(name, bool, default)
        return found

    def refuse(self, name: str, rule: str, value: Any = None, fix: str = LOCAL_COPY) -> NoReturn:
        """Refuse the value of a field for a reason, the sentence `rule`."""
        value = self._config.get(name) if value is None else value
        shown = value if isinstance(value, str) else json.dumps(value, default=str)
        rule = f"{name}: {_shorten(shown)} is not supported: {rule}"
        raise config_refusal(HubConfigCode.VALUE, self.where, name, rule, fix, shown[:200])

    def unread(self) -> list[str]:
        """Return the names of the fields that nobody read."""
        return [name for name in self._config if name not in self.read]


def _shorten(shown: str) -> str:
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"


_MOST_SHOWN = 60
"""Characters of a value in a message; the list of a field of all layers is longer."""
_KINDS = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a string",
    list: "a list",
    dict: "an object",
}
