# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What NCCL says of the network, kept in a file of this process so that it can be read.

NCCL chooses its network before the first step and tells nobody but its log. Only what it says of
that is asked for; what a user has set himself is left as it is, and then only a reader of the
pod's log sees it.
"""

import os
import tempfile
from pathlib import Path

ASKED = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
FILE = "NCCL_DEBUG_FILE"
LONGEST = 2**22
"""Bytes that are read: a line for each channel to each peer."""


def choose_file() -> Path | None:
    """A file of this process for NCCL's log; None where the user has asked NCCL otherwise."""
    if any(name in os.environ for name in (*ASKED, FILE)):
        return None
    try:
        return Path(tempfile.gettempdir()) / f"seatrial-nccl-{os.getpid()}.log"
    except OSError:
        # No directory can be written to; NCCL stays as it is.
        return None


def variables(file: Path | None) -> dict[str, str]:
    """What asks NCCL for its log in that file, before it starts."""
    return {} if file is None else {**ASKED, FILE: str(file)}


def lines(file: Path | None) -> list[str]:
    """What NCCL has said so far; nothing where there is no file, or none that can be read."""
    if file is None:
        return []
    try:
        with file.open("rb") as stream:
            read = stream.read(LONGEST)
    except OSError:
        return []
    # The last line of more may be cut.
    whole = read[: read.rfind(b"\n") + 1] if len(read) == LONGEST else read
    return whole.decode("utf-8", "replace").splitlines()
