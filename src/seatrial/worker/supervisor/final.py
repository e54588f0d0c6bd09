# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""That an attempt is over for good, kept where a container that starts again finds it.

The kubelet starts a container of a PyTorchJob again whatever it ended with. Where the worker has
said that no start would help, the next one of the same attempt ends at once, and no GPU is taken.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_NAME = "final.json"


@dataclass(frozen=True, slots=True)
class Final:
    """How an attempt came to its end."""

    attempt: str
    """The attempt, by the name that its nodes meet under."""
    code: int
    """The exit code of its processes."""


def remember(directory: Path, final: Final) -> None:
    """Keep it; where that cannot be written, the next start finds out by itself."""
    with suppress(OSError):
        (directory / _NAME).write_text(json.dumps(asdict(final)), encoding="utf-8")


def remembered(directory: Path, attempt: str) -> Final | None:
    """How this very attempt has ended before; nothing where it has not."""
    try:
        final = Final(**json.loads((directory / _NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return final if final.attempt == attempt else None
