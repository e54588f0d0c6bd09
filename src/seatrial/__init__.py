# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Seatrial: a language-model pretraining run from corpus to checkpoint, rehearsed on a CPU first.

The names below are the SDK. They are loaded when first used, so that `import seatrial` and the
command line start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seatrial.version import VERSION

if TYPE_CHECKING:
    from seatrial.catalog.catalog import Catalog, Kind
    from seatrial.client import Validation, load_spec, plan, validate
    from seatrial.errors import (
        FindingsError,
        NotInCatalogError,
        SeatrialError,
        UnreadableError,
        UsageError,
    )
    from seatrial.findings import Finding, Severity, Where
    from seatrial.planning.plan import Plan
    from seatrial.recipes.shipped import Recipe, recipe, recipe_names
    from seatrial.recipes.starter import Starter, Wishes, starter
    from seatrial.spec.run import RunSpec
    from seatrial.spec.schema import json_schema

__version__ = VERSION

_HOMES = {
    "Catalog": "seatrial.catalog.catalog",
    "Finding": "seatrial.findings",
    "FindingsError": "seatrial.errors",
    "Kind": "seatrial.catalog.catalog",
    "NotInCatalogError": "seatrial.errors",
    "Plan": "seatrial.planning.plan",
    "Recipe": "seatrial.recipes.shipped",
    "RunSpec": "seatrial.spec.run",
    "SeatrialError": "seatrial.errors",
    "Severity": "seatrial.findings",
    "UnreadableError": "seatrial.errors",
    "UsageError": "seatrial.errors",
    "Validation": "seatrial.client",
    "Where": "seatrial.findings",
    "Starter": "seatrial.recipes.starter",
    "Wishes": "seatrial.recipes.starter",
    "json_schema": "seatrial.spec.schema",
    "load_spec": "seatrial.client",
    "plan": "seatrial.client",
    "recipe": "seatrial.recipes.shipped",
    "recipe_names": "seatrial.recipes.shipped",
    "starter": "seatrial.recipes.starter",
    "validate": "seatrial.client",
}

__all__ = [
    "Catalog",
    "Finding",
    "FindingsError",
    "Kind",
    "NotInCatalogError",
    "Plan",
    "Recipe",
    "RunSpec",
    "SeatrialError",
    "Severity",
    "Starter",
    "UnreadableError",
    "UsageError",
    "Validation",
    "Where",
    "Wishes",
    "__version__",
    "json_schema",
    "load_spec",
    "plan",
    "recipe",
    "recipe_names",
    "starter",
    "validate",
]


def __getattr__(name: str) -> Any:
    """Load a name of the SDK from where it is defined."""
    if name not in _HOMES:
        raise AttributeError(f"module 'seatrial' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
