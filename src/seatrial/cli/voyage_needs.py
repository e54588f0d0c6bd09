# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the steps of a voyage need to be installed: asked for before the first, not at the fifth."""

import re
from collections.abc import Callable, Iterable, Sequence

from seatrial.cli.page.page import plotting_library
from seatrial.cli.voyage import Step, is_here
from seatrial.client import require_data_extra
from seatrial.engines.registry import ENGINES
from seatrial.errors import MissingExtraError
from seatrial.planning.plan import Plan
from seatrial.rehearsal.worker_process import worker_python
from seatrial.runs.clusters import require_cluster_extra

INSTALLS = re.compile(r"pip install '\.\[([a-z]+)\]'")
"""How a message says which extra is missing."""


def require_all(ahead: Sequence[Step], plan: Plan) -> None:
    """Refuse to begin where a step ahead needs what is not installed; says so for all of them."""
    asked = _asked(plan)
    lacking: dict[str, list[str]] = {}
    for step in ahead:
        try:
            asked.get(step.name, _nothing)()
        except MissingExtraError as error:
            lacking.setdefault(str(error), []).append(step.name)
    if lacking:
        raise MissingExtraError(
            "not every step has what it needs, so none was begun.\n"
            + "".join(f"{', '.join(names)}: {what}\n" for what, names in lacking.items())
            + _at_once(lacking)
            + "--until STEP walks as far as a step."
        )


def _at_once(messages: Iterable[str]) -> str:
    """One command for what several messages ask for, so that nobody has to install thrice."""
    extras = list(dict.fromkeys(extra for text in messages for extra in INSTALLS.findall(text)))
    if len(extras) < 2:
        return ""
    return f"All at once, in a checkout of Seatrial: pip install '.[{','.join(extras)}]'\n"


def _asked(plan: Plan) -> dict[str, Callable[[], object]]:
    """For each step that needs an extra, what raises without it."""

    def engine() -> None:
        worker_python(ENGINES[plan.spec.engine.name])

    here = is_here(plan)
    place = require_data_extra if here else require_cluster_extra
    return {
        "data": place,
        "check": place,
        "rehearse": engine,
        "launch": engine if here else require_cluster_extra,
        "verify": _nothing if here else require_cluster_extra,
        "export": engine if here else require_cluster_extra,
        "report": plotting_library,
    }


def _nothing() -> None:
    """A step that needs no extra."""
