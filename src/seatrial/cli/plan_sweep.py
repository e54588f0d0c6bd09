# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Several plans beside each other: `--what-if` and `--compare`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import typer

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.errors import ExitCode, FindingsError, UsageError
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.run_budget import RunBudget, budget_of
from seatrial.reports.plan_table import compared_data, say_plans
from seatrial.reports.terminal import say, say_json
from seatrial.runs.kept_plan import find
from seatrial.sdk.plan import load_checked, refuse_unsupported
from seatrial.spec.fields import field_at, places_named, siblings
from seatrial.spec.other_tool_names import fields_meant
from seatrial.spec.tree import Path as SpecPath
from seatrial.spec.tree import dotted
from seatrial.spec.validation_errors import meant

_PART = re.compile(r"[^.\[\]]+")


def refuse_undone(keys: Sequence[str], overrides: Sequence[str]) -> None:
    """Refuse a key that sets again what an earlier one or an override has set.

    The later one would win, while the table showed the earlier one's values beside it.
    """
    earlier = [
        (f"the override of {key}", key)
        for key in (override.partition("=")[0] for override in overrides)
    ]
    for key in keys:
        path = _path(key)
        for shown, before in earlier:
            if _path(before)[: len(path)] == path:
                raise UsageError(
                    f"--what-if {key} would undo {shown}. "
                    f"Give {key} once, with all its values: --what-if {key}=V1,V2."
                )
        earlier.append((f"--what-if {key}", key))


def _path(key: str) -> SpecPath:
    """The parts of a key, with the numbers of items."""
    return tuple(int(part) if part.isdigit() else part for part in _PART.findall(key))


def refuse_unknown(key: str) -> None:
    """Refuse a key that no field of a spec has, with those that there are."""
    path = _path(key)
    for depth in range(1, len(path) + 1):
        there = path[:depth]
        found = field_at(there)
        if found is None and not isinstance(there[-1], int):
            raise UsageError(_no_such(key, there))
        if found is not None and found.section is None:
            # What lies below a field that is no section, such as an option of the engine, is the
            # business of whoever reads the spec.
            return


def _no_such(key: str, path: SpecPath) -> str:
    """That a key is none, which was meant, and which there are."""
    around, near, word = dotted(path[:-1]), meant(path), str(path[-1])
    own = [dotted((*path[:-1], near))] if near else []
    # A key of just this name elsewhere, or what others call so, is meant rather than a like one.
    close = places_named(word)[:3] or fields_meant(word) or own
    question = f" Did you mean {' or '.join(close)}?" if close else ""
    section = f"The section {around}" if around else "A spec"
    return (
        f"--what-if {key}: a spec has no such field.{question} {section} has: "
        f"{', '.join(siblings(path))}."
    )


MOST_PLANS = 64
"""Plans of one sweep; more is a typing mistake, or a script's work."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One plan of a sweep, or why there is none."""

    cells: tuple[str, ...]
    """What is different: the spec, or the value of each field that varies."""
    run: PlannedRun | None
    budget: RunBudget | None
    refusal: str = ""
    """Why there is no plan."""


def _refused(cells: tuple[str, ...], error: FindingsError) -> Variant:
    """A variant that cannot be planned."""
    return Variant(cells, None, None, error.findings[0].rule)


def combinations(
    what_if: Sequence[str], overrides: Sequence[str] = ()
) -> Iterator[tuple[str, ...]]:
    """The overrides of each plan: one value of each key, in every combination.

    `overrides` hold for all of them, and must not set what is varied.
    """
    choices = []
    for given in what_if:
        key, equals, values = given.partition("=")
        options = _split(values)
        if not equals or not key or options == [""]:
            raise UsageError(
                f"--what-if {given!r} does not vary a field. Write --what-if cluster.nodes=2,4,8."
            )
        if "" in options:
            raise UsageError(
                f"--what-if {given!r} has a place without a value. "
                "Write --what-if cluster.nodes=2,4,8."
            )
        refuse_unknown(key)
        choices.append([f"{key}={value}" for value in options])
    refuse_undone([given.partition("=")[0] for given in what_if], overrides)
    total = 1
    for options in choices:
        total *= len(options)
    if total > MOST_PLANS:
        raise UsageError(f"--what-if asks for {total:,} plans; at most {MOST_PLANS} are made.")
    yield from product(*choices)


def _split(values: str) -> list[str]:
    """The values between commas; those inside brackets do not part."""
    found, depth, word = [], 0, ""
    for letter in values:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            found.append(word)
            word = ""
        else:
            word += letter
    return [value.strip() for value in (*found, word)]


def say_sweep(
    files: list[Path], given: Sequence[str], what_if: Sequence[str], *, as_json: bool
) -> None:
    """Plan every spec with every combination of values, and print them as a table."""
    catalog, several = default_catalog(), len(files) > 1
    headers = ["spec"] * several + [change.partition("=")[0] for change in what_if]
    variants = []
    for file in files:
        for more in combinations(what_if, given):
            values = tuple(change.partition("=")[2] for change in more)
            cells = (str(file), *values) if several else values
            variants.append(_variant(file, [*given, *more], cells, catalog))
    if as_json:
        say_json([compared_data(variant, headers) for variant in variants])
    else:
        say_plans(variants, headers)
        say("next  seatrial plan with the values of one row, or these in the file")
    if not any(variant.run for variant in variants):
        raise typer.Exit(ExitCode.FINDINGS)


def _variant(
    file: Path, overrides: Sequence[str], cells: tuple[str, ...], catalog: Catalog
) -> Variant:
    """One plan of several; a spec that cannot be planned takes its line all the same."""
    try:
        loaded = load_checked(file, overrides)
        basis = resolve_basis(loaded, catalog)
        run = plan_run(basis, calibration=find(basis, file).calibration)
        refuse_unsupported(loaded, run.plan)
    except FindingsError as error:
        return _refused(cells, error)
    return Variant(cells, run, budget_of(run, catalog))
