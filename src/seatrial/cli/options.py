# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

NO_NEXT = "--no-next"
"""The option of `seatrial` itself by which a command that calls another says what comes next in its
place: `seatrial run`, and those with --on kubernetes."""
SpecFile = Annotated[Path, typer.Argument(metavar="RUN.YAML", help="The spec of the run.")]
"""The spec of the run."""

Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Fields to set differently for this call, such as training.tokens=10B.",
    ),
]
"""Fields to set differently for this call."""

SpecFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN.YAML... [KEY=VALUE]...",
        help="Specs, - for standard input; then fields to set differently for this call, such as "
        "training.tokens=10B.",
    ),
]
"""Specs, and fields to set differently for this call."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
"""Print JSON instead of text."""


Kubeconfig = Annotated[
    str, typer.Option(metavar="FILE", help="The kubeconfig; KUBECONFIG or ~/.kube/config else.")
]

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

Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
"""Replace the file if it exists."""

HISTORY_HELP = (
    "A run's name or spec, a directory, a file (event log, or what Megatron-LM or Composer "
    "printed), or - for standard input."
)
History = Annotated[str, typer.Argument(metavar="RUN", help=HISTORY_HELP)]
"""A run's name or spec, a directory, a file, or - for standard input."""

Where = Annotated[
    str,
    typer.Argument(
        metavar="RUN.YAML|DIR",
        help="The spec of a run, or where its checkpoints are: a path, or s3://, abfs://, gs://.",
    ),
]
"""The spec of a run, or where its checkpoints are."""
Step = Annotated[
    int | None, typer.Option(min=0, help="The checkpoint of this step; the newest when absent.")
]
"""The checkpoint of a step."""
