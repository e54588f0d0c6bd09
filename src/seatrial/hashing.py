# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Canonical JSON and its digest."""

import hashlib
import json
from typing import Any


def canonical_json(data: Any) -> str:
    """Encode data as JSON with sorted keys and no spaces, so that equal data has equal text."""
    return json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(data: Any) -> str:
    """Return `sha256:` and the digest of the data's canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical_json(data).encode()).hexdigest()
