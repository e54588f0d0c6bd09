# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The list of packages is that of the lock files."""

import re
from email.message import Message
from importlib.metadata import Distribution
from typing import cast

import pytest

from scripts.list_packages import LOCKS, PAGE, UNKNOWN, Package, bill, licence_of, locked
from scripts.page_blocks import ROOT

ROW = re.compile(r"^\| ([\w.-]+) \| ([^ |]+) \| ([^|]+) \|$", re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS)
def test_the_page_lists_what_is_locked(lock: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    part = text.partition(f"`requirements/{lock}.txt`")[2].partition("\n## ")[0]
    listed = [(name, version) for name, version, _ in ROW.findall(part)][2:]
    assert listed == locked(ROOT / f"requirements/{lock}.txt"), "run: make packages"


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
