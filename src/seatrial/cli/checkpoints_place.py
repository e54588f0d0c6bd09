# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which checkpoint a command speaks of: a spec or an address, and a step."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from seatrial.checkpoints.inventory import Checkpoint, State, checkpoints, look
from seatrial.checkpoints.naming import step_of
from seatrial.checkpoints.place import Place, place_at
from seatrial.client import plan, refuse_secret
from seatrial.errors import UsageError

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


ELSEWHERE = "If the run's volume is on a cluster, give its spec and --on kubernetes."
"""Why a host may see no checkpoints of a run that has some."""


def is_spec(where: str) -> bool:
    """Whether a word names a spec and not a place."""
    return where.endswith((".yaml", ".yml")) and "://" not in where


def place_of(where: str, overrides: Sequence[str]) -> Place:
    """Where the checkpoints of a spec, or of an address, are."""
    refuse_secret(where)
    if is_spec(where):
        return place_at(plan(Path(where), overrides).checkpoint_location)
    if overrides:
        raise UsageError(f"{overrides[0]} changes a spec, and {where} is none.")
    return place_at(where)


def checkpoint_at(place: Place, step: int | None) -> Checkpoint:
    """The checkpoint of a step, or the newest committed one."""
    if step is not None:
        named = [name for name in place.directories() if step_of(name) == step]
        if not named:
            raise UsageError(f"{place.address} has no checkpoint of step {step:,}.")
        return look(place, named[0])
    passed_by = 0
    for one in checkpoints(place):
        if one.state is State.COMMITTED:
            return one
        passed_by += 1
    if passed_by:
        raise UsageError(
            f"{place.address} has no checkpoint to use: each of its {passed_by:,} is torn "
            f"or damaged. `seatrial checkpoints verify {place.address}` says how."
        )
    raise UsageError(f"{place.address} has no committed checkpoint. {ELSEWHERE}")
