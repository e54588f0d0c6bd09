# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Environment variables for libraries that have no other setting.

A program sets its own variables when it starts, and a child's variables when it starts the child.
Any other function sets variables only temporarily, with this module.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def default_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set the variables that are not set yet, for the duration of the context."""
    added = [name for name in variables if name not in os.environ]
    os.environ.update({name: variables[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
