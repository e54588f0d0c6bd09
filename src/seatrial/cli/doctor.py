# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial doctor`: which extras are installed, and which commands need them."""

import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict

import typer

from seatrial.cli.options import Json, examples
from seatrial.reports.tables import name, say_table, text
from seatrial.reports.terminal import counted, say, say_json, say_text
from seatrial.sdk.doctor import (
    IN_WORKER,
    SECOND,
    WORKER_PYTHON,
    Installation,
    InstalledPart,
    doctor,
)
from seatrial.version import VERSION

app = typer.Typer(rich_markup_mode=None, add_completion=False)

COLUMNS = (name("part"), text("state"), text("needed for"))
ON_THIS_HOST = ("data", "watch", "report", "worker")
"""The extras that a complete run on this host needs."""
WIDTH = 80
"""The width without a terminal."""


@app.command(epilog=examples("seatrial doctor", "seatrial doctor --json"))
def command(as_json: Json = False) -> None:
    """Show what is installed, what is missing, and how to install it.

    Works offline. To test the connection to a cluster, use `seatrial check --cluster`.
    """
    host = doctor()
    extras, other, cluster = host.extras, host.second_engine, host.kubeconfig
    # Below the worker, which is the other engine.
    below = [part.extra for part in extras].index("worker") + 1
    found = (*extras[:below], other, *extras[below:])
    if as_json:
        say_json(
            {
                "version": VERSION,
                "python": platform.python_version(),
                "executable": sys.executable,
                "kubeconfig": str(cluster) if cluster else None,
                "gpus": list(host.gpus),
                "transformer_engine": host.transformer_engine or None,
                "parts": [asdict(part) | {"is_ready": part.is_ready} for part in found],
            }
        )
        return
    say(f"seatrial {VERSION}, Python {platform.python_version()}, {platform.platform(terse=True)}")
    say()
    core = ("core", "ready", "init, validate, plan, check, render, catalog, recipes, explain")
    rows = [(part.extra, _state(part), part.needed_for) for part in found]
    say_table(COLUMNS, [core, *rows], WIDTH)
    say()
    for part in found:
        _say_missing(part)
    for where in dict.fromkeys(part.where for part in extras if part.where):
        _say(f"The worker uses {where}.")
    if other.where:
        _say(f"{SECOND.title} uses {other.where}.")
    _say_gpus(host)
    _say_cluster(str(cluster) if cluster else "")
    _say_remedy(extras, other)


def _state(part: InstalledPart) -> str:
    counts = {"missing": len(part.missing), "unsupported": len(part.other_versions)}
    return ", ".join(f"{counted(n, 'package')} {how}" for how, n in counts.items() if n) or "ready"


def _say_missing(part: InstalledPart) -> None:
    """List what an extra lacks, below the table: it can be a dozen packages."""
    if part.missing:
        _say(f"Missing for {part.extra}: {', '.join(part.missing)}.", rest="  ")
    for words in part.other_versions:
        _say(f"For {part.extra}: {words}.", rest="  ")


def _say(words: str, rest: str = "") -> None:
    say_text(words, rest=rest, width=WIDTH)


def _say_cluster(file: str) -> None:
    if file:
        _say(f"Kubeconfig: {file}.")
    else:
        _say(
            "No kubeconfig found (KUBECONFIG, ~/.kube/config). Only cluster commands need one; "
            "plan, check, render and rehearse do not."
        )


def _say_remedy(found: tuple[InstalledPart, ...], other: InstalledPart) -> None:
    """Print the commands that install the missing extras, each command once."""
    lacking = [part for part in found if not part.is_ready]
    remedies: dict[str, str] = {}
    whole = [e for e in ON_THIS_HOST if any(p.extra == e and not p.where for p in lacking)]
    for words, extras, python in (
        (
            "To run everything on this host, without a cluster (in a Seatrial checkout):",
            whole,
            "",
        ),
        (
            "To install the dependencies of every command (in a Seatrial checkout):",
            [part.extra for part in lacking if part.extra not in IN_WORKER],
            "",
        ),
        (
            _worker_words([part for part in lacking if part.extra in IN_WORKER]),
            [part.extra for part in lacking if part.extra in IN_WORKER],
            next((part.where for part in lacking if part.where), ""),
        ),
    ):
        pip = f"{python} -m pip" if python else "pip"
        if extras:
            remedies.setdefault(f"  {pip} install '.[{','.join(extras)}]'", words)
    for command_line, words in remedies.items():
        _say(words)
        say(command_line)
    if not other.is_ready:
        _say(f"To use {SECOND.title}, which needs its own environment:")
        say(f"  {SECOND.installation.command}")
    if not lacking and other.is_ready:
        say("Everything is installed.")
    say("next  seatrial init")


def _worker_words(lacking: Sequence[InstalledPart]) -> str:
    """Introduce the command that completes the worker's environment."""
    if any("torch" in part.missing for part in lacking):
        return (
            "The worker needs torch. Install it here, or in a separate environment and set "
            f"{WORKER_PYTHON} to its Python:"
        )
    return "To complete the worker's environment (in a Seatrial checkout):"


def _say_gpus(host: Installation) -> None:
    """Print the GPUs of this host, and whether the worker can use them."""
    if not host.gpus:
        return
    _say(f"GPUs of this host: {len(host.gpus)} × {host.gpus[0]}.")
    if host.transformer_engine:
        _say(f"The worker has Transformer Engine {host.transformer_engine}.")
        return
    _say(
        "Transformer Engine is missing in the worker's environment. Runs on GPUs need it: train in "
        "an image that includes it (cluster.container=docker), or install it there."
    )
