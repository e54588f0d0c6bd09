# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The names of other tools lead to fields that exist."""

from pathlib import Path

import pytest

from seatrial.errors import FindingsError
from seatrial.spec.fields import all_fields, places_named
from seatrial.spec.loader import loads
from seatrial.spec.other_tool_names import SYNONYMS, fields_meant


def test_every_name_leads_to_fields_of_the_spec() -> None:
    known = {field.name for field in all_fields().values()}
    assert {field for fields in SYNONYMS.values() for field in fields} <= known


def test_no_name_of_another_tool_is_one_of_ours() -> None:
    assert [name for name in SYNONYMS if places_named(name)] == []


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("tensor_model_parallel_size", "parallelism.tp_size"),
        ("--tensor-model-parallel-size", "parallelism.tp_size"),
        ("tp", "parallelism.tp_size"),
        ("pp", "parallelism.pp_size"),
        ("lr", "training.learning_rate.peak"),
        ("train-iters", "training.steps"),
        ("max_steps", "training.steps"),
        ("seq_length", "training.sequence_length"),
        ("num_layers", "model.dimensions.layers"),
        ("gpus_per_node", "cluster.processes_per_node"),
        ("num_nodes", "cluster.nodes"),
    ],
)
def test_well_known_names(name: str, field: str) -> None:
    assert fields_meant(name) == (field,)


def test_a_name_of_nothing_leads_nowhere() -> None:
    assert fields_meant("zebra") == ()


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("nodeSelector", "cluster.node_selector"),
        ("node_labels", "cluster.node_selector"),
        ("affinity", "cluster.node_selector"),
        ("taints", "cluster.tolerations"),
        ("shm_size", "cluster.shm"),
        ("pod_labels", "cluster.labels"),
        ("podAnnotations", "annotations"),
    ],
)
def test_a_name_of_kubernetes_leads_to_the_field_of_a_spec(key: str, place: str) -> None:
    good = (Path(__file__).parent / "good.yaml").read_text(encoding="utf-8")
    with pytest.raises(FindingsError) as caught:
        loads(good, "run.yaml", (f"cluster.{key}=x",))
    (finding,) = caught.value.findings
    assert place in finding.fix
