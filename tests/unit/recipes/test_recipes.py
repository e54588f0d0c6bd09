# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every recipe validates, and resolves to what its document says."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.errors import NotInCatalogError
from seatrial.recipes.shipped import recipe, recipe_names
from seatrial.sdk.plan import validate
from seatrial.spec.loader import load
from tests.conftest import plan_spec

SCENARIOS = {
    # name: (ranks, dp, micro batches)
    "aks-gpt3-375m-quick-test": (16, 16, 2),
    "aks-gpt3-175b": (512, 4, 2048),
    "aks-gpt3-175b-sharp": (256, 2, 256),
    "aks-gpt3-custom": (32, 32, 16),
    "eks-llama2-7b-p4d": (16, 8, 64),
    "hyperpod-gpt3-7.5b": (8, 1, 288),
    "aks-mpt-125m": (16, 16, 1),
    "aks-mpt-30b": (128, 128, 2),
    "gpt2-large-ablation": (2, 2, 1),
    "gke-llama3-8b-a3-mega": (32, 16, 32),
    "onprem-llama3-8b": (32, 16, 32),
    "gpu-host-container": (8, 4, 32),
}


def test_there_is_a_recipe_for_every_scenario() -> None:
    assert set(recipe_names()) == set(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_recipe_validates_without_a_word(name: str) -> None:
    result = validate(recipe(name).path)
    assert result.findings == ()
    assert result.plan is not None
    plan = result.plan
    assert SCENARIOS[name] == (
        plan.machines.world_size,
        plan.layout.dp_size,
        plan.batch.micro_batches,
    )
    assert result.spec.description


DATA_IMAGE = "cluster.preparation.image=YOUR-REGISTRY/worker-data:0.1.0"


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_speaks_against_a_recipe(name: str, catalog: Catalog) -> None:
    found = recipe(name)
    # No image for data is published, and each who has text to prepare is told.
    verdict = check(found.text, found.path.name, catalog, [DATA_IMAGE])
    # A note needs nothing to be done, such as that no published run has as many stages.
    assert verdict.clean, verdict.findings


ABLATION = {
    "one-gpu": (1, 1, 1, 1, 1),
    "data": (2, 1, 1, 1, 2),
    "tensor": (2, 2, 1, 1, 1),
    "sequence": (2, 2, 1, 1, 1),
    "context": (2, 1, 2, 1, 1),
    "pipeline": (2, 1, 1, 2, 1),
}
"""World, tp, cp, pp and dp of each variant in the recipe."""


@pytest.mark.parametrize("form", ABLATION)
def test_the_ablations_overrides_work_as_written(form: str, catalog: Catalog) -> None:
    found = recipe("gpt2-large-ablation")
    variants = load(found.path, ()).spec.variants
    assert list(variants) == list(ABLATION)
    plan = plan_spec(load(found.path, variants[form]), catalog)
    layout = plan.layout
    assert ABLATION[form] == (
        plan.machines.world_size,
        layout.tp_size,
        layout.cp_size,
        layout.pp_size,
        layout.dp_size,
    )
    assert plan.batch.micro_batches == 1


def test_an_unknown_recipe_gets_the_nearest() -> None:
    with pytest.raises(NotInCatalogError, match=r"Did you mean aks-gpt3-175b\?"):
        recipe("aks-gpt3-175")
