# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The form of the recorded failures, and that they stay as they were frozen."""

import hashlib
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

FIRST = Path(__file__).parents[2] / "data" / "failures" / "first"
NUMBER = 40
FROZEN_ON = date(2026, 11, 15)
MADE_HERE = "engine"
"""The source of a failure that this repository's engine runs made."""
MACHINE_PATHS = re.compile(r"/tmp/|/root/\.cache|/work/main|/work/shared")  # noqa: S108
FIELDS = {"id", "title", "source", "date", "cause", "root", "cascade", "action", "why", "evidence"}


class EvidenceKind(StrEnum):
    """What a file of evidence is."""

    LOG = "log"
    KERNEL_LOG = "kernel-log"
    POD_EVENTS = "pod-events"
    POD_STATUS = "pod-status"
    ADMISSION = "admission"
    EXIT_CODES = "exit-codes"
    FLIGHT_RECORDER = "flight-recorder"
    ARGUMENTS = "arguments"
    ENVIRONMENT = "environment"
    PACKAGES = "packages"


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded failure."""

    directory: Path
    """Holds the case and its evidence."""
    fields: dict[str, Any]
    """What case.toml says."""

    @property
    def made_here(self) -> bool:
        """Whether an engine run of this repository made it, and not a thread."""
        return bool(self.fields["source"] == MADE_HERE)

    def evidence(self) -> dict[str, str]:
        """The files of evidence by name."""
        return {
            entry["file"]: (self.directory / entry["file"]).read_text()
            for entry in self.fields["evidence"]
        }


def read(directory: Path) -> Case:
    return Case(directory, tomllib.loads((directory / "case.toml").read_text()))


CASES = [read(file.parent) for file in sorted(FIRST.glob("*/case.toml"))]
CAUSES: dict[str, str] = tomllib.loads((FIRST / "causes.toml").read_text())

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.directory.name)


def test_the_number() -> None:
    assert len(CASES) == NUMBER
    assert len([path for path in FIRST.iterdir() if path.is_dir()]) == NUMBER


def test_about_ten_are_of_our_own_engine_and_no_thread_comes_twice() -> None:
    assert 8 <= sum(case.made_here for case in CASES) <= 12
    addresses = Counter(case.fields["source"] for case in CASES if not case.made_here)
    assert addresses.most_common(1)[0][1] == 1


@each_case
def test_the_fields(case: Case) -> None:
    own = {"made_by"} if case.made_here else {"quote", "quoted_from"}
    assert set(case.fields) == FIELDS | own
    assert case.fields["id"] == case.directory.name
    assert isinstance(case.fields["date"], date)
    assert case.fields["date"] <= FROZEN_ON
    texts = {"title", "root", "action", "why", *own}
    assert {name for name in texts if not case.fields[name].strip()} == set()
    assert all(isinstance(text, str) and text for text in case.fields["cascade"])


@each_case
def test_the_addresses(case: Case) -> None:
    if not case.made_here:
        for name in ("source", "quoted_from"):
            assert re.fullmatch(
                r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", case.fields[name]
            )


@each_case
def test_the_cause_is_one_of_the_list_and_not_given_away(case: Case) -> None:
    assert case.fields["cause"] in CAUSES
    said = [name for name, text in case.evidence().items() if case.fields["cause"] in text]
    assert said == [] or case.fields["cause"] == "unknown"


@each_case
def test_the_evidence(case: Case) -> None:
    listed = [entry["file"] for entry in case.fields["evidence"]]
    assert listed
    assert sorted(listed) == sorted(
        file.name for file in case.directory.iterdir() if file.name != "case.toml"
    )
    for entry in case.fields["evidence"]:
        assert set(entry) == {"file", "kind", "about"}
        assert EvidenceKind(entry["kind"])
        assert entry["about"].strip()
    assert all(text.strip() for text in case.evidence().values())


@each_case
def test_no_path_of_the_machine_that_recorded_it(case: Case) -> None:
    texts = [*case.evidence().values(), (case.directory / "case.toml").read_text()]
    assert not any(MACHINE_PATHS.search(text) for text in texts)


def test_every_cause_has_a_sentence_and_a_case() -> None:
    assert {key for key in CAUSES if not re.fullmatch(r"[a-z]+(-[a-z]+)*", key)} == set()
    assert {key for key, text in CAUSES.items() if not text.endswith(".")} == set()
    assert set(CAUSES) == {case.fields["cause"] for case in CASES}


def test_nothing_has_changed_since_it_was_frozen() -> None:
    """Signatures are scored on these files, so a change would move the goal after the shot."""
    lines = (FIRST / "SHA256SUMS").read_text().splitlines()
    frozen = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    files = [path for path in FIRST.rglob("*") if path.is_file()]
    found = {
        path.relative_to(FIRST).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name not in {"SHA256SUMS", "README.md"}
    }
    assert found == frozen
