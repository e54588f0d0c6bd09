# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer


def examples(*commands: str) -> str:
    """Format the examples below a command's help, one per line."""
    # A line with only a backspace keeps typer from filling the paragraph.
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


SpecFile = Annotated[Path, typer.Argument(metavar="RUN.YAML", help="The run's spec.")]

Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Override spec fields for this call, such as training.tokens=10B.",
    ),
]

SpecFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN.YAML... [KEY=VALUE]...",
        help="Specs (- for standard input), then overrides for this call, such as "
        "training.tokens=10B.",
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

Kubeconfig = Annotated[
    str, typer.Option(metavar="FILE", help="The kubeconfig. Default: KUBECONFIG or ~/.kube/config.")
]

Context = Annotated[
    str, typer.Option(metavar="NAME", help="The kubeconfig context. Default: the current one.")
]

Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="The run's namespace. Default: the one in the spec or the context.",
    ),
]

Run = Annotated[str, typer.Argument(metavar="RUN|RUN.YAML", help="A run's name or spec.")]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]

HISTORY_HELP = (
    "A run's name or spec, a directory, a file (an event log, or the output of Megatron-LM or "
    "Composer), or - for standard input."
)
History = Annotated[str, typer.Argument(metavar="RUN", help=HISTORY_HELP)]

Where = Annotated[
    str,
    typer.Argument(
        metavar="RUN.YAML|DIR",
        help="A run's spec, or the location of its checkpoints: a path, s3://, abfs:// or gs://.",
    ),
]

Step = Annotated[
    int | None, typer.Option(min=0, help="The checkpoint's step. Default: the newest.")
]
