# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every code that Seatrial can report, with its meaning."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from seatrial.codes.anomalies import AnomalyCode
from seatrial.codes.catalog import CatalogCode
from seatrial.codes.checkpoints import CheckpointCode
from seatrial.codes.checks import CheckCode
from seatrial.codes.cluster import ClusterCode
from seatrial.codes.cluster_checks import SiteCode
from seatrial.codes.data import InputCode
from seatrial.codes.datasets import DatasetCode
from seatrial.codes.engines import EngineCode
from seatrial.codes.exchange import ExchangeCode
from seatrial.codes.huggingface import HubConfigCode
from seatrial.codes.planning import PlanCode
from seatrial.codes.preflight import PreflightCode
from seatrial.codes.rendering import RenderCode
from seatrial.codes.resume import ResumeCode
from seatrial.codes.runs import RunCode
from seatrial.codes.spec import SpecCode
from seatrial.codes.supervisor import SupervisorCode
from seatrial.docstrings import field_docs

AREAS: dict[type[StrEnum], tuple[str, str]] = {
    SpecCode: ("spec", "Reading a spec"),
    PlanCode: ("planning", "Resolving a plan"),
    EngineCode: ("engines", "Engine options"),
    CheckCode: ("checks", "Checking a run"),
    SiteCode: ("checks", "Checking a cluster for a run"),
    ResumeCode: ("checks", "Checking the checkpoint that a run resumes from"),
    CatalogCode: ("catalog", "Reading the catalog"),
    HubConfigCode: ("huggingface", "Reading a published config.json"),
    InputCode: ("dataprep", "Reading raw text"),
    DatasetCode: ("dataprep", "Verifying prepared data"),
    RenderCode: ("rendering", "Rendering manifests"),
    PreflightCode: ("worker", "Preflight checks of a node"),
    CheckpointCode: ("checkpoints", "Verifying and resuming from checkpoints"),
    ExchangeCode: ("checkpoints", "Exporting and importing weights"),
    SupervisorCode: ("worker", "Supervising the processes on a node"),
    ClusterCode: ("cluster", "Connecting to a cluster"),
    RunCode: ("runs", "Launching and explaining runs"),
    AnomalyCode: ("monitoring", "Monitoring a run"),
}
"""All code enums, in the order of the reference, with package and section title."""


@dataclass(frozen=True, slots=True)
class KnownCode:
    """A code with its meaning."""

    code: str
    """Such as `ST-PLAN-001`."""
    meaning: str
    """The meaning of the code, as a sentence."""
    part: str
    """The package that reports the code."""


@cache
def known_codes() -> dict[str, KnownCode]:
    """Return all codes, sorted by name."""
    found = {}
    for codes, (part, _) in AREAS.items():
        docs = field_docs(codes)
        for code in codes:
            meaning = " ".join(docs[code.name].split())
            found[str(code)] = KnownCode(str(code), meaning, part)
    return dict(sorted(found.items()))
