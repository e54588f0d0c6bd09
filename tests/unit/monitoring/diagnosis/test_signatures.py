# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every signature by itself: its example, its source, its cause."""

import tomllib
from pathlib import Path

import pytest

from seatrial.monitoring.diagnosis.diagnosis import diagnose
from seatrial.monitoring.diagnosis.evidence import Evidence, EvidenceKind, text_file
from seatrial.monitoring.diagnosis.excerpt import read_excerpt
from seatrial.monitoring.diagnosis.knowledge import UNKNOWN, Signature, knowledge
from seatrial.monitoring.diagnosis.sighting import sightings

KNOWN = knowledge()
FROZEN = Path("tests/data/failures/first/causes.toml")
BY_RULE = {"save-outlasts-timeout", "startup-outlasts-timeout"}
"""Causes that no single line tells of."""


def name_of(signature: Signature) -> str:
    """How pytest calls it."""
    return signature.name


@pytest.mark.parametrize("signature", [*KNOWN.signatures, *KNOWN.symptoms], ids=name_of)
def test_the_example_is_found(signature: Signature) -> None:
    """A pattern that does not match its own example, or is never looked at, says nothing."""
    file = text_file("example.log", signature.example, EvidenceKind.LOG)
    assert list(sightings(read_excerpt(file), [signature]))


@pytest.mark.parametrize("signature", KNOWN.signatures, ids=name_of)
def test_the_example_leads_to_its_cause(signature: Signature) -> None:
    """No other signature takes the example away."""
    file = text_file("example.log", signature.example, EvidenceKind.LOG)
    found = diagnose(Evidence((file,)))
    assert found.first == signature.cause
    assert found.causes[0].certainty.order >= signature.certainty.order


@pytest.mark.parametrize("symptom", KNOWN.symptoms, ids=name_of)
def test_a_symptom_alone_is_no_cause(symptom: Signature) -> None:
    """What is only ever a consequence leaves the cause unknown."""
    found = diagnose(Evidence((text_file("example.log", symptom.example),)))
    assert found.first == UNKNOWN
    assert symptom.says in [one.says for one in found.consequences]


def test_names_are_unique_and_sources_are_given() -> None:
    """A signature can be named and looked up."""
    all_known = [*KNOWN.signatures, *KNOWN.symptoms]
    assert len({signature.name for signature in all_known}) == len(all_known)
    for signature in all_known:
        assert signature.source.startswith(("https://", "seatrial.")), signature.name


def test_causes_are_defined_and_found() -> None:
    """Every cause has a signature or a rule, and every name of one is defined."""
    told = {signature.cause for signature in KNOWN.signatures}
    assert told | BY_RULE == set(KNOWN.causes)
    for cause in KNOWN.causes.values():
        assert set(cause.explained_by) <= set(KNOWN.causes), cause.key
        assert cause.says.endswith(".")
        assert cause.do.endswith(".")


REWORDED = frozenset(
    [
        "admission-refused",
        "arguments-refused",
        "checkpoint-damaged",
        "checkpoint-layout-mismatch",
        "checkpoint-pickle-refused",
        "collective-mismatch",
        "data-missing",
        "disk-full",
        "fabric-fallback-to-tcp",
        "fabric-link-down",
        "gpu-library-mismatch",
        "gpu-out-of-memory",
        "hub-rate-limited",
        "index-cache-not-seen",
        "nan-in-training",
        "nccl-version-mismatch",
        "pod-evicted",
        "quota-exceeded",
        "rank-killed",
        "rendezvous-timeout",
        "shared-memory-too-small",
        "stale-shared-memory",
        "startup-outlasts-timeout",
        "storage-stalled",
        "terminated",
        "tracker-unreadable",
        "unschedulable",
        "vocabulary-mismatch",
    ]
)
"""Causes whose sentence has the same meaning in other words than in the frozen set."""


def test_causes_mean_what_the_frozen_set_means() -> None:
    """The keys of the recorded failures have the same sentence here, unless it was reworded."""
    frozen = tomllib.loads(FROZEN.read_text(encoding="utf-8"))
    known = {key: says for key, says in frozen.items() if key != UNKNOWN}
    assert {key for key, says in known.items() if KNOWN.causes[key].says != says} == REWORDED


def test_an_error_of_the_fabric_is_no_error_of_a_file_system() -> None:
    line = (
        "ip-10-0-0-7:201:377 [3] NCCL WARN NET/OFI Request completed with error. (Remote I/O error)"
    )
    found = diagnose(Evidence((text_file("example.log", line, EvidenceKind.LOG),)))
    assert found.first != "storage-failed"
