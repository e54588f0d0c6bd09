# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Variables of this process, for libraries that can be told something in no other way.

A program sets its own where it begins, and those of a child where it starts the child. A function
that others call sets one only here, and takes it back.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def default_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables that are not set, for as long as a library reads them."""
    added = [name for name in variables if name not in os.environ]
    os.environ.update({name: variables[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
