# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The list of packages is that of the lock files."""

import re
from email.message import Message
from importlib.metadata import Distribution
from typing import cast

import pytest

from docs.tools.list_packages import LOCKS, NOT_READ, PAGE, UNKNOWN, Package, bill, licence_of

ROW = re.compile(r"^\| ([\w.-]+) \| ([^ |]+) \| ([^|]+) \|$", re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS)
def test_the_page_lists_what_is_locked(lock: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    part = text.partition(f"\n## {LOCKS[lock].title}\n")[2].partition("\n## ")[0]
    listed = [(name, version) for name, version, _ in ROW.findall(part)][2:]
    assert listed == LOCKS[lock].pinned(), "run: make packages"


def test_the_image_for_data_has_a_part_of_its_lock_file() -> None:
    names = {name for name, _ in LOCKS["data"].pinned()}
    assert {"ray", "pydantic"} <= names
    assert not {"pytest", "mypy", "torch"} & names


class Fake:
    def __init__(self, **headers: str) -> None:
        self.metadata = Message()
        for name, value in headers.items():
            self.metadata[name.replace("_", "-")] = value


@pytest.mark.parametrize(
    ("found", "licence"),
    [
        (Fake(License_Expression="MIT", License="something else"), "MIT"),
        (Fake(Classifier="License :: OSI Approved :: MIT License"), "MIT License"),
        (Fake(License="BSD"), "BSD"),
        (Fake(License="Copyright\nAll of it"), UNKNOWN),
        (Fake(), UNKNOWN),
    ],
)
def test_the_licence_is_read_as_metadata_say_it(found: Fake, licence: str) -> None:
    assert licence_of(cast("Distribution", found)) == licence


def test_the_bill_names_packages_as_the_index_does() -> None:
    made = bill("core", [Package("ruamel.yaml", "0.19.1", "MIT")])
    (component,) = cast("list[dict[str, str]]", made["components"])
    assert component["purl"] == "pkg:pypi/ruamel-yaml@0.19.1"


@pytest.mark.parametrize(("licence", "told"), [("MIT", True), (UNKNOWN, False), (NOT_READ, False)])
def test_the_bill_gives_no_licence_that_nobody_has_told(licence: str, told: bool) -> None:
    made = bill("core", [Package("colorama", "0.4.6", licence)])
    (component,) = cast("list[dict[str, object]]", made["components"])
    assert ("licenses" in component) is told
