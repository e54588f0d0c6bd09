# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

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
