# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The identity of the code that renders, from the files that it is made of."""

from collections.abc import Iterable
from hashlib import sha256


def code_digest(files: Iterable[tuple[str, bytes]]) -> str:
    """`sha256:` and the digest of all files, by name; the order in which they come is no matter.

    A name and a content are each preceded by their length, so that nothing can move between them.
    """
    whole = sha256()
    for name, content in sorted(files):
        for part in (name.encode(), content):
            whole.update(len(part).to_bytes(8, "big"))
            whole.update(part)
    return f"sha256:{whole.hexdigest()}"
