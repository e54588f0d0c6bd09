# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial doctor`: what is installed, what is missing for which command, how to get it."""

import platform
import sys
from dataclasses import asdict

import typer

from seatrial.cli.installed import IN_WORKER, Part, kubeconfig, needs, parts
from seatrial.cli.output import say, say_json, say_text
from seatrial.cli.parameters import Json
from seatrial.cli.tables import name, say_table, text
from seatrial.rehearsal.worker_process import WORKER_PYTHON
from seatrial.version import VERSION

app = typer.Typer(rich_markup_mode=None, add_completion=False)

COLUMNS = (name("part"), text("state"), text("needed for"))


@app.command()
def command(as_json: Json = False) -> None:
    """Show what of Seatrial is installed, which command needs what is missing, how to get it.

    Asks no network. Whether a cluster answers is for `seatrial check --cluster` to say.
    """
    found, cluster = parts(needs()), kubeconfig()
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
    say_table(COLUMNS, [core, *((part.extra, _state(part), part.needed_for) for part in found)])
    say()
    for where in dict.fromkeys(part.where for part in found if part.where):
        say_text(f"The worker's environment is that of {where}.")
    _say_cluster(str(cluster) if cluster else "")
    _say_remedy(found)


def _state(part: Part) -> str:
    """How it is, in words."""
    if part.is_ready:
        return "ready"
    absent = f"missing: {', '.join(part.missing)}" if part.missing else ""
    return "; ".join(filter(None, (absent, *part.other_versions)))


def _say_cluster(file: str) -> None:
    if file:
        say_text(f"Clusters are reached by {file}.")
    else:
        say_text(
            "There is no file that says how to reach a cluster (KUBECONFIG, ~/.kube/config): "
            "commands that ask one will say so. Plan, check, render and rehearse need none."
        )


def _say_remedy(found: tuple[Part, ...]) -> None:
    """The command that installs what is missing; the engine may have an environment of its own."""
    lacking = [part for part in found if not part.is_ready]
    here = [part.extra for part in lacking if part.extra not in IN_WORKER]
    if here:
        say(f"To have all commands here: pip install 'seatrial[{','.join(here)}]'")
    there = [part.extra for part in lacking if part.extra in IN_WORKER]
    if there:
        say_text(
            "What trains brings torch. Install it into this environment, or into one of its own "
            f"whose Python {WORKER_PYTHON} names: pip install 'seatrial[{','.join(there)}]'"
        )
    if not lacking:
        say("Nothing is missing. A first run: seatrial init.")
