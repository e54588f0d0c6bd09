# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The diagnosis on recorded failures, and on logs of runs that did not fail."""

from pathlib import Path

import pytest

from backtest.diagnosis import Score, frozen, scores
from seatrial.monitoring.diagnosis.diagnosis import diagnose
from seatrial.monitoring.diagnosis.evidence import Evidence, EvidenceKind, text_file

FIRST = Path("tests/data/failures/first")
SECOND = Path("tests/data/failures/second")
LOGS = Path("tests/data/logs")
SCORES = scores(FIRST)
WITH_NAN = "megatron-0.18.log"


@pytest.mark.parametrize("directory", [FIRST, SECOND], ids=lambda path: path.name)
def test_the_set_is_as_it_was_frozen(directory: Path) -> None:
    """Evidence that is changed after the fact scores nothing."""
    assert frozen(directory)


def test_failures_that_no_signature_was_tried_on() -> None:
    """The second set came after the signatures: nine of ten are right, no claim is wrong."""
    second = scores(SECOND)
    assert len(second) == 20
    assert sum(score.is_right for score in second) >= 0.9 * len(second)
    assert not [score.name for score in second if score.is_confident and not score.is_right]


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
def test_the_cause_comes_first(score: Score) -> None:
    """The first set is what signatures were tried on: all of it is right."""
    assert score.diagnosis.first == score.cause


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
def test_the_proofs_are_lines_of_the_evidence(score: Score) -> None:
    """What is shown as proof stands where it is said to stand."""
    for cause in score.diagnosis.causes:
        assert cause.proofs
        for proof in cause.proofs:
            text = (FIRST / score.name / proof.file).read_text(encoding="utf-8")
            assert text.splitlines()[proof.line - 1].strip() == proof.text


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.name)
def test_a_log_without_a_failure_has_no_cause(path: Path) -> None:
    """Healthy logs of many versions; one of them has a loss that is no number."""
    text = path.read_text(encoding="utf-8", errors="replace")
    found = diagnose(Evidence((text_file(path.name, text, EvidenceKind.LOG),)))
    wanted = ["nan-in-training"] if path.name == WITH_NAN else []
    assert [cause.key for cause in found.causes] == wanted
