# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The form of the broken runs, and that they stay as they were frozen."""

import hashlib
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from seatrial.errors import FindingsError
from seatrial.findings import Severity
from seatrial.sdk.plan import validate
from seatrial.spec.loader import load

FIRST = Path(__file__).parents[2] / "data" / "broken_runs" / "first"
LEAST = 100
LEAST_ACCEPTED = 60
THREAD = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+")
ADDRESS = re.compile(
    THREAD.pattern
    + r"|https://[\w.-]+/\S+"  # a page
    + r"|[\w.-]+/[\w.-]+@[\w.]{6,40} \S.*"  # a file of a repository, at a commit or a tag
    + r"|pypi:[\w.-]+==[\d.]+ \S.*"  # a file of a package
    + r"|document: \S.*"  # a document without an address, and the part of it
)
MACHINE_PATHS = re.compile(r"/tmp/|/root/|/work/main|/work/shared")  # noqa: S108
FIELDS = {"id", "title", "source", "defect", "happens", "kind", "field"}
OPTIONAL = {"quote", "also", "fix", "outside", "today"}
PATH = re.compile(r"[a-z_]+(\[\d+\])?(\.[\w-]+(\[\d+\])?)*")
FIXTURES = {"data.toml", "cluster.toml", "checkpoint.toml"}


class CheckKind(StrEnum):
    """The kind of check that can see a defect."""

    SPEC = "spec"
    LAYOUT = "layout"
    BATCH = "batch"
    MEMORY = "memory"
    SEQUENCE = "sequence"
    TOKENIZER = "tokenizer"
    DATA = "data"
    SCHEDULE = "schedule"
    CHECKPOINT = "checkpoint"
    FABRIC = "fabric"
    IMAGE = "image"
    NAME = "name"
    SECRET = "secret"
    ENGINE = "engine"
    CLUSTER = "cluster"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Case:
    """One broken run."""

    directory: Path
    """Holds the case, its spec and its fixtures."""
    fields: dict[str, Any]
    """What case.toml says."""

    @property
    def spec(self) -> Path:
        """The whole spec, with its one defect."""
        return self.directory / "run.yaml"

    @property
    def fix(self) -> list[str]:
        """The overrides that repair it; none when the repair is not in the spec."""
        return list(self.fields.get("fix", ()))

    def fixtures(self) -> set[str]:
        """The descriptions beside the spec, without those of the repaired state."""
        return {file.name for file in self.directory.glob("*.toml")} & FIXTURES


def read(directory: Path) -> Case:
    return Case(directory, tomllib.loads((directory / "case.toml").read_text()))


def error_codes(case: Case, overrides: list[str]) -> set[str]:
    """The codes of the errors that `seatrial validate` has for a spec."""
    try:
        validate(case.spec, overrides)
    except FindingsError as error:
        return {str(f.code) for f in error.findings if f.severity is Severity.ERROR}
    return set()


CASES = [read(file.parent) for file in sorted(FIRST.glob("*/case.toml"))]
LEFT_OUT: list[dict[str, str]] = tomllib.loads((FIRST / "left_out.toml").read_text())["left_out"]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.directory.name)


def test_the_number() -> None:
    assert len(CASES) >= LEAST
    assert len([path for path in FIRST.iterdir() if path.is_dir()]) == len(CASES)
    assert sum("today" not in case.fields for case in CASES) >= LEAST_ACCEPTED


def test_every_kind_has_a_case() -> None:
    assert {case.fields["kind"] for case in CASES} == {str(kind) for kind in CheckKind}


def test_no_two_cases_are_the_same() -> None:
    specs = Counter(
        tuple(
            re.sub(r"(?m)^description:.*(\n .*)*$", "", file.read_text())
            for file in [case.spec, *(case.directory / name for name in sorted(case.fixtures()))]
        )
        for case in CASES
    )
    assert specs.most_common(1)[0][1] == 1
    assert Counter(case.fields["title"] for case in CASES).most_common(1)[0][1] == 1


@each_case
def test_the_fields(case: Case) -> None:
    assert set(case.fields) >= FIELDS
    assert set(case.fields) <= FIELDS | OPTIONAL
    assert case.fields["id"] == case.directory.name
    assert CheckKind(case.fields["kind"])
    texts = {name: case.fields[name] for name in FIELDS | (OPTIONAL & set(case.fields))}
    assert {name for name, text in texts.items() if not text} == set()
    assert case.fields["defect"].endswith(".")
    for name in [case.fields["field"], *case.fields.get("also", ())]:
        assert PATH.fullmatch(name), name


@each_case
def test_the_source_is_an_address_and_a_thread_is_quoted(case: Case) -> None:
    source = case.fields["source"]
    assert ADDRESS.fullmatch(source), source
    assert "quote" in case.fields or not THREAD.fullmatch(source)


@each_case
def test_the_files(case: Case) -> None:
    names = {file.name for file in case.directory.iterdir()}
    fixed = {name for name in names if name.startswith("fixed-")}
    assert names == {"case.toml", "run.yaml"} | case.fixtures() | fixed
    assert {name.removeprefix("fixed-") for name in fixed} <= case.fixtures()
    for name in names - {"run.yaml"}:
        assert tomllib.loads((case.directory / name).read_text())
    assert not any(
        MACHINE_PATHS.search((case.directory / name).read_text()) for name in sorted(names)
    )
    needed = {CheckKind.CLUSTER: "cluster.toml", CheckKind.RESUME: "checkpoint.toml"}
    assert needed.get(case.fields["kind"], "case.toml") in names


@each_case
def test_the_repair_is_an_override_or_described_outside_the_spec(case: Case) -> None:
    outside = "outside" in case.fields
    assert bool(case.fix) != outside
    assert outside == any(case.directory.glob("fixed-*.toml"))
    assert all(re.match(r"[a-z_]+[\w.\[\]-]*=.", text) for text in case.fix)


@each_case
def test_the_spec_is_whole(case: Case) -> None:
    text = YAML(typ="safe").load(case.spec.read_text())
    assert {"apiVersion", "name", "model", "data", "training", "cluster"} <= set(text)
    if "today" not in case.fields:
        assert load(case.spec).spec.name == text["name"]


@each_case
def test_what_is_refused_today_is_refused_with_that_code_alone(case: Case) -> None:
    """A spec with a second defect would be caught for the wrong reason."""
    if "today" in case.fields:
        assert error_codes(case, []) == {case.fields["today"]}


@each_case
def test_the_repaired_spec_is_valid(case: Case) -> None:
    assert error_codes(case, case.fix) == set()


def test_what_was_left_out_has_a_reason() -> None:
    assert LEFT_OUT
    for entry in LEFT_OUT:
        assert set(entry) == {"source", "about", "why"}
        assert ADDRESS.fullmatch(entry["source"]), entry["source"]
        assert all(text.endswith(".") for text in (entry["about"], entry["why"]))
    listed = [(entry["source"], entry["about"]) for entry in LEFT_OUT]
    assert len(set(listed)) == len(listed)
    sources = {case.fields["source"] for case in CASES}
    threads = {entry["source"] for entry in LEFT_OUT if THREAD.fullmatch(entry["source"])}
    assert threads & sources == set()


def test_nothing_has_changed_since_it_was_frozen() -> None:
    """Rules are scored on these files, so a change would move the goal after the shot."""
    lines = (FIRST / "SHA256SUMS").read_text().splitlines()
    frozen = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    found = {
        path.relative_to(FIRST).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in FIRST.rglob("*")
        if path.is_file() and path.name not in {"SHA256SUMS", "README.md"}
    }
    assert found == frozen
