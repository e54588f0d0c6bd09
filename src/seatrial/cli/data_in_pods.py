# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial data prepare --on kubernetes`: the data of a run, prepared in its cluster."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.output import say, say_error, say_json, say_text
from seatrial.client import connect, load_plan
from seatrial.errors import UsageError
from seatrial.runs.data_on_cluster import Progress, prepare_on_cluster
from seatrial.runs.reader import read_inside


def prepare_in_pods(
    file: Path, overrides: Sequence[str], kubeconfig: str, context: str, *, as_json: bool
) -> None:
    """Prepare in pods, and say what came of it."""
    catalog = default_catalog()
    loaded, plan = load_plan(file, overrides, catalog, tell=say_error)
    namespace = plan.spec.cluster.namespace
    site = connect(namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    last = ""

    def tell(progress: Progress) -> None:
        nonlocal last
        text = f"{progress.step}: {progress.done:,} of {progress.tasks:,} done"
        if text != last and not as_json:
            say_error(text)
        last = text

    made = prepare_on_cluster(site, plan, catalog, loaded.where, tell)
    if as_json:
        say_json(made)
        return
    where = made.get("address") or plan.data_location
    tokens = f", {made['tokens']:,} tokens" if isinstance(made.get("tokens"), int) else ""
    say_text(f"Prepared {plan.spec.name} in {namespace}: {where}{tokens}.", rest="  ")
    say(f"next  seatrial launch {file}")


def read_in_pod(
    command: str,
    where: str,
    overrides: Sequence[str],
    words: Sequence[str],
    kubeconfig: str,
    context: str,
) -> NoReturn:
    """Run `seatrial data verify` or `inspect` where the data are, and end as it ends."""
    if not where.endswith((".yaml", ".yml")):
        raise UsageError(
            "--on kubernetes needs the spec of the run, which says where its data are."
        )
    catalog = default_catalog()
    _, plan = load_plan(where, overrides, catalog, tell=say_error)
    namespace = plan.spec.cluster.namespace
    site = connect(namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    line = ["data", command, plan.data_location, *words]
    raise typer.Exit(read_inside(site, plan, catalog, line, say))
