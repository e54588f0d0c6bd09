# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The epochs that a run makes of a corpus, in an estimate."""

from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.cli.data_summary import epochs_line
from seatrial.dataprep.estimate import Range, estimate, wanted_tokens
from seatrial.sdk.plan import plan
from tests.unit.dataprep.little_corpus import write_corpus


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_corpus(tmp_path)


def test_without_weights_all_sources_are_read_equally_often(spec: Path) -> None:
    wanted = plan(spec)
    found = estimate(wanted, 1)
    assert found.wanted_tokens == wanted_tokens(wanted) == 8 * 1024
    shares = wanted.spec.data.split
    held = found.tokens.middle * shares[0] / sum(shares)
    for source in found.sources:
        assert source.epochs is not None
        assert source.epochs.middle == pytest.approx(found.wanted_tokens / held)
    assert epochs_line(found).startswith(f"{found.wanted_tokens / held:.1f}: the run reads ")


def test_weights_decide_how_often_a_source_is_read(spec: Path) -> None:
    weights = [f"data.sources[{number}].weight={number + 1}" for number in range(3)]
    found = estimate(plan(spec, weights), 1)
    for number, source in enumerate(found.sources):
        assert source.epochs is not None
        held = source.tokens.middle * found.training_share
        part = found.wanted_tokens * (number + 1) / 6
        assert source.epochs.middle == pytest.approx(part / held)
    assert "s0 " in epochs_line(found)
    assert "split by weight" in epochs_line(found)


def test_the_size_of_prepared_sources_is_unknown(spec: Path) -> None:
    sources = f"data.sources=[{{from: {spec.parent}/corpus/s0}}, {{prepared: /data/other}}]"
    found = estimate(plan(spec, [sources]), 1)
    assert found.sources[0].epochs is None
    assert epochs_line(found) == ""


def test_many_epochs_are_pointed_out(spec: Path) -> None:
    found = estimate(plan(spec), 1)
    many = replace(found.sources[0], epochs=Range(900.0, 1000.0, 1100.0))
    line = epochs_line(replace(found, sources=(many,)))
    assert line.startswith("1,000 ± 10 %: the run reads")
    assert line.endswith("Above 4 epochs, repeated data train much worse than new")
