# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Seatrial: a language-model pretraining run from corpus to checkpoint, rehearsed on a CPU first.

::

    load_spec(path, overrides)   the spec in a file
    validate(path, overrides)    spec, plan and notes; raises FindingsError with all that is wrong
    plan(path, overrides)        what a spec resolves to
    check(path, overrides, ...)  every rule applied before a GPU is asked for, as a Verdict
    prepare_data(path, ...)      raw text to verified Megatron data, resumable
    estimate_data(path, ...)     what that would take, from a sample
    verify_data(where)           what is wrong with prepared data
    render(path, overrides)      the Kubernetes manifests of a run
    launch(path, overrides)      make sure that a run is on its cluster, once
    status(run, namespace)       how a run is, and why
    export_weights(checkpoint)   a checkpoint's weights for Hugging Face's transformers
    import_weights(source)       Hugging Face weights as a checkpoint to start from
    export_mlflow(events, ...)   an event log as a run of MLflow
    starter(wishes, catalog)     a new spec as text, from Wishes
    recipe(name), recipe_names() the specs that come with Seatrial
    json_schema()                the JSON Schema of a spec
    Catalog(directories)         facts with their sources

What a user can mend is raised as a SeatrialError. These names are the SDK, and the only ones that
are stable. They are loaded when first used, so that `import seatrial` and the command line start
at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seatrial.version import VERSION

if TYPE_CHECKING:
    from seatrial.catalog.catalog import Catalog, Kind
    from seatrial.checks.check import Verdict
    from seatrial.client import (
        Validation,
        check,
        estimate_data,
        export_mlflow,
        export_weights,
        import_weights,
        launch,
        load_spec,
        plan,
        prepare_data,
        render,
        status,
        validate,
        verify_data,
    )
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
    from seatrial.rendering.render import Rendering
    from seatrial.runs.launch import Launched
    from seatrial.runs.status import Status
    from seatrial.spec.run import RunSpec
    from seatrial.spec.schema import json_schema

__version__ = VERSION

_HOMES = {
    "Catalog": "seatrial.catalog.catalog",
    "Finding": "seatrial.findings",
    "FindingsError": "seatrial.errors",
    "Kind": "seatrial.catalog.catalog",
    "Launched": "seatrial.runs.launch",
    "NotInCatalogError": "seatrial.errors",
    "Plan": "seatrial.planning.plan",
    "Recipe": "seatrial.recipes.shipped",
    "Rendering": "seatrial.rendering.render",
    "RunSpec": "seatrial.spec.run",
    "SeatrialError": "seatrial.errors",
    "Severity": "seatrial.findings",
    "Status": "seatrial.runs.status",
    "UnreadableError": "seatrial.errors",
    "UsageError": "seatrial.errors",
    "Validation": "seatrial.client",
    "Verdict": "seatrial.checks.check",
    "Where": "seatrial.findings",
    "Starter": "seatrial.recipes.starter",
    "Wishes": "seatrial.recipes.starter",
    "check": "seatrial.client",
    "estimate_data": "seatrial.client",
    "json_schema": "seatrial.spec.schema",
    "export_mlflow": "seatrial.client",
    "export_weights": "seatrial.client",
    "import_weights": "seatrial.client",
    "launch": "seatrial.client",
    "load_spec": "seatrial.client",
    "plan": "seatrial.client",
    "prepare_data": "seatrial.client",
    "recipe": "seatrial.recipes.shipped",
    "recipe_names": "seatrial.recipes.shipped",
    "render": "seatrial.client",
    "starter": "seatrial.recipes.starter",
    "status": "seatrial.client",
    "validate": "seatrial.client",
    "verify_data": "seatrial.client",
}

__all__ = [
    "Catalog",
    "Finding",
    "FindingsError",
    "Kind",
    "Launched",
    "NotInCatalogError",
    "Plan",
    "Recipe",
    "Rendering",
    "RunSpec",
    "SeatrialError",
    "Severity",
    "Starter",
    "Status",
    "UnreadableError",
    "UsageError",
    "Validation",
    "Verdict",
    "Where",
    "Wishes",
    "__version__",
    "check",
    "estimate_data",
    "export_mlflow",
    "export_weights",
    "import_weights",
    "json_schema",
    "launch",
    "load_spec",
    "plan",
    "prepare_data",
    "recipe",
    "recipe_names",
    "render",
    "starter",
    "status",
    "validate",
    "verify_data",
]


def __getattr__(name: str) -> Any:
    """Load a name of the SDK from where it is defined."""
    if name not in _HOMES:
        raise AttributeError(f"module 'seatrial' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The names of the SDK, for completion and help."""
    return sorted({*__all__, "__doc__", "__file__", "__name__", "__path__"})
