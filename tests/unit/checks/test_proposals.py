# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What of the words of a fix becomes a change, and what does not."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checks.repairs.proposals import proposals
from seatrial.codes.engines import EngineCode
from seatrial.codes.planning import PlanCode
from seatrial.findings import Finding, Severity, Where


def proposed(field: str, fix: str) -> list[tuple[str, ...]]:
    finding = Finding("ST-TEST-001", Severity.ERROR, Where(field), "a rule.", "a value", fix)
    return [repair.overrides for repair in proposals(finding, {}, None, Catalog())]


@pytest.mark.parametrize(
    ("fix", "values"),
    [
        ("Use 896 or 1024.", ["896", "1024"]),
        ("Use at most 2,048. Or split it.", ["2048"]),
        ("Did you mean p5.48xlarge?", ["p5.48xlarge"]),
        ("Use one of: a, b, or c.", ["a", "b", "c"]),
        (
            "Use lowercase letters, digits, hyphens and dots, with a letter or digit at each end.",
            [],
        ),
        ("Write a number such as 100, 100k or 1.5M.", []),
    ],
)
def test_only_a_fix_that_is_nothing_but_values_is_taken(fix: str, values: list[str]) -> None:
    field = "cluster.queue"
    assert proposed(field, fix) == [*((f"{field}={v}",) for v in values), (f"{field}=null",)]


def test_null_is_for_fields_that_may_be_absent() -> None:
    assert ("cluster.queue=null",) in proposed("cluster.queue", "Change it.")
    assert ("cluster.namespace=null",) not in proposed("cluster.namespace", "Change it.")


def test_auto_is_for_fields_that_the_planner_fills() -> None:
    assert ("parallelism.tp_size=auto",) in proposed("parallelism.tp_size", "Change it.")
    assert ("continue_from.run=auto",) not in proposed("continue_from.run", "Change it.")


def test_the_nodes_that_a_fix_names_are_tried_with_an_open_layout() -> None:
    fix = "Use at least 1,005 nodes, with parallelism left to the planner (auto)."
    field = Where("cluster.nodes")
    finding = Finding(PlanCode.NO_FIT, Severity.ERROR, field, "nothing fits.", "", fix)
    spec = {"cluster": {"nodes": 2}}
    tried = [repair.overrides for repair in proposals(finding, spec, None, Catalog())]
    named = ("cluster.nodes=1005", "parallelism=null", "training.micro_batch_size=auto")
    more = [change for change in tried if any(word.startswith("cluster.nodes=") for word in change)]
    assert more[0] == named


def test_a_decay_that_begins_too_early_is_made_a_tenth_of_the_run() -> None:
    field = Where("training.learning_rate.anneal")
    finding = Finding(PlanCode.ANNEAL, Severity.ERROR, field, "too early.", "", "Shorten it.")
    first = next(iter(proposals(finding, {}, None, Catalog())))
    assert first.overrides == ("training.learning_rate.anneal={fraction: 0.1}",)


@pytest.mark.parametrize(
    ("option", "value", "field", "kept"),
    [
        ("cross-entropy-loss-fusion", False, "fused_loss", "false"),
        ("overlap_grad_reduce", True, "gradient_overlap", "true"),
        ("no-overlap-p2p-communication", True, "pipeline_overlap", "false"),
        ("optimizer-offload-fraction", 0.5, "optimizer_offload", "0.5"),
    ],
)
def test_the_value_of_an_option_moves_to_its_field(
    option: str, value: object, field: str, kept: str
) -> None:
    fix = f"Set performance.{field} instead."
    where = Where(f"engine.options.{option}")
    finding = Finding(EngineCode.MODELLED_OPTION, Severity.ERROR, where, "set twice.", "", fix)
    spec = {"engine": {"options": {option: value, "timing-log-level": 1}}}
    tried = [repair.overrides for repair in proposals(finding, spec, None, Catalog())]
    left = 'engine.options={"timing-log-level": 1}'
    assert tried[:2] == [(left, f"performance.{field}={kept}"), (left,)]
