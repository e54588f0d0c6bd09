# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Names of prepared files, made of a source's name and of whatever documents call their domain."""

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

LONGEST_SLUG = 60
"""Characters of a domain that are kept; file systems end at 255 bytes for the whole name."""


def slug(domain: str) -> str:
    """The domain in lower-case letters, digits, `.`, `_` and `-`; never a path, maybe empty."""
    return re.sub(r"[^a-z0-9._-]+", "-", domain.lower())[:LONGEST_SLUG].strip(".-_")


def file_stems(keys: Sequence[tuple[str, str]]) -> list[str]:
    """For each source and domain what the names of its files begin with, each different.

    A domain that is a name but for capital letters gives `SOURCE-DOMAIN`. One that had to be
    altered further, or would meet another's, gets a short hash of what it was.
    """
    plain = [_plain(source, domain) for source, domain in keys]
    number = Counter(plain)
    clean = [
        number[stem] == 1 and slug(domain) == domain.lower()
        for (_, domain), stem in zip(keys, plain, strict=True)
    ]
    taken = {stem for stem, is_clean in zip(plain, clean, strict=True) if is_clean}
    stems = []
    for (source, domain), stem, is_clean in zip(keys, plain, clean, strict=True):
        found, salt = stem, domain
        # More than once only where a domain was made to look like another with its hash.
        while not is_clean and (found == stem or found in taken):
            salt = sha256(f"{source}\0{salt}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
            found = f"{stem}-{salt}"
        taken.add(found)
        stems.append(found)
    return stems


def _plain(source: str, domain: str) -> str:
    return "-".join(filter(None, (source, slug(domain))))
