# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the first rank does and all ranks learn: its answer, or its error."""

from collections.abc import Callable
from typing import Any

import torch

from seatrial.checkpoints.stopping import StopCode, StopError
from seatrial.errors import SeatrialError


class SharedError(SeatrialError):
    """What went wrong on another rank, in its words."""


def rank() -> int:
    """This process's rank."""
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def world_size() -> int:
    """How many ranks there are."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def first_rank[T](action: Callable[[], T]) -> T:
    """What an action of the first rank gives, on every rank; its errors are raised on all."""
    answer: list[Any] = [None, None, None]
    if rank() == 0:
        try:
            answer[0] = action()
        except StopError as error:
            answer[1:] = [str(error), int(error.code)]
        except SeatrialError as error:
            answer[1] = str(error)
        except Exception as error:
            # Whatever it is, the others must not wait for an answer for ever.
            answer[1] = f"{type(error).__name__}: {error}"
    if world_size() > 1:
        torch.distributed.broadcast_object_list(answer, src=0)
    value, error_text, code = answer
    if code is not None:
        raise StopError(StopCode(code), error_text)
    if error_text is not None:
        raise SharedError(error_text)
    result: T = value
    return result


def gathered[T](mine: T) -> list[T]:
    """What every rank has, on every rank, in order."""
    if world_size() == 1:
        return [mine]
    every: list[Any] = [None] * world_size()
    torch.distributed.all_gather_object(every, mine)
    return every


def gathered_at_first[T](mine: T) -> list[T]:
    """What every rank has, on the first rank; nothing on the others."""
    if world_size() == 1:
        return [mine]
    every: list[Any] | None = [None] * world_size() if rank() == 0 else None
    torch.distributed.gather_object(mine, every, dst=0)
    return every or []
