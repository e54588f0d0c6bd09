# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The variants of a spec: plan them side by side, or launch them in turn and compare them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seatrial.catalog.catalog import default_catalog
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import Finding
from seatrial.planning.plan import Plan
from seatrial.planning.planner import PlannedRun
from seatrial.reports.run_page.chapter import Chapter, read_chapter
from seatrial.reports.run_page.page import plotting_library
from seatrial.runs.history.files import local_history
from seatrial.runs.history.history import RunHistory, with_forecast
from seatrial.runs.history.locate import cluster_history
from seatrial.runs.ledger.host import local_run
from seatrial.runs.namespace import Tell
from seatrial.runs.status.status import Status
from seatrial.sdk.history import refuse_other_file, write_report
from seatrial.sdk.plan import Overrides, PathOrText, load_plan, override_texts
from seatrial.sdk.runs import FoundRun, launch
from seatrial.sdk.sweep import Sweep, plan_variant, planned_run
from seatrial.spec.cluster import Operator
from seatrial.spec.loader import load

EXAMPLE = "variants: {tensor: [parallelism.tp_size=2], pipeline: [parallelism.pp_size=2]}"


@dataclass(frozen=True, slots=True)
class VariantRun:
    """A variant that was launched, and what it measured."""

    variant: str
    """Its name in the spec."""
    plan: Plan
    status: Status
    """Its state at the end."""
    chapter: Chapter | None = None
    """Its part of the report. None if it recorded no event."""

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for `--json`."""
        named = {"variant": self.variant, "state": self.status.state}
        if self.chapter is None:
            return named
        forecast = self.chapter.history.forecast
        planned = {
            "memory": self.chapter.snapshot.memory,
            "planned_step_seconds": forecast.time.total if forecast else None,
            "planned_memory": forecast.memory.fullest.total if forecast else None,
        }
        return named | self.chapter.to_dict() | planned


@dataclass(frozen=True, slots=True)
class SweepRuns:
    """The runs of a sweep, and the page that compares them."""

    runs: tuple[VariantRun, ...]
    page: Path | None
    """The report. None if no variant recorded an event."""


def variants_of(path: PathOrText, overrides: Overrides = ()) -> dict[str, tuple[str, ...]]:
    """Return the overrides of each variant of a spec, in order.

    Each variant is a run with a name of its own. All of them read the data of the spec's run,
    unless a variant sets its own `data.location`.
    """
    given = override_texts(overrides)
    spec = load(Path(path), given).spec
    if not spec.variants:
        raise UsageError(
            f"{path} has no variants. Add names and their overrides to the spec, such as {EXAMPLE}."
        )
    shared: tuple[str, ...] = ()
    if spec.data.sources:
        data = load_plan(path, overrides, default_catalog(), keep=False)[1].data_location
        shared = (f"data.location={data}",)
    return {
        name: (*given, f"name={spec.name}-{name}", *shared, *own)
        for name, own in spec.variants.items()
    }


def plan_variants(path: PathOrText, overrides: Overrides = ()) -> Sweep:
    """Plan every variant of a spec. Plans are not stored."""
    catalog = default_catalog()
    plans = [
        plan_variant(Path(path), words, (name,), catalog)
        for name, words in variants_of(path, overrides).items()
    ]
    return Sweep(("variant",), tuple(plans))


def run_variants(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    output: PathOrText | None = None,
    before: Callable[[str, int, int], None] | None = None,
    saw: Callable[[Status], None] | None = None,
    confirm: bool = False,
    kubeconfig: str = "",
    context: str = "",
    tell: Tell | None = None,
) -> SweepRuns:
    """Launch every variant of a spec in turn, wait for each, and compare them in a report.

    A variant that already succeeded is not launched again. One that fails does not stop the
    others. Nothing is launched if a variant has no valid plan.

    Args:
        path: The spec.
        overrides: Fields to override in all variants.
        output: The report. Default: NAME-sweep.html.
        before: Receives the name of a variant, its number and how many there are.
        saw: Receives every status while a variant runs.
        confirm: True to replace a variant that was launched with a different spec.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
        tell: Receives progress messages.
    """
    file, variants = Path(path), variants_of(path, overrides)
    plotting_library()
    target = Path(output or f"{load(file, override_texts(overrides)).spec.name}-sweep.html")
    refuse_other_file(target)
    plans = _plans(file, variants)
    ended: dict[str, Status] = {}
    for number, (name, words) in enumerate(variants.items(), 1):
        if before is not None:
            before(name, number, len(variants))
        launch(
            file,
            words,
            kubeconfig=kubeconfig,
            context=context,
            confirm=lambda _: confirm,
            tell=tell,
        )
        found = _found(file, plans[name].plan, kubeconfig, context, tell)
        ended[name] = found.wait(None, saw or (lambda _: None))
    runs = [
        VariantRun(
            name,
            run.plan,
            ended[name],
            _chapter(run, _found(file, run.plan, kubeconfig, context, tell)),
        )
        for name, run in plans.items()
    ]
    chapters = [run.chapter for run in runs if run.chapter is not None]
    page = write_report(chapters, target).page if chapters else None
    return SweepRuns(tuple(runs), page)


def _plans(file: Path, variants: Mapping[str, Sequence[str]]) -> dict[str, PlannedRun]:
    """Plan every variant. Raises the findings of all variants together."""
    catalog, plans, findings = default_catalog(), {}, []
    for name, words in variants.items():
        try:
            plans[name] = planned_run(file, words, catalog)
        except FindingsError as error:
            findings += [_in_variant(name, finding) for finding in error.findings]
    if findings:
        raise FindingsError(findings)
    return plans


def _in_variant(name: str, finding: Finding) -> Finding:
    """Name the variant of a finding, whose line in the file may be right for other variants."""
    return replace(finding, rule=f"variant {name}: {finding.rule}")


def _found(file: Path, plan: Plan, kubeconfig: str, context: str, tell: Tell | None) -> FoundRun:
    name, here = plan.spec.name, plan.machines.operator is Operator.TORCHRUN
    told = tell or (lambda _: None)
    if here:
        return FoundRun(name, local_run(file.parent, name), "", "", "", told)
    return FoundRun(name, None, plan.spec.cluster.namespace, kubeconfig, context, told)


def _chapter(run: PlannedRun, found: FoundRun) -> Chapter | None:
    """Read what a variant recorded. None if it failed before its first event."""
    history = _history(run, found)
    try:
        return read_chapter(history)
    except UsageError:
        return None


def _history(run: PlannedRun, found: FoundRun) -> RunHistory:
    catalog = default_catalog()
    if found.here is not None:
        return local_history(found.here, catalog)
    return cluster_history(found.looked_at, found.name, catalog, with_forecast(run))
