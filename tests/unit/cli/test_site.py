# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial site`: what it prints, writes and refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seatrial.cli.site import app
from seatrial.errors import FindingsError, UsageError


def ran(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_it_prints_commands() -> None:
    done = ran("eks")
    assert done.exit_code == 0
    assert done.stdout.startswith("#!/usr/bin/env bash\n# Components for eks:")


def test_json_lists_each_component_with_its_source() -> None:
    found = json.loads(ran("gke", "--json").stdout)
    names = {each["name"]: each for each in found}
    assert names["kueue"]["version"] == "0.15.0"
    assert all(each["source"] for each in found)
    assert "--update-addons=LustreCsiDriver=ENABLED" in names["gke-lustre-csi-driver"]["managed"]


def test_a_directory_gets_one_file_and_is_not_overwritten(tmp_path: Path) -> None:
    place = tmp_path / "site"
    done = ran("aks", "--format", "helmfile", "-o", str(place))
    assert done.exit_code == 0
    assert (place / "helmfile.yaml").is_file()
    assert "helmfile --file" in done.stdout
    with pytest.raises(UsageError, match="--force"):
        ran("aks", "--format", "helmfile", "-o", str(place))
    assert ran("aks", "--format", "helmfile", "-o", str(place), "--force").exit_code == 0


def test_a_known_conflict_is_refused() -> None:
    with pytest.raises(FindingsError, match="known not to work together"):
        ran("eks", "cluster.operator=trainjob", 'cluster.operator_version="2.3"')
