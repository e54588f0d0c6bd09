# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Seatrial: a language-model pretraining run from corpus to checkpoint, rehearsed first on a CPU.

::

    load_spec(path, overrides)   the spec in a file
    validate(path, overrides)    spec, plan and notes; raises FindingsError with all errors
    plan(path, overrides)        the plan for a spec
    plan_page(path, overrides)   the plan with its alternatives, budget and findings
    sweep_plans(paths, what_if)  plans for several specs, or for several values of a field
    check(path, overrides, ...)  every rule applied to a run, as a Verdict
    rehearse(path, overrides)    train a small twin on this host's CPU, and run drills
    run_pipeline(path, ...)      every step of a run, from corpus to report, resumable
    prepare_data(path, ...)      convert raw text to verified training data, resumable
    prepare_data_on_cluster(...) the same in the run's cluster, with one pod per task
    estimate_data(path, ...)     tokens, disk, time and cost of preparation, from a sample
    verify_data(where)           the problems in prepared data
    inspect_data(where)          documents and bytes of prepared data
    site(target, overrides)      what a cluster needs before the first run, with versions
    list_images(target)          the images that a run and its cluster pull
    save_images(references, to)  images as archives; push_images(sources, registry)
    build_image(name)            one of Seatrial's own images, from a checkout
    render(path, overrides)      the Kubernetes manifests for a run
    render_diff(path, ...)       what applying the manifests would change in the cluster
    plan_variants(path, ...)     plans for the variants in a spec
    run_variants(path, ...)      launch the variants in a spec in turn, and compare them
    launch(path, overrides)      submit a run, unless it already exists
    status(run, namespace)       the state of a run and the reasons for it
    logs(run, namespace, ...)    the output of a run's processes
    wait(run, namespace, ...)    wait for a run to finish
    stop(run), delete(run)       stop a run; delete a run
    list_runs(namespace)         all runs in a namespace and in this directory
    forward(run, namespace)      forward a local port to a run's TensorBoard
    history(run)                 the events of a run, live or from a log
    diagnose(run)                why a run stopped, hangs or is slow
    report(runs, output)         an HTML report about runs
    calibrate(path, measured)    fit the planner to measured steps
    list_checkpoints(where)      the checkpoints of a run
    verify_checkpoint(where)     the problems in a checkpoint
    verify_checkpoints(where)    the problems in all checkpoints of a run, resumable
    prune_checkpoints(where)     delete the checkpoints that the retention policy does not keep
    pin_checkpoint(where)        protect a checkpoint from pruning; unpin_checkpoint(where)
    copy_checkpoint(where, to)   copy a checkpoint to a different location and verify the copy
    resume_verdict(path, ...)    whether a run can resume from a checkpoint
    export_weights(checkpoint)   a checkpoint's weights for Hugging Face's transformers
    generate_text(weights, ...)  text that exported weights write
    import_weights(source)       Hugging Face weights as a checkpoint to start from
    export_mlflow(events, ...)   export an event log as an MLflow run
    starter(wishes, catalog)     a new spec as text, from Wishes
    recipe(name), recipe_names() the specs that ship with Seatrial
    upgrade_spec(path)           a spec in the current format
    json_schema()                the JSON Schema of a spec
    list_engines()               the training engines; install_engine(name), engine_settings(path)
    doctor()                     the extras and engines that are installed
    explain(code)                the meaning of a finding's code
    Catalog(directories)         facts with their sources

Errors that a user can fix are raised as SeatrialError. These names are the SDK; only these names
are stable. They are loaded on first use, so that `import seatrial` and the CLI start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seatrial.version import VERSION

if TYPE_CHECKING:
    from seatrial.catalog.catalog import Catalog, Kind
    from seatrial.checks.check import Verdict
    from seatrial.checks.explanations import explain
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
    from seatrial.runs.launch.launcher import Launched
    from seatrial.runs.status.status import Status
    from seatrial.runs.stop import Removal, Stopped
    from seatrial.sdk.check import check
    from seatrial.sdk.checkpoints import (
        copy_checkpoint,
        list_checkpoints,
        pin_checkpoint,
        prune_checkpoints,
        resume_verdict,
        unpin_checkpoint,
        verify_checkpoint,
        verify_checkpoints,
    )
    from seatrial.sdk.data import estimate_data, inspect_data, prepare_data, verify_data
    from seatrial.sdk.doctor import doctor
    from seatrial.sdk.engines import engine_settings, install_engine, list_engines
    from seatrial.sdk.history import (
        Diagnosed,
        HistoryPlace,
        Report,
        calibrate,
        diagnose,
        export_mlflow,
        history,
        report,
    )
    from seatrial.sdk.images import build_image, list_images, push_images, save_images
    from seatrial.sdk.pipeline import run_pipeline
    from seatrial.sdk.plan import Validation, load_spec, plan, upgrade_spec, validate
    from seatrial.sdk.plan_page import plan_page
    from seatrial.sdk.rehearse import RehearsalWatch, Rehearsed, rehearse
    from seatrial.sdk.remote import prepare_data_on_cluster
    from seatrial.sdk.render import render, render_diff
    from seatrial.sdk.runs import Runs, delete, forward, launch, list_runs, logs, status, stop, wait
    from seatrial.sdk.site import SiteComponents, site
    from seatrial.sdk.sweep import sweep_plans
    from seatrial.sdk.variants import plan_variants, run_variants
    from seatrial.sdk.weights import export_weights, generate_text, import_weights
    from seatrial.spec.run import RunSpec
    from seatrial.spec.schema import json_schema

__version__ = VERSION

_HOMES = {
    "Catalog": "seatrial.catalog.catalog",
    "Diagnosed": "seatrial.sdk.history",
    "Finding": "seatrial.findings",
    "FindingsError": "seatrial.errors",
    "HistoryPlace": "seatrial.sdk.history",
    "Kind": "seatrial.catalog.catalog",
    "Launched": "seatrial.runs.launch.launcher",
    "NotInCatalogError": "seatrial.errors",
    "Plan": "seatrial.planning.plan",
    "Recipe": "seatrial.recipes.shipped",
    "RehearsalWatch": "seatrial.sdk.rehearse",
    "Rehearsed": "seatrial.sdk.rehearse",
    "Removal": "seatrial.runs.stop",
    "Rendering": "seatrial.rendering.render",
    "Report": "seatrial.sdk.history",
    "RunSpec": "seatrial.spec.run",
    "Runs": "seatrial.sdk.runs",
    "SeatrialError": "seatrial.errors",
    "Severity": "seatrial.findings",
    "SiteComponents": "seatrial.sdk.site",
    "Starter": "seatrial.recipes.starter",
    "Status": "seatrial.runs.status.status",
    "Stopped": "seatrial.runs.stop",
    "UnreadableError": "seatrial.errors",
    "UsageError": "seatrial.errors",
    "Validation": "seatrial.sdk.plan",
    "Verdict": "seatrial.checks.check",
    "Where": "seatrial.findings",
    "Wishes": "seatrial.recipes.starter",
    "build_image": "seatrial.sdk.images",
    "calibrate": "seatrial.sdk.history",
    "check": "seatrial.sdk.check",
    "copy_checkpoint": "seatrial.sdk.checkpoints",
    "delete": "seatrial.sdk.runs",
    "diagnose": "seatrial.sdk.history",
    "doctor": "seatrial.sdk.doctor",
    "engine_settings": "seatrial.sdk.engines",
    "estimate_data": "seatrial.sdk.data",
    "explain": "seatrial.checks.explanations",
    "export_mlflow": "seatrial.sdk.history",
    "export_weights": "seatrial.sdk.weights",
    "forward": "seatrial.sdk.runs",
    "generate_text": "seatrial.sdk.weights",
    "history": "seatrial.sdk.history",
    "import_weights": "seatrial.sdk.weights",
    "inspect_data": "seatrial.sdk.data",
    "install_engine": "seatrial.sdk.engines",
    "json_schema": "seatrial.spec.schema",
    "launch": "seatrial.sdk.runs",
    "list_checkpoints": "seatrial.sdk.checkpoints",
    "list_engines": "seatrial.sdk.engines",
    "list_images": "seatrial.sdk.images",
    "list_runs": "seatrial.sdk.runs",
    "load_spec": "seatrial.sdk.plan",
    "logs": "seatrial.sdk.runs",
    "pin_checkpoint": "seatrial.sdk.checkpoints",
    "plan": "seatrial.sdk.plan",
    "plan_page": "seatrial.sdk.plan_page",
    "plan_variants": "seatrial.sdk.variants",
    "prepare_data": "seatrial.sdk.data",
    "prepare_data_on_cluster": "seatrial.sdk.remote",
    "prune_checkpoints": "seatrial.sdk.checkpoints",
    "push_images": "seatrial.sdk.images",
    "recipe": "seatrial.recipes.shipped",
    "recipe_names": "seatrial.recipes.shipped",
    "rehearse": "seatrial.sdk.rehearse",
    "render": "seatrial.sdk.render",
    "render_diff": "seatrial.sdk.render",
    "report": "seatrial.sdk.history",
    "resume_verdict": "seatrial.sdk.checkpoints",
    "run_pipeline": "seatrial.sdk.pipeline",
    "run_variants": "seatrial.sdk.variants",
    "save_images": "seatrial.sdk.images",
    "site": "seatrial.sdk.site",
    "starter": "seatrial.recipes.starter",
    "status": "seatrial.sdk.runs",
    "stop": "seatrial.sdk.runs",
    "sweep_plans": "seatrial.sdk.sweep",
    "unpin_checkpoint": "seatrial.sdk.checkpoints",
    "upgrade_spec": "seatrial.sdk.plan",
    "validate": "seatrial.sdk.plan",
    "verify_checkpoint": "seatrial.sdk.checkpoints",
    "verify_checkpoints": "seatrial.sdk.checkpoints",
    "verify_data": "seatrial.sdk.data",
    "wait": "seatrial.sdk.runs",
}

__all__ = [
    "Catalog",
    "Diagnosed",
    "Finding",
    "FindingsError",
    "HistoryPlace",
    "Kind",
    "Launched",
    "NotInCatalogError",
    "Plan",
    "Recipe",
    "RehearsalWatch",
    "Rehearsed",
    "Removal",
    "Rendering",
    "Report",
    "RunSpec",
    "Runs",
    "SeatrialError",
    "Severity",
    "SiteComponents",
    "Starter",
    "Status",
    "Stopped",
    "UnreadableError",
    "UsageError",
    "Validation",
    "Verdict",
    "Where",
    "Wishes",
    "__version__",
    "build_image",
    "calibrate",
    "check",
    "copy_checkpoint",
    "delete",
    "diagnose",
    "doctor",
    "engine_settings",
    "estimate_data",
    "explain",
    "export_mlflow",
    "export_weights",
    "forward",
    "generate_text",
    "history",
    "import_weights",
    "inspect_data",
    "install_engine",
    "json_schema",
    "launch",
    "list_checkpoints",
    "list_engines",
    "list_images",
    "list_runs",
    "load_spec",
    "logs",
    "pin_checkpoint",
    "plan",
    "plan_page",
    "plan_variants",
    "prepare_data",
    "prepare_data_on_cluster",
    "prune_checkpoints",
    "push_images",
    "recipe",
    "recipe_names",
    "rehearse",
    "render",
    "render_diff",
    "report",
    "resume_verdict",
    "run_pipeline",
    "run_variants",
    "save_images",
    "site",
    "starter",
    "status",
    "stop",
    "sweep_plans",
    "unpin_checkpoint",
    "upgrade_spec",
    "validate",
    "verify_checkpoint",
    "verify_checkpoints",
    "verify_data",
    "wait",
]


def __getattr__(name: str) -> Any:
    """Load an SDK name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module 'seatrial' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the SDK names, for completion and help."""
    return sorted({*__all__, "__doc__", "__file__", "__name__", "__path__"})
