# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""An `auto` global batch comes as near to its target as it can, and says where that is far."""

import re

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.search.verdicts import far_batch
from tests.unit.planning.search.asked import opened

PRIME = ("model.preset=mixtral-8x7b", "cluster.node_type=p5.48xlarge", "cluster.nodes=509")
"""Nodes that no layout divides, and a published batch of 256 sequences."""


def test_the_nearest_batch_wins_where_none_is_near(catalog: Catalog) -> None:
    run = plan_run(resolve_basis(opened(*PRIME), catalog))
    assert run.problem.target_batch == 256
    # Every legal batch is a multiple of 509, and that one fits.
    assert run.plan.batch.global_batch_size == 509
    assert run.outcome is not None
    batches = {found.candidate.global_batch_size for found in run.outcome.ranked}
    assert batches == {509}


def test_a_far_batch_is_said_with_nodes_on_which_it_is_near(catalog: Catalog) -> None:
    loaded = opened(*PRIME)
    (finding,) = far_batch(loaded, plan_run(resolve_basis(loaded, catalog)))
    assert (finding.code, finding.value) == ("ST-BATCH-004", "509")
    assert finding.where.field == "training.global_batch_size"
    named = re.search(r"Use (\d+) nodes", finding.fix)
    assert named is not None
    other = opened(*PRIME[:2], f"cluster.nodes={named[1]}")
    run = plan_run(resolve_basis(other, catalog))
    assert run.plan.batch.global_batch_size == pytest.approx(256, rel=1 / 8)
    assert far_batch(other, run) == []


def test_a_batch_that_is_given_is_nobodys_business(catalog: Catalog) -> None:
    loaded = opened(*PRIME, "training.global_batch_size=509")
    assert far_batch(loaded, plan_run(resolve_basis(loaded, catalog))) == []


def test_a_given_layout_that_keeps_the_batch_far_is_named(catalog: Catalog) -> None:
    loaded = opened("cluster.nodes=512", "parallelism.tp_size=2", "parallelism.pp_size=1")
    run = plan_run(resolve_basis(loaded, catalog))
    assert run.plan.batch.global_batch_size == 2048
    (finding,) = far_batch(loaded, run)
    assert finding.fix.startswith("Set parallelism and micro_batch_size to auto")
    free = opened("cluster.nodes=512")
    assert far_batch(free, plan_run(resolve_basis(free, catalog))) == []


def test_a_host_without_gpus_takes_the_nearest_batch_too(catalog: Catalog) -> None:
    local = "cluster={profile: local, processes_per_node: 8}"
    loaded = opened("model.preset=gpt3-125m", local, "training.micro_batch_size=1650")
    run = plan_run(resolve_basis(loaded, catalog))
    # dp 8 divides least and would have 13,200 sequences.
    assert run.problem.target_batch == 4096
    assert (run.plan.layout.dp_size, run.plan.batch.global_batch_size) == (2, 3300)
    assert [finding.value for finding in far_batch(loaded, run)] == ["3,300"]
