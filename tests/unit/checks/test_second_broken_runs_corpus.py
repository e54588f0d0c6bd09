# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The second set has the form of the first, threads of its own, and stays as it was frozen."""

import hashlib
import re
import tomllib

import pytest

from seatrial.spec.loader import load
from tests.unit.checks.test_broken_runs_corpus import (
    ADDRESS,
    CASES,
    FIELDS,
    FIRST,
    LEFT_OUT,
    MACHINE_PATHS,
    OPTIONAL,
    PATH,
    THREAD,
    Case,
    CheckKind,
    error_codes,
    read,
)

SECOND = FIRST.parent / "second"
WANTED = 50
SECOND_CASES = [read(file.parent) for file in sorted(SECOND.glob("*/case.toml"))]
SECOND_LEFT_OUT: list[dict[str, str]] = tomllib.loads((SECOND / "left_out.toml").read_text())[
    "left_out"
]

each_case = pytest.mark.parametrize("case", SECOND_CASES, ids=lambda case: case.directory.name)


def test_the_number() -> None:
    assert len(SECOND_CASES) == WANTED
    assert len([path for path in SECOND.iterdir() if path.is_dir()]) == WANTED


def test_every_kind_has_a_case() -> None:
    assert {case.fields["kind"] for case in SECOND_CASES} == {str(kind) for kind in CheckKind}


def test_no_thread_is_in_the_first_set_or_twice_here() -> None:
    first = {case.fields["source"] for case in CASES} | {entry["source"] for entry in LEFT_OUT}
    second = [case.fields["source"] for case in SECOND_CASES]
    second += [entry["source"] for entry in SECOND_LEFT_OUT]
    assert first & set(second) == set()
    assert len(set(second)) == len(second)


@each_case
def test_the_fields(case: Case) -> None:
    assert FIELDS | {"quote"} <= set(case.fields) <= FIELDS | OPTIONAL
    assert {name for name, text in case.fields.items() if not text} == set()
    assert case.fields["id"] == case.directory.name
    assert CheckKind(case.fields["kind"])
    assert THREAD.fullmatch(case.fields["source"]), case.fields["source"]
    assert case.fields["defect"].endswith(".")
    for name in [case.fields["field"], *case.fields.get("also", ())]:
        assert PATH.fullmatch(name), name


@each_case
def test_the_files(case: Case) -> None:
    names = {file.name for file in case.directory.iterdir()}
    fixed = {name for name in names if name.startswith("fixed-")}
    assert names == {"case.toml", "run.yaml"} | case.fixtures() | fixed
    assert {name.removeprefix("fixed-") for name in fixed} <= case.fixtures()
    for name in names - {"run.yaml"}:
        assert tomllib.loads((case.directory / name).read_text())
    for name in names:
        assert not MACHINE_PATHS.search((case.directory / name).read_text()), name
    needed = {CheckKind.CLUSTER: "cluster.toml", CheckKind.RESUME: "checkpoint.toml"}
    assert needed.get(case.fields["kind"], "case.toml") in names


@each_case
def test_the_repair_is_an_override_or_described_outside_the_spec(case: Case) -> None:
    outside = "outside" in case.fields
    assert bool(case.fix) != outside
    assert outside == any(case.directory.glob("fixed-*.toml"))
    assert all(re.match(r"[a-z_]+[\w.\[\]-]*=.", text) for text in case.fix)


@each_case
def test_what_is_refused_today_is_refused_with_that_code_alone(case: Case) -> None:
    """A spec with a second defect would be caught for the wrong reason."""
    if "today" in case.fields:
        assert error_codes(case, []) == {case.fields["today"]}
    else:
        assert load(case.spec).spec.name


@each_case
def test_the_repaired_spec_is_valid(case: Case) -> None:
    assert error_codes(case, case.fix) == set()


def test_what_was_left_out_has_a_reason() -> None:
    assert SECOND_LEFT_OUT
    for entry in SECOND_LEFT_OUT:
        assert set(entry) == {"source", "about", "why"}
        assert ADDRESS.fullmatch(entry["source"]), entry["source"]
        assert all(text.endswith(".") for text in (entry["about"], entry["why"]))


def test_nothing_has_changed_since_it_was_frozen() -> None:
    """Rules are scored on these files, so a change would move the goal after the shot."""
    lines = (SECOND / "SHA256SUMS").read_text().splitlines()
    frozen = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    found = {
        path.relative_to(SECOND).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in SECOND.rglob("*")
        if path.is_file() and path.name not in {"SHA256SUMS", "README.md"}
    }
    assert found == frozen
