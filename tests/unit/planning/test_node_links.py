# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Layouts on nodes whose GPUs share NVLink with other nodes, which pods do not get."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.codes.planning import PlanCode
from seatrial.errors import FindingsError
from tests.conftest import loaded, plan_spec

RACK = (
    "cluster={profile: aks, node_type: Standard_ND128isr_GB300_v6, nodes: 8}",
    "training.global_batch_size=64",
)


@pytest.mark.parametrize(
    ("given", "field", "largest"),
    [
        ("{tp_size: 8}", "tp_size", 4),
        ("{tp_size: 8, pp_size: 1, cp_size: 1}", "tp_size", 4),
        ("{tp_size: 4, pp_size: 1, cp_size: 2}", "cp_size", 1),
        ("{tp_size: 2, pp_size: 1, cp_size: 8}", "cp_size", 2),
    ],
)
def test_groups_that_need_nvlink_between_nodes_are_refused(
    given: str, field: str, largest: int, catalog: Catalog
) -> None:
    with pytest.raises(FindingsError) as raised:
        plan_spec(loaded(*RACK, f"parallelism={given}"), catalog)
    (found,) = [each for each in raised.value.findings if each.code == PlanCode.NODE_LINKS]
    assert found.where.field == f"parallelism.{field}"
    assert "NVLink between nodes" in found.rule
    assert f"{field} {largest} or less" in found.fix


def test_expert_groups_stay_within_a_node_too(catalog: Catalog) -> None:
    experts = (*RACK, "model={preset: mixtral-8x7b}", "data={mock: true}")
    given = "parallelism={tp_size: 1, pp_size: 1, cp_size: 1, ep_size: 8}"
    with pytest.raises(FindingsError) as raised:
        plan_spec(loaded(*experts, given), catalog)
    assert [f.where.field for f in raised.value.findings if f.code == PlanCode.NODE_LINKS] == [
        "parallelism.ep_size"
    ]


def test_the_planner_keeps_groups_within_a_node_of_a_rack(catalog: Catalog) -> None:
    plan = plan_spec(loaded(*RACK, "parallelism=null", "model.preset=gpt3-175b"), catalog)
    layout = plan.layout
    assert layout.tp_size * layout.cp_size <= plan.machines.processes_per_node == 4
    assert layout.pp_size > 1
