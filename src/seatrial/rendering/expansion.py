# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Commands, and text that the kubelet expands: arguments and variables of a container.

The kubelet replaces `$(NAME)` by the variable's value and `$$` by `$`, in commands, arguments,
values of variables and commands of probes. Whatever comes from a spec must survive that unchanged,
so text and references are different types here, and only this module writes the kubelet's form.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

PYTHON = "python3"


@dataclass(frozen=True, slots=True)
class Reference:
    """A variable of the container whose value the kubelet puts into the command."""

    name: str


Argument = str | tuple[str | Reference, ...]
"""An argument as the process sees it: a text, or texts and references that are joined."""
Option = Argument | int
"""The value of an option; True for a switch."""


def escape(text: str) -> str:
    """Return the text in a form that the kubelet expands to exactly this text.

    Every `$` is doubled, not only the one of `$(`: the kubelet reduces each `$$` to `$`, and a
    single `$` before a non-ASCII character makes it break that character apart.
    """
    return text.replace("$", "$$")


@dataclass(frozen=True, slots=True)
class Command:
    """A program with what it is told; a container and this host each have their own form of it."""

    program: str = PYTHON
    module: str = ""
    """The module of Python to run; empty if the program is another one."""
    words: tuple[str, ...] = ()
    """What stands before the options, such as a subcommand."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """The options by their names, in order."""
    rest: tuple[Argument, ...] = ()
    """What stands behind the options."""

    def in_container(self) -> list[str]:
        """Return the command as a container's `command` field has it."""
        return [_joined(argument) for argument in self._arguments()]

    def on_host(self) -> tuple[str, ...]:
        """Return the command for a process of this host, where nothing is expanded."""
        plain: list[str] = []
        for argument in self._arguments():
            if not isinstance(argument, str):
                raise TypeError("no kubelet resolves a reference on this host")
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
