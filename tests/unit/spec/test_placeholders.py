# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Placeholders of a recipe: found where they stand, and refused by a launch."""

from pathlib import Path

import pytest

from seatrial.codes.spec import SpecCode
from seatrial.errors import FindingsError
from seatrial.recipes.shipped import recipe
from seatrial.sdk.runs import launch
from seatrial.spec.loader import loads
from seatrial.spec.placeholders import placeholders, refuse_placeholders

RECIPE = "eks-llama2-7b-p4d"


def test_a_recipe_that_nobody_has_edited_is_not_launched(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(recipe(RECIPE).text)
    with pytest.raises(FindingsError) as refused:
        launch(file)
    found = refused.value.findings
    assert {finding.code for finding in found} == {SpecCode.PLACEHOLDER}
    assert [finding.where.field for finding in found] == ["data.sources[0].from", "cluster.image"]
    assert found[0].where.line


def test_names_of_ones_own_are_none() -> None:
    text = recipe(RECIPE).text.replace("YOUR-BUCKET", "ours").replace("YOUR-REGISTRY", "ex.org/a")
    loaded = loads(text, "run.yaml")
    assert placeholders(loaded) == ()
    refuse_placeholders(loaded)
    assert not placeholders(loads(text.replace("s3://ours", "s3://FOR-YOUR-EYES"), "run.yaml"))
    assert not placeholders(loads(text.replace("s3://ours", "s3://yourbucket"), "run.yaml"))
