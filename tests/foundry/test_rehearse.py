# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The command `seatrial rehearse` for a run of LLM Foundry, as a user starts it."""

from pathlib import Path

import pytest

from tests.engine.test_rehearse import recipe, rehearse
from tests.foundry.conftest import Figure

pytestmark = [pytest.mark.engine, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("name", ["aks-mpt-125m", "aks-mpt-30b"])
def test_a_recipe_is_rehearsed(name: str, tmp_path: Path, figure: Figure) -> None:
    answer = rehearse(tmp_path, recipe(tmp_path, name), "--json")
    results = {result["drill"]: result for result in answer.data["results"]}
    assert [drill for drill, result in results.items() if not result["ok"]] == []
    assert answer.code == 0
    assert [drill for drill, result in results.items() if not result["judged"]] == []
    assert "bitwise identical" in results["kill"]["said"]
    assert "GPT2LMHeadModel, logits for" in results["export"]["said"]
    for drill in ("arguments", "kill", "reshard", "export"):
        figure("rehearsal", name, drill, results[drill]["said"])
