# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every code can be explained, and explanations are of codes that exist."""

import re
from pathlib import Path

from seatrial.checks.check import BEFORE, RULES, codes_before
from seatrial.checks.explanations import explanations
from seatrial.checks.rule import Scope
from seatrial.codes.checks import CheckCode
from seatrial.codes.planning import PlanCode
from seatrial.codes.registry import AREAS, known_codes

SOURCE = re.compile(
    r"https://\S+|arXiv \d{4}\.\d{5}|pypi:[\w.-]+==[\d.]+ \S"
    r"|[\w.-]+/[\w.-]+[@ ]\S|docs: \S|J\. T\. "
)


def test_no_enum_of_codes_is_left_out() -> None:
    folder = Path(__file__).parents[3] / "src" / "seatrial"
    written = re.compile(r'^    [A-Z_0-9]+ = "(ST-[A-Z]+-\d{3})"', re.M)
    found = {code for file in folder.rglob("*.py") for code in written.findall(file.read_text())}
    assert found == set(known_codes())


def test_no_code_has_two_meanings() -> None:
    assert sum(len(area) for area in AREAS) == len(known_codes())


def test_a_code_is_known_with_its_meaning_and_its_part() -> None:
    found = known_codes()[PlanCode.BATCH]
    assert (found.meaning, found.part) == (
        "The global batch cannot be split evenly.",
        "planning",
    )


def test_every_code_of_the_check_has_a_background() -> None:
    reported = {code for rule in RULES for code in rule.codes} | set(CheckCode)
    before = {code for part in BEFORE for code in codes_before(part)}
    assert reported | before <= set(explanations())


def test_what_a_background_calls_documentation_is_there() -> None:
    docs = Path(__file__).parents[3] / "docs"
    named = [source for each in explanations().values() for source in each.sources]
    pages = [source.removeprefix("docs: ").split(" ")[0] for source in named if "docs: " in source]
    assert pages
    paths = [page for page in pages if page.endswith(".md") or "/" in page]
    assert [path for path in paths if not (docs / path).exists()] == []


def test_explanations_are_of_known_codes_and_say_who_says_so() -> None:
    for code, explanation in explanations().items():
        assert code in known_codes()
        assert explanation.why.endswith(".")
        assert explanation.sources
        for source in explanation.sources:
            assert SOURCE.match(source), source
            assert not re.search(r"/(root|tmp|work)/", source)


def test_rules_of_data_are_kept_apart_from_the_data_libraries() -> None:
    folder = Path(__file__).parents[3] / "src" / "seatrial" / "checks" / "rules"
    texts = [file.read_text() for file in folder.glob("*.py")]
    assert any(rule.scope is Scope.DATA for rule in RULES)
    assert not [text for text in texts if re.search(r"^(import|from) (numpy|pyarrow)", text, re.M)]
