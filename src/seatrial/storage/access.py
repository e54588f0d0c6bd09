# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Open the store at an address."""

from seatrial.errors import UsageError
from seatrial.storage.directory import LocalStore
from seatrial.storage.object_store import ObjectStore
from seatrial.storage.providers import KINDS
from seatrial.storage.store import Store, named


def store_at(address: str) -> Store:
    """Return the store whose root is a path, or an address such as `s3://BUCKET/PATH`."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return LocalStore(address)
    if scheme in KINDS and rest.strip("/"):
        return ObjectStore(address)
    known = ", ".join(f"{name}://" for name in KINDS)
    raise UsageError(
        f"{named(address)}: Seatrial cannot write to this address. Use a local path, "
        f"or a URL with a bucket and a path; supported schemes: {known}."
    )
