# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A call of every command, and a directory in which each of them has something to work on."""

import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from seatrial.cli.main import COMMANDS
from tests.conftest import SPEC
from tests.unit.dataprep.little_corpus import write_corpus

LOG = Path(__file__).parents[2] / "data/logs/megatron-0.19.log"
CALLS: dict[str, tuple[str, ...]] = {
    "init": ("new.yaml", "--model", "llama3-8b"),
    "validate": ("run.yaml",),
    "plan": ("run.yaml",),
    "check": ("run.yaml",),
    "data prepare": ("corpus/run.yaml", "--workers", "1"),
    "data estimate": ("corpus/run.yaml",),
    "data verify": ("corpus/run.yaml",),
    "data inspect": ("corpus/run.yaml",),
    "rehearse": ("run.yaml",),
    "site": ("run.yaml",),
    "images list": ("run.yaml",),
    "images save": ("run.yaml", "--tool", "nothing"),
    "images build": ("worker-data",),
    "images push": ("images", "--to", "registry.example.com", "--tool", "nothing"),
    "render": ("run.yaml",),
    "launch": ("run.yaml",),
    "sweep": ("run.yaml", "--plan"),
    "status": ("run.yaml",),
    "logs": ("run.yaml",),
    "watch": ("a.log", "--once"),
    "report": ("a.log",),
    "diagnose": ("a.log",),
    "wait": ("run.yaml",),
    "list": (),
    "stop": ("run.yaml",),
    "delete": ("run.yaml", "--yes"),
    "forward": ("run.yaml",),
    "checkpoints list": ("run.yaml",),
    "checkpoints verify": ("run.yaml",),
    "checkpoints prune": ("run.yaml",),
    "checkpoints resume-verdict": ("run.yaml",),
    "checkpoints pin": ("run.yaml",),
    "checkpoints copy": ("run.yaml", "elsewhere"),
    "checkpoints export": ("run.yaml", "--to", "weights"),
    "checkpoints try": ("corpus", "Once"),
    "checkpoints import": ("corpus", "--to", "start"),
    "calibrate": ("run.yaml", "--seconds", "12.1,12.3,12.2"),
    "spec upgrade": ("run.yaml",),
    "engines list": (),
    # It would fetch gigabytes; a name that there is not shows how it refuses.
    "engines install": ("megatron",),
    "engines settings": ("run.yaml",),
    "schema": (),
    "catalog list": ("models",),
    "catalog show": ("models", "gpt3-7.5b"),
    "catalog check": (),
    "run": ("run.yaml", "--until", "rules"),
    "doctor": (),
    "explain": ("ST-BATCH-002",),
    "recipes list": (),
    "recipes show": ("aks-mpt-125m",),
    "recipes copy": ("aks-mpt-125m", "mine.yaml"),
}
"""What stands behind the names of each command."""
TAKES_SPEC = [name for name, words in CALLS.items() if words and words[0].endswith("run.yaml")]
DOCUMENTS = frozenset(
    (
        *("schema", "site", "images list", "render", "recipes show", "catalog show"),
        *("engines settings", "watch", "logs", "diagnose"),
    )
)
"""Commands whose output is a document, or ends in what to do; they name no next command there."""

NEEDS_MORE = frozenset(
    (
        *("launch", "status", "logs", "wait", "list", "stop", "delete", "forward"),
        *("rehearse", "checkpoints export", "checkpoints import", "engines install"),
        *("data verify", "data inspect", "checkpoints verify", "checkpoints resume-verdict"),
        *("checkpoints pin", "checkpoints copy", "checkpoints try", "sweep"),
        *("images save", "images build", "images push"),
    )
)
"""Commands that need a cluster, an engine, prepared data or a checkpoint, and are refused here."""


def leaves() -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its names."""
    for name in COMMANDS:
        app: typer.Typer = import_module(f"seatrial.cli.{name}").app
        yield from _below(name, typer.main.get_command(app))


def _below(names: str, command: Any) -> Iterator[tuple[str, Any]]:
    children: dict[str, Any] = getattr(command, "commands", {})
    for name, child in children.items():
        yield from _below(f"{names} {name}", child)
    if not children:
        yield names, command


def furnish(directory: Path) -> None:
    """Give every command something to work on."""
    (directory / "run.yaml").write_text(SPEC, encoding="utf-8")
    shutil.copyfile(LOG, directory / "a.log")
    (directory / "corpus").mkdir()
    write_corpus(directory / "corpus")


def refurnish(template: Path, directory: Path) -> None:
    """The same in another directory; the paths in the spec of the corpus move along."""
    shutil.copytree(template, directory, dirs_exist_ok=True)
    spec = directory / "corpus/run.yaml"
    spec.write_text(
        spec.read_text(encoding="utf-8").replace(str(template), str(directory)), encoding="utf-8"
    )
