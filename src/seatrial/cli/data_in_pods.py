# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial data prepare --on kubernetes`: the data of a run, prepared in its cluster."""

from collections.abc import Sequence
from pathlib import Path

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.output import say, say_error, say_json, say_text
from seatrial.client import connect, load_plan
from seatrial.runs.data_on_cluster import Progress, prepare_on_cluster


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
