# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What init proposes is always legal, and follows the authors where that fits."""

import pytest

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.errors import FindingsError
from seatrial.planning.resolve import resolve
from seatrial.recipes.starter import Wishes, starter
from seatrial.spec.loader import loads


@pytest.mark.parametrize("model", Catalog().names(Kind.MODELS))
def test_every_model_can_start_on_every_profile(catalog: Catalog, model: str) -> None:
    for profile in catalog.names(Kind.PROFILES):
        for nodes in (1, 2, 3, 64):
            processes = 2 if profile == "local" else None
            wishes = Wishes("x", model, profile, nodes=nodes, processes_per_node=processes)
            plan = resolve(loads(starter(wishes, catalog).text, "run.yaml"), catalog)
            assert plan.machines.nodes == nodes


def text_for(catalog: Catalog, model: str, profile: str, nodes: int) -> str:
    return starter(Wishes("x", model, profile, nodes=nodes), catalog).text


def test_a_model_is_divided_no_more_than_it_needs(catalog: Catalog) -> None:
    small = text_for(catalog, "gpt3-1.3b", "aks", 1)
    assert "tp_size: 1\n  pp_size: 1" in small
    large = text_for(catalog, "gpt3-175b", "aks", 64)
    assert "tp_size: 8\n  pp_size: 4" in large


def test_uneven_stages_are_proposed_for_126_layers(catalog: Catalog) -> None:
    text = text_for(catalog, "llama3-405b", "eks", 64)
    assert "first_stage_layers: 15\n  last_stage_layers: 15" in text


def test_what_does_not_fit_says_so(catalog: Catalog) -> None:
    new = starter(Wishes("x", "gpt3-175b", "eks", nodes=1), catalog)
    assert "It does not fit" in new.text
    assert new.shortage.startswith("weights, gradients and optimizer state alone take about")
    assert not starter(Wishes("x", "gpt3-125m", "eks", nodes=1), catalog).shortage


@pytest.mark.parametrize(("tokens", "interval"), [("1T", 1000), ("1B", 95), ("1M", 1)])
def test_saves_suit_the_length(catalog: Catalog, tokens: str, interval: int) -> None:
    text = starter(Wishes("x", "gpt3-7.5b", "aks", tokens=tokens), catalog).text
    assert f"every_steps: {interval}," in text


def test_wishes_that_contradict_are_refused(catalog: Catalog) -> None:
    with pytest.raises(FindingsError, match=r"a cluster of profile local has no p4d\.24xlarge"):
        starter(Wishes("x", "gpt3-125m", "local", node_type="p4d.24xlarge"), catalog)
