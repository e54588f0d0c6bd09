# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which history the commands that show one mean."""

import sys
from typing import Annotated, cast

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.output import say_error
from seatrial.client import connect
from seatrial.monitoring.logs.reading import ByteStream
from seatrial.runs.find_history import Places, find_history
from seatrial.runs.history import RunHistory
from seatrial.runs.site import Site

History = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's name or spec, a directory, a file (event log, or what Megatron-LM or "
        "Composer printed), or - for standard input.",
    ),
]
"""A run's name or spec, a directory, a file, or - for standard input."""


def history_of(
    run: str, namespace: str, kubeconfig: str, context: str, *, live: bool = False
) -> RunHistory:
    """The history that a command line means; `live` reads standard input as it comes."""

    def site(of_spec: str) -> Site:
        chosen = namespace or of_spec
        return connect(chosen, kubeconfig=kubeconfig, context=context, tell=say_error)

    places = Places(
        default_catalog(),
        cast("ByteStream", sys.stdin.buffer),
        site,
        only_cluster=bool(namespace or kubeconfig or context),
        live=live,
    )
    return find_history(run, places)
