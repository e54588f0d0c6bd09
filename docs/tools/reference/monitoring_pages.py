# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The pages of anomalies, of metrics and alerts, and of the causes that a diagnosis can name."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from docs.tools.reference.markdown import code, fenced, link, member_docs, page, plain, table
from seatrial.monitoring.anomalies.detector import AnomalyRule
from seatrial.monitoring.anomalies.monitor import RULES
from seatrial.monitoring.diagnosis.knowledge import (
    Cause,
    Certainty,
    Knowledge,
    knowledge,
)
from seatrial.monitoring.goodput import Bucket
from seatrial.monitoring.prometheus import EXPORTED

ANOMALIES = """\
The anomalies that Seatrial detects while a run trains. The worker writes each one to the event log
as a finding when it starts and again when it ends. `watch` and `report` detect them in any log. See
[Anomalies while a run trains](../guides/anomalies.md) for where they are shown."""


def anomalies_page() -> str:
    rows = [(f"[{rule.title}](#{_slug(rule)})", code(rule.code), rule.severity) for rule in RULES]
    return page(
        "# Anomalies",
        ANOMALIES,
        table(("anomaly", "code", "severity"), rows),
        *[block for rule in RULES for block in _section(rule)],
    )


def _slug(rule: AnomalyRule) -> str:
    return rule.title.lower().replace(" ", "-")


def _section(rule: AnomalyRule) -> list[str]:
    looks = "one check" if rule.calm == 1 else f"{rule.calm} checks in a row"
    facts = {
        "threshold": rule.threshold,
        "number of steps": rule.steps,
        "why": rule.reason,
        "fix": rule.fix,
        "ends": f"After {looks} without it, or when the processes restart.",
    }
    rows = [(name, _words(text)) for name, text in facts.items()]
    return [f"## {rule.title}", table((code(rule.code), str(rule.severity)), rows)]


def _words(text: str) -> str:
    """Words outside of code that Markdown must not read as markup."""
    parts = text.split("`")
    return "`".join(part if place % 2 else plain(part) for place, part in enumerate(parts))


ALERTS = Path(__file__).parents[3] / "dashboards" / "rules.yaml"

METRICS = """\
The metrics that the worker exports to Prometheus. All come from its event log. Every series has the
label `run`; a PodMonitor adds `namespace` and `pod`. See [Watch runs with Prometheus, Grafana, W&B
and MLflow](../guides/monitoring.md)."""


def metrics_page() -> str:
    rows = [(code(m.name), str(m.form), ", ".join(map(code, m.label)), m.about) for m in EXPORTED]
    rules = YAML(typ="safe", pure=True).load(ALERTS.read_text(encoding="utf-8"))
    alerts = [rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule]
    return page(
        "# Metrics and alerts",
        METRICS,
        table(("metric", "type", "labels", "meaning"), rows),
        "Values of `bucket`:",
        table(("bucket", "meaning"), [(code(k), v) for k, v in member_docs(Bucket).items()]),
        "## Alerts",
        "From `dashboards/rules.yaml`; the chart installs them with `monitoring.rules.create`.",
        *(block for rule in alerts for block in _alert(rule)),
    )


def _alert(rule: dict[str, Any]) -> tuple[str, ...]:
    text = rule["annotations"]["description"].replace("{{ $labels.code }}", "a code")
    lasting = f", after {rule['for']}" if "for" in rule else ""
    return (
        f"### {rule['alert']}",
        f"{rule['labels']['severity'].capitalize()}{lasting}. {text}",
        fenced(rule["expr"]),
    )


def signatures_page() -> str:
    known = knowledge()
    return page(
        "# Causes and signatures",
        f"`seatrial diagnose` knows {len(known.causes)} causes by {len(known.signatures)} "
        f"signatures, and {len(known.symptoms)} symptoms that are always consequences. They are "
        "data files in `src/seatrial/monitoring/diagnosis/data`. A few more rules compare several "
        "ranks: collectives, exit codes, NCCL versions, and flight recorder dumps.",
        "How strongly a log line supports a cause:",
        table(("certainty", "meaning"), [(code(v), d) for v, d in member_docs(Certainty).items()]),
        *[block for cause in known.causes.values() for block in _of_cause(cause, known)],
        "## Symptoms",
        "Symptoms are always consequences and are never reported as a cause:",
        table(
            ("symptom", "says", "source"),
            [(code(one.name), one.says, link(one.source)) for one in known.symptoms],
        ),
    )


def _of_cause(cause: Cause, known: Knowledge) -> list[str]:
    signatures = [one for one in known.signatures if one.cause == cause.key]
    rows = [(code(one.name), one.certainty, link(one.source)) for one in signatures]
    words = [cause.says]
    if cause.slows:
        words.append("The run continues, but slower.")
    if cause.yields:
        words.append("If another cause is found, it explains this one.")
    if cause.before_start:
        words.append("If the run later failed for a different reason, it had recovered from this.")
    if cause.explained_by:
        words.append(f"Explained by: {', '.join(map(code, cause.explained_by))}.")
    return [
        f"## {cause.key}",
        " ".join(words),
        f"Do: {cause.do}",
        table(("signature", "certainty", "source"), rows)
        if rows
        else "Found by a rule, because no single line shows it.",
        *[fenced(one.example.strip()) for one in signatures[:1]],
    ]
