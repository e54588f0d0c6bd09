# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial diagnose`: what a person sees, and what a program gets."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seatrial.cli.diagnose import app

FIRST = Path(__file__).parents[2] / "data" / "failures" / "first"


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")


def said(*words: object, given: str = "") -> str:
    """What the command prints."""
    result = CliRunner().invoke(app, [str(w) for w in words], input=given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_cause_with_proof_consequences_and_what_to_do() -> None:
    """The answer first, how certain it is at the end of its line."""
    lines = said(FIRST / "funasr-2006").splitlines()
    assert lines[0].startswith("1  Rank 2 asked for 336.00 MiB of GPU memory")
    assert lines[0].endswith("certain")
    assert lines[1].startswith("   worker-0.log:3  [rank2]: torch.cuda.OutOfMemoryError")
    assert any(line.startswith("   Do: ") for line in lines)
    assert any("followed: ranks gave up waiting in a collective (rank 5)" in one for one in lines)
    assert max(map(len, lines)) <= 100


def test_the_unknown_is_called_so() -> None:
    """No guess, but what was said last and how to learn more."""
    lines = said(FIRST / "megatron-735" / "ranks.log").splitlines()
    assert lines[0] == "unknown  No known cause explains what was said at the end."
    assert any("TORCH_FR_BUFFER_SIZE" in line for line in lines)


def test_standard_input_and_no_failure() -> None:
    """A log without trouble is said to be one."""
    assert said("-", given="all is well\n") == "unknown  Nothing here tells of a failure.\n"


def test_json_has_all_of_it() -> None:
    """A program gets keys, certainty and places."""
    found = json.loads(said(FIRST / "engine-port-in-use", "--json"))
    assert found["causes"][0]["key"] == "port-in-use"
    assert found["causes"][0]["certainty"] == "certain"
    assert found["causes"][0]["proofs"][0]["line"] > 0
