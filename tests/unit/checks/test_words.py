# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Words of findings: of one thing in the singular, and advice about what takes the time."""

from backtest.checks.score import SETS
from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.codes.planning import PlanCode
from tests.unit.checks.examples import BASE


def test_one_rank_is_one(catalog: Catalog) -> None:
    alone = ("cluster.nodes=1", "cluster.processes_per_node=1")
    (found,) = [f for f in check(BASE, "r", catalog, alone).findings if f.code == PlanCode.WORLD]
    assert found.rule.startswith("1 rank is not divisible")


def test_one_gpu_is_one(catalog: Catalog) -> None:
    small = ("cluster.nodes=4", "cluster.node_type=Standard_NC24ads_A100_v4")
    many = (*small, "cluster.processes_per_node=8")
    rules = [f.rule for f in check(BASE, "r", catalog, many).findings]
    assert "8 processes would share the 1 GPU on Standard_NC24ads_A100_v4." in rules
    wide = [f.rule for f in check(BASE, "r", catalog, small).findings]
    assert any("exceeds the one GPU on a node" in rule for rule in wide), wide


def test_restarts_are_not_blamed_for_the_time_of_saves(catalog: Catalog) -> None:
    text = (SETS / "first" / "148-fewer-nodes-than-asked-for" / "run.yaml").read_text()
    found = check(text, "run.yaml", catalog).findings
    (lost,) = [finding for finding in found if finding.code == PlanCode.LOST_TIME]
    assert "failures and restarts 0 %" in lost.rule
    assert lost.fix == (
        "No action needed: in a longer run, saves take a smaller share of the time."
    )
