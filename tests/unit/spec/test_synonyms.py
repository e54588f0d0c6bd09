# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The names of other tools lead to fields that exist."""

import pytest

from seatrial.spec.fields import all_fields, places_named
from seatrial.spec.synonyms import SYNONYMS, fields_meant


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
