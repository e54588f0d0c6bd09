# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine and the worker ask of the environment."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engines.megatron.environment import engine_environment
from seatrial.planning.resolve import resolve
from tests.conftest import loaded


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("parallelism.tp_size=1", "parallelism.sequence_parallel=false"), {}),
        ((), {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
        (
            ("data.tokenizer=hf://some/where@abc",),
            {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "SEATRIAL_TOKENIZER_REVISION": "abc"},
        ),
    ],
)
def test_the_environment_of_a_plan(overrides: tuple[str, ...], expected: dict[str, str]) -> None:
    assert engine_environment(resolve(loaded(*overrides), Catalog())) == expected
