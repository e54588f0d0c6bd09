# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Text that the kubelet expands: the commands and the environment of a container.

The kubelet replaces `$(NAME)` by the variable's value and `$$` by `$`, in commands, arguments,
values of variables and commands of probes. Whatever comes from a spec must survive that unchanged,
so text and references are different types here, and only this module writes the kubelet's form.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reference:
    """A variable of the container whose value the kubelet puts into the command."""

    name: str


Argument = str | tuple[str | Reference, ...]
"""An argument as the process sees it: a text, or texts and references that are joined."""


def escape(text: str) -> str:
    """Return the text in a form that the kubelet expands to exactly this text.

    Every `$` is doubled, not only the one of `$(`: the kubelet reduces each `$$` to `$`, and a
    single `$` before a non-ASCII character makes it break that character apart.
    """
    return text.replace("$", "$$")


def container_command(arguments: Iterable[Argument]) -> list[str]:
    """Return the arguments as a container's `command` field has them."""
    return [_joined(argument) for argument in arguments]


def host_command(arguments: Iterable[Argument]) -> list[str]:
    """Return the arguments for a process of this host, where nothing is expanded."""
    plain: list[str] = []
    for argument in arguments:
        if not isinstance(argument, str):
            raise TypeError("no kubelet resolves a reference on this host")
        plain.append(argument)
    return plain


def _joined(argument: Argument) -> str:
    parts = (argument,) if isinstance(argument, str) else argument
    return "".join(
        f"$({part.name})" if isinstance(part, Reference) else escape(part) for part in parts
    )
