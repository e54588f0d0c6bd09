# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page of metrics and of the alerts over them."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from scripts.reference.markdown import code, fenced, member_docs, page, table
from seatrial.monitoring.exported import EXPORTED
from seatrial.monitoring.goodput import Bucket

RULES = Path(__file__).parents[2] / "dashboards" / "rules.yaml"

INTRODUCTION = """\
What the worker serves to Prometheus, all from its event log. Every series has the label `run`;
a PodMonitor adds `namespace` and `pod`. The guide is [Watch runs with Prometheus, Grafana, W&B and
MLflow](../guides/monitoring.md)."""


def metrics_page() -> str:
    """The text of the page."""
    rows = [(code(m.name), str(m.form), ", ".join(map(code, m.label)), m.about) for m in EXPORTED]
    rules = YAML(typ="safe", pure=True).load(RULES.read_text(encoding="utf-8"))
    alerts = [rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule]
    return page(
        "# Metrics and alerts",
        INTRODUCTION,
        table(("metric", "type", "labels", "meaning"), rows),
        "Values of `bucket`:",
        table(("bucket", "meaning"), [(code(k), v) for k, v in member_docs(Bucket).items()]),
        "## Alerts",
        "From `dashboards/rules.yaml`; the chart installs them with `monitoring.rules.create`.",
        *(block for rule in alerts for block in _alert(rule)),
    )


def _alert(rule: dict[str, Any]) -> tuple[str, ...]:
    told = rule["annotations"]["description"].replace("{{ $labels.code }}", "a code")
    lasting = f", once it has lasted {rule['for']}" if "for" in rule else ""
    return (
        f"### {rule['alert']}",
        f"{rule['labels']['severity'].capitalize()}{lasting}. {told}",
        fenced(rule["expr"]),
    )
