# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compare plans of several specs, or of several values of a field."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.errors import FindingsError, UsageError
from seatrial.planning.planner import PlannedRun
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.run_budget import RunBudget, budget_of
from seatrial.runs.kept_plan import reuse_or_plan
from seatrial.sdk.plan import (
    Overrides,
    PathOrText,
    load_checked,
    override_texts,
    refuse_unsupported,
)
from seatrial.spec.fields import field_at, places_named, siblings
from seatrial.spec.other_tool_names import fields_meant
from seatrial.spec.tree import Path as SpecPath
from seatrial.spec.tree import dotted
from seatrial.spec.validation_errors import meant

_PART = re.compile(r"[^.\[\]]+")


def refuse_undone(keys: Sequence[str], overrides: Sequence[str]) -> None:
    """Reject a key that overwrites an earlier key or an override.

    The later one would win, but the table would still show the earlier values.
    """
    earlier = [
        (f"the override {key}", key)
        for key in (override.partition("=")[0] for override in overrides)
    ]
    for key in keys:
        path = _path(key)
        for shown, before in earlier:
            if _path(before)[: len(path)] == path:
                raise UsageError(
                    f"--what-if {key} overwrites {shown}. "
                    f"Pass {key} once, with all its values: --what-if {key}=V1,V2."
                )
        earlier.append((f"--what-if {key}", key))


def _path(key: str) -> SpecPath:
    """Split a key into parts. List indices become numbers."""
    return tuple(int(part) if part.isdigit() else part for part in _PART.findall(key))


def refuse_unknown(key: str) -> None:
    """Reject a key that is not a field of the spec, and list the valid ones."""
    path = _path(key)
    for depth in range(1, len(path) + 1):
        there = path[:depth]
        found = field_at(there)
        if found is None and not isinstance(there[-1], int):
            raise UsageError(_no_such(key, there))
        if found is not None and found.section is None:
            # The reader of the spec validates keys below a field that is not a section, such as
            # engine options.
            return


def _no_such(key: str, path: SpecPath) -> str:
    """Return the error for an unknown key, with suggestions and valid keys."""
    around, near, word = dotted(path[:-1]), meant(path), str(path[-1])
    own = [dotted((*path[:-1], near))] if near else []
    # Prefer a field of exactly this name elsewhere, or another tool's name, over a similar one.
    close = places_named(word)[:3] or fields_meant(word) or own
    question = f" Did you mean {' or '.join(close)}?" if close else ""
    section = f"Section {around}" if around else "A spec"
    return f"--what-if {key}: unknown field.{question} {section} has: {', '.join(siblings(path))}."


MOST_PLANS = 64
"""The maximum number of plans in one sweep."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One plan of a sweep, or the reason why there is none."""

    cells: tuple[str, ...]
    """The values that differ: the spec, or one value per varied field."""
    run: PlannedRun | None
    budget: RunBudget | None
    refusal: str = ""
    """The reason why there is no plan. Empty if there is one."""


def _refused(cells: tuple[str, ...], error: FindingsError) -> Variant:
    return Variant(cells, None, None, error.findings[0].rule)


def combinations(
    what_if: Sequence[str], overrides: Sequence[str] = ()
) -> Iterator[tuple[str, ...]]:
    """Return the overrides of each plan: every combination of the values.

    `overrides` apply to all plans, and must not set a varied field.
    """
    choices = []
    for given in what_if:
        key, equals, values = given.partition("=")
        options = _split(values)
        if not equals or not key or options == [""]:
            raise UsageError(
                f"--what-if {given!r} does not vary a field. Use --what-if cluster.nodes=2,4,8."
            )
        if "" in options:
            raise UsageError(
                f"--what-if {given!r} has an empty value. Use --what-if cluster.nodes=2,4,8."
            )
        refuse_unknown(key)
        choices.append([f"{key}={value}" for value in options])
    refuse_undone([given.partition("=")[0] for given in what_if], overrides)
    total = 1
    for options in choices:
        total *= len(options)
    if total > MOST_PLANS:
        raise UsageError(f"--what-if requests {total:,} plans. The limit is {MOST_PLANS}.")
    yield from product(*choices)


def _split(values: str) -> list[str]:
    """Split values at commas outside brackets."""
    found, depth, word = [], 0, ""
    for letter in values:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            found.append(word)
            word = ""
        else:
            word += letter
    return [value.strip() for value in (*found, word)]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Several plans and the fields in which they differ."""

    headers: tuple[str, ...]
    """The name of each cell of a variant: `spec`, or a field."""
    variants: tuple[Variant, ...]


def sweep_plans(
    paths: Sequence[PathOrText], what_if: Sequence[str] = (), overrides: Overrides = ()
) -> Sweep:
    """Plan every spec with every combination of values. Plans are not stored.

    Args:
        paths: The specs.
        what_if: Fields and their values, such as `cluster.nodes=2,4,8`.
        overrides: Fields to override in all plans.
    """
    catalog, several, given = default_catalog(), len(paths) > 1, override_texts(overrides)
    headers = ("spec",) * several + tuple(change.partition("=")[0] for change in what_if)
    variants = []
    for path in paths:
        for more in combinations(what_if, given):
            values = tuple(change.partition("=")[2] for change in more)
            cells = (str(path), *values) if several else values
            variants.append(plan_variant(Path(path), [*given, *more], cells, catalog))
    return Sweep(headers, tuple(variants))


def plan_variant(
    file: Path, overrides: Sequence[str], cells: tuple[str, ...], catalog: Catalog
) -> Variant:
    """Plan one variant. An invalid one gets a row with the reason."""
    try:
        run = planned_run(file, overrides, catalog)
    except FindingsError as error:
        return _refused(cells, error)
    return Variant(cells, run, budget_of(run, catalog))


def planned_run(file: Path, overrides: Sequence[str], catalog: Catalog) -> PlannedRun:
    """Plan a spec with overrides, without storing the plan."""
    loaded = load_checked(file, overrides)
    run = reuse_or_plan(resolve_basis(loaded, catalog), file, again=True).run
    refuse_unsupported(loaded, run.plan)
    return run
