# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Commands, and escaping of text that the kubelet expands.

The kubelet replaces `$(NAME)` with the variable's value and `$$` with `$`, in commands, arguments,
variables and probe commands. Text from a spec must survive this unchanged. So text and references
are different types here, and only this module writes the kubelet's syntax.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

PYTHON = "python3"


@dataclass(frozen=True, slots=True)
class Reference:
    """A container variable whose value the kubelet inserts into the command."""

    name: str


Argument = str | tuple[str | Reference, ...]
"""An argument of a process: a text, or a sequence of texts and references to concatenate."""
Option = Argument | int
"""The value of an option; True for a flag."""


def escape(text: str) -> str:
    """Return the text in a form that the kubelet expands to exactly this text.

    Every `$` is doubled, not only the one of `$(`: the kubelet reduces each `$$` to `$`, and a
    single `$` before a non-ASCII character makes it break that character apart.
    """
    return text.replace("$", "$$")


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments, in separate forms for a container and for this host."""

    program: str = PYTHON
    module: str = ""
    """The Python module to run; empty if the program is not Python."""
    words: tuple[str, ...] = ()
    """Arguments before the options, such as a subcommand."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """Options by name, in order."""
    rest: tuple[Argument, ...] = ()
    """Arguments after the options."""

    def in_container(self) -> list[str]:
        """Return the command for a container's `command` field."""
        return [_joined(argument) for argument in self._arguments()]

    def on_host(self) -> tuple[str, ...]:
        """Return the command for a process on this host, without escaping."""
        plain: list[str] = []
        for argument in self._arguments():
            if not isinstance(argument, str):
                raise TypeError("a reference needs a kubelet, and this command runs on the host")
            plain.append(argument)
        return tuple(plain)

    def _arguments(self) -> Iterator[Argument]:
        yield self.program
        if self.module:
            yield from ("-m", self.module)
        yield from self.words
        for name, value in self.options.items():
            yield _option(name, value)
        yield from self.rest


def _option(name: str, value: Option) -> Argument:
    if value is True:
        return f"--{name}"
    return (f"--{name}=", *value) if isinstance(value, tuple) else f"--{name}={value}"


def _joined(argument: Argument) -> str:
    parts = (argument,) if isinstance(argument, str) else argument
    return "".join(
        f"$({part.name})" if isinstance(part, Reference) else escape(part) for part in parts
    )
