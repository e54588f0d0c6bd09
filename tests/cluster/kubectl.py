# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""kubectl and helm, as a user runs them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.cluster.building import program
from tests.cluster.daemon import plain_environment

LONGEST_SECONDS = 420
"""What one command may take: none waits longer than 300 s for what it asks."""


class CommandError(RuntimeError):
    """A command that failed, with what it printed."""


def kubectl(*arguments: str, kubeconfig: Path | None = None, given: str | None = None) -> str:
    """What kubectl prints; `given` is its input."""
    # Of the environment's lock, beside its Python.
    return run([str(Path(sys.executable).with_name("kubectl")), *arguments], kubeconfig, given)


def helm(*arguments: str, kubeconfig: Path | None = None) -> str:
    """What helm prints."""
    return run([str(program("helm")), *arguments], kubeconfig)


def run(argv: list[str], kubeconfig: Path | None, given: str | None = None) -> str:
    """What a command prints; CommandError when it fails."""
    # Without an address nothing may be reached by accident.
    environment = {**plain_environment(), "KUBECONFIG": str(kubeconfig or os.devnull)}
    name = Path(argv[0]).name
    try:
        done = subprocess.run(
            argv,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{name} {' '.join(argv[1:])}: {error}") from None
    if done.returncode:
        raise CommandError(f"{name} {' '.join(argv[1:])}: {done.stderr}{done.stdout}")
    return done.stdout


def yaml_objects(text: str) -> list[dict[str, Any]]:
    """The objects of a YAML text."""
    return [found for found in YAML(typ="safe").load_all(text) if found]
