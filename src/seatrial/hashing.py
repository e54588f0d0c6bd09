# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One way to turn plain data into bytes, and bytes into a digest."""

import hashlib
import json
from typing import Any


def canonical_json(data: Any) -> str:
    """The data as JSON with sorted keys and no spaces: equal data give equal text."""
    return json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(data: Any) -> str:
    """`sha256:` and the hexadecimal digest of the data's canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical_json(data).encode()).hexdigest()
