# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial doctor`: what is installed, what is missing for which command, how to get it."""

import platform
import sys
from dataclasses import asdict

import typer

from seatrial.cli.installed import (
    IN_WORKER,
    LLM_FOUNDRY,
    Part,
    kubeconfig,
    needs,
    parts,
    second_engine,
)
from seatrial.cli.output import counted, say, say_json, say_text
from seatrial.cli.parameters import Json
from seatrial.cli.tables import name, say_table, text
from seatrial.rehearsal.worker_process import WORKER_PYTHON
from seatrial.version import VERSION

app = typer.Typer(rich_markup_mode=None, add_completion=False)

COLUMNS = (name("part"), text("state"), text("needed for"))
ON_THIS_HOST = ("data", "watch", "report", "worker")
"""The extras with which a run goes all the way on this host."""
WIDTH = 80
"""The width where no terminal has one: this page is read, not searched."""


@app.command()
def command(as_json: Json = False) -> None:
    """Show what of Seatrial is installed, which command needs what is missing, how to get it.

    Asks no network. Whether a cluster answers is for `seatrial check --cluster` to say.
    """
    extras, other, cluster = parts(needs()), second_engine(), kubeconfig()
    # Below the worker, which is the other engine's.
    below = [part.extra for part in extras].index("worker") + 1
    found = (*extras[:below], other, *extras[below:])
    if as_json:
        say_json(
            {
                "version": VERSION,
                "python": platform.python_version(),
                "executable": sys.executable,
                "kubeconfig": str(cluster) if cluster else None,
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
        _say(f"The worker's environment is that of {where}.")
    if other.where:
        _say(f"{LLM_FOUNDRY.title}'s environment is that of {other.where}.")
    _say_cluster(str(cluster) if cluster else "")
    _say_remedy(extras, other)


def _state(part: Part) -> str:
    """How it is, in words."""
    counts = {"missing": len(part.missing), "of another version": len(part.other_versions)}
    return ", ".join(f"{counted(n, 'package')} {how}" for how, n in counts.items() if n) or "ready"


def _say_missing(part: Part) -> None:
    """What an extra lacks, below the table: it can be a dozen packages."""
    if part.missing:
        _say(f"Missing for {part.extra}: {', '.join(part.missing)}.", rest="  ")
    for words in part.other_versions:
        _say(f"For {part.extra}: {words}.", rest="  ")


def _say(words: str, rest: str = "") -> None:
    say_text(words, rest=rest, width=WIDTH)


def _say_cluster(file: str) -> None:
    if file:
        _say(f"Clusters are reached by {file}.")
    else:
        _say(
            "There is no file that says how to reach a cluster (KUBECONFIG, ~/.kube/config): "
            "commands that ask one will say so. Plan, check, render and rehearse need none."
        )


def _say_remedy(found: tuple[Part, ...], other: Part) -> None:
    """The command that installs what is missing; the engine may have an environment of its own."""
    lacking = [part for part in found if not part.is_ready]
    names = {part.extra for part in lacking}
    if names.intersection(ON_THIS_HOST):
        wanted = ",".join(extra for extra in ON_THIS_HOST if extra in names)
        _say("For runs on this host alone, without a cluster, in a checkout of Seatrial:")
        say(f"  pip install '.[{wanted}]'")
    here = [part.extra for part in lacking if part.extra not in IN_WORKER]
    if here:
        _say("To have all commands here, in a checkout of Seatrial:")
        say(f"  pip install '.[{','.join(here)}]'")
    there = [part.extra for part in lacking if part.extra in IN_WORKER]
    if there:
        _say(
            "What trains brings torch. Install it into this environment, or into one of its own "
            f"whose Python {WORKER_PYTHON} names:"
        )
        say(f"  pip install '.[{','.join(there)}]'")
    if not other.is_ready:
        _say(f"For specs of {LLM_FOUNDRY.title}, which needs an environment of its own:")
        say(f"  {LLM_FOUNDRY.installation.command}")
    if not lacking and other.is_ready:
        say("Nothing is missing.")
    say("next  seatrial init")
