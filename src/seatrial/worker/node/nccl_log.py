# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""NCCL's network log, in a file for each process.

NCCL chooses its network before the first step and reports the choice only in its log. Seatrial
enables only this part of the log. If you configure NCCL's log yourself, Seatrial does not change
it, and the choice is visible only in the pod's log.
"""

import os
import tempfile
from pathlib import Path

ASKED = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
FILE = "NCCL_DEBUG_FILE"
LONGEST = 2**22
"""Maximum number of bytes that are read: NCCL writes a line for each channel to each peer."""


def choose_file() -> Path | None:
    """Return a file for NCCL's log; None if the user configured the log."""
    if any(name in os.environ for name in (*ASKED, FILE)):
        return None
    try:
        return Path(tempfile.gettempdir()) / f"seatrial-nccl-{os.getpid()}.log"
    except OSError:
        # There is no writable directory; do not change NCCL's log.
        return None


def variables(file: Path | None) -> dict[str, str]:
    """Return the variables that make NCCL log to the file."""
    return {} if file is None else {**ASKED, FILE: str(file)}


def lines(file: Path | None) -> list[str]:
    """Return the current lines in NCCL's log; empty without a readable file."""
    if file is None:
        return []
    try:
        with file.open("rb") as stream:
            read = stream.read(LONGEST)
    except OSError:
        return []
    # If the file is longer, the last line may be truncated.
    whole = read[: read.rfind(b"\n") + 1] if len(read) == LONGEST else read
    return whole.decode("utf-8", "replace").splitlines()
