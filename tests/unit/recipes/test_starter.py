# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A new spec: whatever the wishes are, it reads back as what was asked for, or is refused."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.errors import FindingsError
from seatrial.findings import Finding
from seatrial.planning.choices import LAYOUT_FIELDS, SAVES, open_fields
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.recipes.starter import Wishes, starter, usual
from seatrial.spec.loader import loads

WISHES = Wishes(name="new", model="gpt3-125m", profile="local")


@given(st.text(min_size=1))
@settings(max_examples=60, deadline=None)
def test_a_source_reads_back_as_it_was_written(catalog: Catalog, address: str) -> None:
    refused: tuple[Finding, ...] = ()
    text = ""
    try:
        text = starter(replace(WISHES, data=address), catalog).text
    except FindingsError as error:
        refused = error.findings
    if refused:
        assert {finding.where.field for finding in refused} == {"data.sources[0].from"}
        return
    (source,) = loads(text, "run.yaml").spec.data.sources or ()
    assert source.from_ == address


@pytest.mark.parametrize("name", ["true", "null", "e5", "new"])
def test_a_name_stays_text(catalog: Catalog, name: str) -> None:
    new = starter(replace(WISHES, name=name), catalog)
    assert loads(new.text, "run.yaml").spec.name == name


@pytest.mark.parametrize("tokens", ["1500000000", "2.5B", "1e10", "2_000_000_000"])
def test_a_count_stays_a_count(catalog: Catalog, tokens: str) -> None:
    new = starter(replace(WISHES, tokens=tokens), catalog)
    assert f"  tokens: {tokens}    #" in new.text


@pytest.mark.parametrize("model", Catalog().names(Kind.MODELS))
def test_every_model_can_start_on_every_profile(catalog: Catalog, model: str) -> None:
    for profile in catalog.names(Kind.PROFILES):
        for nodes in (1, 3, 64):
            wishes = Wishes("x", model, profile, nodes=nodes)
            loaded = loads(starter(wishes, catalog).text, "run.yaml")
            assert loaded.spec.cluster.nodes == nodes
            assert loaded.spec.engine.name == catalog.model(model).engine
            assert resolve_basis(loaded, catalog).open_fields


@pytest.mark.parametrize(
    ("model", "profile", "nodes"), [("gpt3-7.5b", "eks", 3), ("mpt-7b", "aks", 1)]
)
def test_the_planner_takes_it_from_there(
    catalog: Catalog, model: str, profile: str, nodes: int
) -> None:
    text = starter(Wishes("x", model, profile, nodes=nodes), catalog).text
    run = plan_run(resolve_basis(loads(text, "run.yaml"), catalog))
    assert run.searched
    assert run.plan.machines.nodes == nodes


def test_it_is_short_and_leaves_the_layout_to_the_planner(catalog: Catalog) -> None:
    text = starter(replace(WISHES, model="gpt3-7.5b", profile="eks", nodes=2), catalog).text
    written = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert len(written) <= 16
    spec = loads(text, "run.yaml").spec
    assert open_fields(spec, catalog.model("gpt3-7.5b").architecture) == [
        field for field in (*LAYOUT_FIELDS, SAVES) if field != "parallelism.ep_size"
    ]


def test_wishes_that_contradict_are_refused(catalog: Catalog) -> None:
    with pytest.raises(FindingsError, match=r"the profile local have no p4d\.24xlarge"):
        starter(Wishes("x", "gpt3-125m", "local", node_type="p4d.24xlarge"), catalog)


@pytest.mark.parametrize(
    ("changes", "account", "secret"),
    [
        ({"data": "s3://bucket/corpus"}, True, True),
        ({"data": "hf://datasets/a/b@main", "tokenizer": "hf://gpt2"}, False, True),
        ({"data": "s3://bucket/corpus", "tokenizer": "hf://gpt2"}, True, False),
        ({"profile": "local", "data": "s3://bucket/corpus"}, False, False),
        ({"model": "gpt3-125m"}, False, False),
    ],
)
def test_access_is_proposed_where_it_will_be_needed(
    catalog: Catalog, changes: dict[str, str], account: bool, secret: bool
) -> None:
    wishes = replace(Wishes(name="new", model="llama3-8b", profile="eks"), **changes)  # type: ignore[arg-type]
    text = starter(wishes, catalog).text
    assert ("# service_account: training" in text) == account
    assert ("env: HF_TOKEN" in text) == secret
    # The lines are right as they stand, once they are no comments any more.
    wanted = re.sub(r"^  # (?=(service_account|secrets):|  - \{)", "  ", text, flags=re.MULTILINE)
    loaded = loads(wanted, "run.yaml")
    assert loaded.spec.cluster.service_account == ("training" if account else None)
    assert len(loaded.spec.cluster.secrets) == secret


def test_on_one_host_it_is_something_that_a_laptop_can_train(catalog: Catalog) -> None:
    profile = catalog.profile("local")
    wishes = Wishes("x", usual(profile).model, "local", volume="/home/me/volume")
    spec = loads(starter(wishes, catalog).text, "run.yaml").spec
    assert spec.cluster.storage.mount == "/home/me/volume"
    plan = plan_run(resolve_basis(loads(starter(wishes, catalog).text, "run.yaml"), catalog)).plan
    computed = 6 * plan.model.parameters * plan.length.tokens
    # Some minutes at 10 GFLOP/s, which two cores do.
    assert computed / 1e10 < 300


def test_in_a_cluster_nothing_is_said_of_a_volume_and_the_batch_is_open(catalog: Catalog) -> None:
    text = starter(Wishes("x", "gpt3-125m", "eks", volume="/home/me/volume"), catalog).text
    assert "mount" not in text
    assert "tokens: 10B " in text
    assert "global_batch_size: auto " in text


def test_a_model_that_needs_gpus_gets_no_batch_of_a_laptop(catalog: Catalog) -> None:
    large = starter(Wishes("a", "llama2-7b", "local"), catalog).text
    assert "global_batch_size: auto" in large
    small = starter(Wishes("a", "gpt3-125m", "local"), catalog).text
    assert "global_batch_size: 16 " in small


def test_the_gpus_of_a_host_are_written_down(catalog: Catalog) -> None:
    wishes = Wishes(
        "a", "gpt3-125m", "local", accelerator="h100-80gb", processes_per_node=8, tokens="1B"
    )
    text = starter(wishes, catalog).text
    assert "  accelerator: h100-80gb\n  processes_per_node: 8\n" in text
    assert "global_batch_size: auto" in text
    plan = plan_run(resolve_basis(loads(text, "run.yaml"), catalog)).plan
    assert (plan.machines.accelerator, plan.machines.world_size) == ("h100-80gb", 8)
    wishes = replace(wishes, accelerator="none")
    assert "global_batch_size: 64 " in starter(wishes, catalog).text
    wishes = replace(wishes, profile="eks", accelerator="h100-80gb")
    with pytest.raises(FindingsError, match=r"cluster\.accelerator"):
        starter(wishes, catalog)
