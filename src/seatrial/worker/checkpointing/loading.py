# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine is told while it loads: the step that was chosen, and nothing beside it.

And what is said of a file that is no longer what was verified.
"""

from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from seatrial.checkpoints.pickle_rules import UnsafeFileError
from seatrial.checkpoints.stopping import StopCode, StopError
from seatrial.checkpoints.verification import unreadable
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.errors import SeatrialError
from seatrial.findings import Finding

_CHANGED = (
    "Find out who writes there while the run starts. Start again: every file is verified anew, and "
    "the run goes on from the newest good checkpoint."
)


@contextmanager
def loading(told: Namespace, step: int | None) -> Iterator[None]:
    """Have the engine load a step, and end with a code that says so where it cannot.

    Args:
        told: The engine's arguments. They become a part of what is saved, and the choice must not:
            they are as before afterwards.
        step: The step that was chosen; none leaves it to the engine.
    """
    asked, beside = told.ckpt_step, told.non_persistent_ckpt_type
    # The engine prefers its non-persistent checkpoints where they are as new
    # (checkpointing.py, _load_base_checkpoint), and nothing verifies those.
    told.non_persistent_ckpt_type = None
    if step is not None:
        told.ckpt_step = step
    try:
        with refusing(str(told.load)):
            yield
    except SystemExit as end:
        # The engine ends with 0 where it cannot read its tracker or a checkpoint.
        if end.code:
            raise
        raise StopError(
            StopCode.NO_CHECKPOINT,
            f"{told.load}: the engine gave up loading. See its last lines for the reason.",
        ) from end
    finally:
        told.ckpt_step, told.non_persistent_ckpt_type = asked, beside


@contextmanager
def refusing(where: str) -> Iterator[None]:
    """Raise SeatrialError with a finding where the loader refuses a file that was verified before.

    Not final: a start verifies anew, and leaves out what is damaged.
    """
    try:
        yield
    except BaseException as error:
        finding = next(filter(None, (_finding(each, where) for each in _causes(error))), None)
        if finding is None:
            raise
        raise SeatrialError(f"{finding.code} {finding.one_line()}") from error


def _finding(error: BaseException, where: str) -> Finding | None:
    if isinstance(error, UnsafeFileError):
        said = str(error).rstrip(".")
        rule = f"a file has changed since it was verified, or never was, and is not loaded: {said}."
        return found(CheckpointCode.PICKLE, where, rule, _CHANGED)
    if isinstance(error, OSError) and str(error.filename or "").startswith(where):
        return unreadable(str(error.filename), error)
    return None


def _causes(error: BaseException) -> Iterable[BaseException]:
    """Yield an error and what led to it, on other ranks too, which torch gathers in one."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        gathered = getattr(one, "failures", None)
        others = gathered.values() if isinstance(gathered, dict) else ()
        waiting += [other for other, *_ in others]
        waiting += [one.__cause__, one.__context__]
