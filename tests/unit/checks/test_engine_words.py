# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of the engine are placed at the field that they speak of."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.checks.probes.engine import miscounted, refusal, unjudged
from seatrial.codes.checks import CheckCode
from seatrial.findings import Severity
from tests.unit.checks.examples import BASE

OPTIONS = "engine.options={ddp-average-in-collective: true, qk-layernorm: true}"


@pytest.mark.parametrize(
    ("reason", "field"),
    [
        ("--qk-layernorm is only supported with TE >= 2.9.0.", "engine.options.qk-layernorm"),
        ("ddp_average_in_collective is wrong", "engine.options.ddp-average-in-collective"),
        ("Must use overlap_grad_reduce with something", "performance.gradient_overlap"),
        ("world size (16) is not divisible by total_model_size", "cluster.nodes"),
        ("tensor_model_parallel_size is wrong", "parallelism.tp_size"),
        ("AssertionError", "engine.options.ddp-average-in-collective"),
    ],
)
def test_a_refusal_stands_at_the_field(reason: str, field: str, catalog: Catalog) -> None:
    situation = check(BASE, "run.yaml", catalog, (OPTIONS,)).situation
    assert situation is not None
    found = refusal(situation, reason).finding
    assert (found.code, found.where.field) == (CheckCode.REFUSED, field)
    assert reason.rstrip(".") in found.rule


def test_what_cannot_be_judged_here_is_a_note(catalog: Catalog) -> None:
    situation = check(BASE, "run.yaml", catalog).situation
    assert situation is not None
    found = unjudged(situation, "no GPU").finding
    assert (found.severity, found.where.field) == (Severity.NOTE, "engine.name")


def test_a_model_that_is_another_one_in_the_engine(catalog: Catalog) -> None:
    situation = check(BASE, "run.yaml", catalog).situation
    assert situation is not None
    (own,) = situation.plan.stage_parameters
    assert list(miscounted(situation, {0: own})) == []
    (found,) = miscounted(situation, {0: own - 64})
    assert found.finding.where.field == "model.preset"
    assert f"{own - 64:,} parameters, but the plan has {own:,}" in found.finding.rule
