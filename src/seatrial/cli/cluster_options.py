# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the commands that ask a cluster, and which run they mean."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.output import say_error
from seatrial.client import connect, load_spec
from seatrial.errors import UsageError
from seatrial.naming import is_dns_label
from seatrial.runs.site import Site

Kubeconfig = Annotated[
    str, typer.Option(metavar="FILE", help="The kubeconfig; KUBECONFIG or ~/.kube/config else.")
]
"""The kubeconfig."""

Context = Annotated[
    str, typer.Option(metavar="NAME", help="The context in it; the current one when absent.")
]
"""The context in the kubeconfig."""

Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="The namespace; the spec's or context's else."
    ),
]
"""The namespace of the run."""

Run = Annotated[str, typer.Argument(metavar="RUN|RUN.YAML", help="The name of a run, or its spec.")]
"""The name of a run, or its spec."""

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
"""Do not ask."""


@dataclass(frozen=True, slots=True)
class Meant:
    """The run that a command is about."""

    name: str
    """Its name."""
    site: Site
    """Where it is."""


def meant(run: str, namespace: str, kubeconfig: str, context: str) -> Meant:
    """The run of that name, or of that spec, and where it is."""
    name = run
    if run.endswith((".yaml", ".yml")) or Path(run).is_file():
        spec = load_spec(run)
        name, namespace = spec.name, namespace or spec.cluster.namespace
    elif not is_dns_label(run):
        raise UsageError(f"{run!r} is neither a run's name nor a spec. All runs: seatrial list.")
    return Meant(name, connect(namespace, kubeconfig=kubeconfig, context=context, tell=say_error))
