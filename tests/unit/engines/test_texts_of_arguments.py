# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Texts reach an engine as the spec has them, or are refused."""

import json

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engines.llm_foundry.settings import settings_words
from seatrial.engines.megatron.command_line import command_line
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError
from seatrial.planning.plan import Plan
from seatrial.recipes.shipped import recipe
from seatrial.sdk.plan import load_plan
from tests.conftest import resolved


def foundry(*overrides: str) -> Plan:
    """The plan of a recipe for LLM Foundry."""
    return load_plan(recipe("aks-mpt-125m").path, overrides, Catalog())[1]


def test_a_text_with_a_hyphen_first_is_no_option() -> None:
    assert command_line({"wandb-project": "--save"}) == ["--wandb-project=--save"]
    assert command_line({"wandb-project": "save"}) == ["--wandb-project", "save"]


def test_a_list_with_an_option_in_it_is_refused() -> None:
    plan = resolved("engine.options={profile-ranks: [0, -1], moe-layer-freq: 1}")
    engine = ENGINES["megatron"]
    assert engine.plan_problems(plan) == []
    hostile = resolved("data={sources: [{prepared: --save}]}")
    (problem,) = engine.plan_problems(hostile)
    assert (problem.field, problem.rule.split(" ")[0]) == ("data.sources", "--save")


def test_a_character_beyond_16_bits_is_one_escape() -> None:
    (word,) = settings_words({"run_name": "a \U0001f600"})
    assert word == 'run_name="a \\U0001f600"'
    assert json.dumps("\U0001f600") == '"\\ud83d\\ude00"'


@pytest.mark.parametrize(
    ("override", "field"),
    [
        ("monitoring.wandb={project: '${seed}'}", "monitoring.wandb.project"),
        ("cluster.storage={mount: '/${seed}'}", "checkpoints.location"),
    ],
)
def test_an_interpolation_of_omegaconf_is_refused(override: str, field: str) -> None:
    with pytest.raises(FindingsError) as caught:
        foundry(override)
    assert field in [finding.where.field for finding in caught.value.findings]
    assert "interprets ${...}" in caught.value.findings[0].rule
