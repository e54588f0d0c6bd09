# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a process in a pod sees: the kubelet's expansion of commands and variables, as an oracle.

Rules: kubernetes.io, "Define Dependent Environment Variables", and the API reference of Container
and EnvVar. `$(NAME)` becomes the value of a variable that was defined before, or stays as it is
when there is none; `$$` becomes `$`, and what follows is no reference. It applies to command, args,
values of variables and commands of exec probes. Kubernetes works on bytes and gives the byte behind
a lone `$` back as a character (third_party/forked/golang/expansion), which breaks non-ASCII text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FIELD = "<of the pod's own fields>"
"""Stands for what the kubelet takes from the pod, a secret or a config map."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """What the kubelet makes of a text."""
    raw, out, at = text.encode(), bytearray(), 0
    while at < len(raw):
        if raw[at] != ord("$") or at + 1 == len(raw):
            out.append(raw[at])
            at += 1
        elif raw[at + 1] == ord("$"):
            out += b"$"
            at += 2
        elif raw[at + 1] == ord("(") and (end := raw.find(b")", at + 2)) >= 0:
            name = raw[at + 2 : end].decode(errors="replace")
            out += variables.get(name, f"$({name})").encode()
            at = end + 1
        else:
            out += b"$" + chr(raw[at + 1]).encode()
            at += 2
    return out.decode(errors="replace")


@dataclass(frozen=True)
class Process:
    """A container as its process finds it."""

    argv: list[str]
    """Its command and arguments."""
    environment: dict[str, str]
    """Its variables."""
    image: str
    """What it runs in."""
    mounts: dict[str, str]
    """Where it sees each volume."""
    probes: list[list[str]]
    """The commands of its probes."""


def process_of(container: Mapping[str, Any], given: Mapping[str, str]) -> Process:
    """The process of a container; `given` are variables that others set before its own."""
    known = dict(given)
    for entry in container.get("env", ()):
        value = expand(entry["value"], known) if "value" in entry else FIELD
        known[entry["name"]] = value
    words = [*container.get("command", ()), *container.get("args", ())]
    probes = [container.get(name) for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    commands = [probe["exec"]["command"] for probe in probes if probe and "exec" in probe]
    return Process(
        [expand(word, known) for word in words],
        {entry["name"]: known[entry["name"]] for entry in container.get("env", ())},
        container["image"],
        {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", ())},
        [[expand(word, known) for word in command] for command in commands],
    )
