# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which history the commands that show one mean."""

import io
import sys
from typing import Annotated, cast

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.cluster_options import connect_to_look
from seatrial.cli.output import say_error
from seatrial.client import connect
from seatrial.errors import UsageError
from seatrial.monitoring.logs.reading import ByteStream
from seatrial.runs.find_history import STDIN, Places, find_history
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


def standard_input(run: str) -> ByteStream:
    """Standard input where a command line means it; nothing else looks at it, closed or not."""
    if run != STDIN:
        return io.BytesIO()
    # Python has none where a command was started with a closed one.
    if sys.stdin is None:
        raise UsageError("- is standard input, which is closed. Give a file, or pipe the log in.")
    return cast("ByteStream", sys.stdin.buffer)


def history_of(
    run: str,
    namespace: str,
    kubeconfig: str,
    context: str,
    *,
    live: bool = False,
    stdin: ByteStream | None = None,
) -> RunHistory:
    """The history that a command line means; `live` reads standard input as it comes."""

    def site(of_spec: str) -> Site:
        chosen = namespace or of_spec
        if not live:
            return connect_to_look(chosen, kubeconfig, context)
        return connect(chosen, kubeconfig=kubeconfig, context=context, tell=say_error)

    places = Places(
        default_catalog(),
        stdin or standard_input(run),
        site,
        only_cluster=bool(namespace or kubeconfig or context),
        live=live,
    )
    return find_history(run, places)
