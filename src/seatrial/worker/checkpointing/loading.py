# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Make the engine load exactly the selected step.

Also reports files that have changed since they were verified.
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
    "Find out which process writes to this location while the run starts. Then start the run "
    "again: Seatrial verifies every file and resumes from the newest valid checkpoint."
)


@contextmanager
def loading(engine_args: Namespace, step: int | None) -> Iterator[None]:
    """Make the engine load a step. Raise an error with a final exit code if it cannot load it.

    Args:
        engine_args: The engine's arguments. They are restored afterwards, because every checkpoint
            contains them, and the selected step must not be part of a checkpoint.
        step: The selected step; None leaves the choice to the engine.
    """
    requested, kind = engine_args.ckpt_step, engine_args.non_persistent_ckpt_type
    # The engine prefers its non-persistent checkpoints if they are as new
    # (checkpointing.py, _load_base_checkpoint), but they are not verified.
    engine_args.non_persistent_ckpt_type = None
    if step is not None:
        engine_args.ckpt_step = step
    try:
        with refusing(str(engine_args.load)):
            yield
    except SystemExit as end:
        # The engine exits with 0 if it cannot read its tracker or a checkpoint.
        if end.code:
            raise
        raise StopError(
            StopCode.NO_CHECKPOINT,
            f"{engine_args.load}: the engine could not load a checkpoint. See the engine's output "
            "above.",
        ) from end
    finally:
        engine_args.ckpt_step, engine_args.non_persistent_ckpt_type = requested, kind


@contextmanager
def refusing(where: str) -> Iterator[None]:
    """Raise SeatrialError with a finding if the loader rejects a file that was already verified.

    The error is not final: the next start verifies again and skips damaged checkpoints.
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
        reason = str(error).rstrip(".")
        rule = (
            f"a file was rejected that changed after verification, or was never verified: {reason}."
        )
        return found(CheckpointCode.PICKLE, where, rule, _CHANGED)
    if isinstance(error, OSError) and str(error.filename or "").startswith(where):
        return unreadable(str(error.filename), error)
    return None


def _causes(error: BaseException) -> Iterable[BaseException]:
    """Yield an error and its causes, including those from other ranks, which torch collects."""
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
