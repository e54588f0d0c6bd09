# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run an action on the first rank, and share its result or error with all ranks."""

from collections.abc import Callable
from typing import Any

import torch

from seatrial.checkpoints.stopping import StopCode, StopError
from seatrial.errors import SeatrialError


class SharedError(SeatrialError):
    """An error on another rank, with its message."""


def rank() -> int:
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def world_size() -> int:
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def first_rank[T](action: Callable[[], T]) -> T:
    """Run an action on the first rank. Return its result, or raise its error, on every rank."""
    answer: list[Any] = [None, None, None]
    if rank() == 0:
        try:
            answer[0] = action()
        except StopError as error:
            answer[1:] = [str(error), int(error.code)]
        except SeatrialError as error:
            answer[1] = str(error)
        except Exception as error:
            # Whatever happens, the other ranks must not wait forever for an answer.
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
    """Gather one value per rank on every rank, in rank order."""
    if world_size() == 1:
        return [mine]
    every: list[Any] = [None] * world_size()
    torch.distributed.all_gather_object(every, mine)
    return every


def gathered_at_first[T](mine: T) -> list[T]:
    """Gather one value per rank on the first rank; empty on the other ranks."""
    if world_size() == 1:
        return [mine]
    every: list[Any] | None = [None] * world_size() if rank() == 0 else None
    torch.distributed.gather_object(mine, every, dst=0)
    return every or []
