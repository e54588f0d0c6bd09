# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The chart for administrators: what it takes from the code is what the code says."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from scripts.write_chart_files import FILES, IN_BASE_IMAGE, chart_files, image_locks
from seatrial.rendering.access import OPTIONAL_KINDS, launcher_rules
from seatrial.rendering.volumes import LOCK_CONFIG

CHART = FILES.parent


def read_yaml(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


def test_the_files_are_what_the_code_says() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in FILES.iterdir()}
    assert there == chart_files(), "run: python -m scripts.write_chart_files"
    for path, text in image_locks().items():
        assert path.read_text(encoding="utf-8") == text, "run: python -m scripts.write_chart_files"


def test_the_role_of_all_operators_is_that_of_the_product() -> None:
    rules = json.loads((FILES / "launcher-rules.json").read_text())
    chosen = [*rules["operators"].values(), rules["always"], *rules["optional"].values()]
    assert granted(rule for each in chosen for rule in each) == granted(launcher_rules())


def granted(rules: Iterable[Any]) -> set[tuple[str, str, str]]:
    """Every permission of some rules."""
    return {
        (group, kind, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }


def test_what_a_site_does_not_use_can_be_left_out_of_the_role() -> None:
    rules = json.loads((FILES / "launcher-rules.json").read_text())
    values = read_yaml(CHART / "values.yaml")["launcher"]["may"]
    assert values == dict.fromkeys(rules["optional"], True)
    always = {(group, kind) for group, kind, _ in granted(rules["always"])}
    for name, left_out in rules["optional"].items():
        found = {(group, kind) for group, kind, _ in granted(left_out)}
        assert found == {OPTIONAL_KINDS[name]}
        assert not found & always


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = read_yaml(CHART / "values.yaml")
    assert set(schema["properties"]) - {"global"} == set(values)
    for section, given in values.items():
        if not isinstance(given, dict):
            continue
        described = schema["properties"][section]
        assert described["additionalProperties"] is False
        assert set(described["properties"]) == set(given)


def test_the_templates_ask_for_values_that_there_are() -> None:
    values = read_yaml(CHART / "values.yaml")
    for template in (CHART / "templates").iterdir():
        for section in re.findall(r"\.Values\.(\w+)", template.read_text(encoding="utf-8")):
            assert section in values, template.name


def test_runs_find_the_lock_that_the_chart_brings() -> None:
    template = (CHART / "templates" / "worker-lock.yaml").read_text(encoding="utf-8")
    assert f"name: {LOCK_CONFIG}\n" in template


def test_the_lock_leaves_to_the_image_what_is_built_for_it() -> None:
    names = re.findall(r"^([a-z0-9._-]+)==", (FILES / "worker.txt").read_text(), re.MULTILINE)
    assert "megatron-core" in names
    assert "transformers" in names
    # A run with Muon also works in an image that lacks the worker.
    assert "emerging-optimizers" in names
    assert [name for name in names if IN_BASE_IMAGE.match(name)] == []
    # Each is followed by its hashes, or pip would refuse all of them.
    text = (FILES / "worker.txt").read_text()
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=\S)", text.strip()))
