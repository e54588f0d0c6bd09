# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write dashboards/run.json, the Grafana dashboard of runs, from the few lines that say what it is.

    python -m scripts.write_dashboard

Grafana's own form of a dashboard is long and says the same thing in every panel; a test compares
the file with what this would write.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = ROOT / "dashboards" / "run.json"
WIDTH = 24
"""Columns of Grafana's grid."""
RUN = '{namespace=~"$namespace", run=~"$run"}'
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """One line of a panel."""

    expression: str
    """PromQL; `%` stands for the chosen runs, and `%{...}` for those with a label more."""
    legend: str = "{{run}}"
    """What the line is called."""

    @property
    def promql(self) -> str:
        """The expression with the runs chosen."""
        more = self.expression.replace("%{", RUN.removesuffix("}") + ", ")
        return more.replace("%", RUN)


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture."""

    title: str
    """What it shows."""
    queries: tuple[Query, ...]
    """Its lines."""
    unit: str = "short"
    """Grafana's name of the unit."""
    about: str = ""
    """What to read in it."""
    form: str = "timeseries"
    """Grafana's kind of panel."""
    stacked: bool = False
    """Whether lines add up."""
    logarithmic: bool = False
    """Whether the axis is."""


def _one(title: str, expression: str, unit: str = "short", about: str = "") -> Panel:
    return Panel(title, (Query(expression),), unit, about, "stat")


def _line(title: str, expression: str, unit: str = "short", about: str = "") -> Panel:
    return Panel(title, (Query(f"max by (namespace, run) ({expression})"),), unit, about)


def _spread(title: str, metric: str, unit: str, about: str = "") -> Panel:
    queries = tuple(
        Query(f'max by (namespace, run) ({metric}%{{statistic="{name}"}})', f"{{{{run}}}} {name}")
        for name in ("max", "median", "min")
    )
    return Panel(title, queries, unit, about)


DONE = "max by (namespace, run) (seatrial_training_step%)"
GOODPUT = (
    'sum by (namespace, run) (max by (namespace, run, bucket) (seatrial_run_seconds_total%{bucket="'
    'training"})) / sum by (namespace, run) (max by (namespace, run, bucket) '
    "(seatrial_run_seconds_total%))"
)
PARTS = "rate(seatrial_step_part_seconds_total%[5m])"
ROWS: tuple[tuple[str, int, tuple[Panel, ...]], ...] = (
    (
        "Now",
        4,
        (
            _one("Step", DONE, "locale"),
            _one(
                "Done",
                f"{DONE} / max by (namespace, run) (seatrial_training_target_step%)",
                "percentunit",
            ),
            _one("Loss", "max by (namespace, run) (seatrial_training_loss%)"),
            _one(
                "Tokens per second",
                "sum by (namespace, run) (rate(seatrial_training_tokens_total%[5m]))",
                "locale",
            ),
            _one("Goodput", GOODPUT, "percentunit", "Share of all wall time that was new steps."),
            _one(
                "Last heard of",
                "time() - max by (namespace, run) (seatrial_last_event_timestamp_seconds%)",
                "s",
            ),
        ),
    ),
    (
        "Learning",
        8,
        (
            Panel(
                "Loss",
                (
                    Query("max by (namespace, run) (seatrial_training_loss%)"),
                    Query(
                        "max by (namespace, run, split) (seatrial_evaluation_loss%)",
                        "{{run}} {{split}}",
                    ),
                ),
            ),
            Panel(
                "Gradient norm",
                (Query("max by (namespace, run) (seatrial_training_grad_norm%)"),),
                logarithmic=True,
            ),
            _line("Learning rate", "seatrial_training_learning_rate%", "sci"),
        ),
    ),
    (
        "Speed",
        8,
        (
            Panel(
                "Tokens per second",
                (Query("sum by (namespace, run) (rate(seatrial_training_tokens_total%[5m]))"),),
                "locale",
            ),
            Panel(
                "Step time",
                (
                    Query("max by (namespace, run) (seatrial_step_duration_seconds%)"),
                    Query(
                        "max by (namespace, run) (seatrial_step_duration_median_seconds%)",
                        "{{run}} median of 50",
                    ),
                ),
                "s",
            ),
            Panel(
                "Parts of a step",
                (
                    Query(
                        f"sum by (namespace, run, part) ({PARTS}) / ignoring (part) group_left "
                        f"sum by (namespace, run) ({PARTS})",
                        "{{run}} {{part}}",
                    ),
                ),
                "percentunit",
                stacked=True,
            ),
        ),
    ),
    (
        "Ranks",
        8,
        (
            _spread(
                "Busy until waiting for others",
                "seatrial_rank_busy_seconds",
                "s",
                "A gap between max and median is a straggler.",
            ),
            _line("Slowest rank", "seatrial_slowest_rank%", "none"),
            _spread("Waiting for data", "seatrial_rank_data_seconds", "s"),
            _spread("Memory", "seatrial_rank_memory_bytes", "bytes"),
        ),
    ),
    (
        "Time, failures and checkpoints",
        8,
        (
            Panel(
                "Where the time went",
                (
                    Query(
                        "max by (namespace, run, bucket) (seatrial_run_seconds_total%)",
                        "{{run}} {{bucket}}",
                    ),
                ),
                "s",
                stacked=True,
            ),
            Panel(
                "Starts, failures, work done again",
                (
                    Query("max by (namespace, run) (seatrial_starts_total%)", "{{run}} starts"),
                    Query("max by (namespace, run) (seatrial_failures_total%)", "{{run}} failures"),
                    Query(
                        "max by (namespace, run) (seatrial_training_replayed_steps_total%)",
                        "{{run}} steps again",
                    ),
                ),
            ),
            Panel(
                "Findings",
                (
                    Query(
                        "max by (namespace, run, code) (seatrial_findings_total%)",
                        "{{run}} {{code}}",
                    ),
                ),
            ),
            Panel(
                "Steps since the newest checkpoint",
                (
                    Query(f"{DONE} - max by (namespace, run) (seatrial_checkpoint_step%)"),
                    Query(
                        "max by (namespace, run) (seatrial_checkpoint_interval_steps%)",
                        "{{run}} planned",
                    ),
                ),
            ),
        ),
    ),
)
"""The rows: title, height, panels."""


def dashboard() -> Json:
    """The dashboard as Grafana reads it."""
    panels: list[Json] = []
    top = 0
    for title, height, row in ROWS:
        place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
        head = {"type": "row", "title": title, "collapsed": False, "panels": []}
        panels.append({"id": len(panels) + 1, **head, "gridPos": place})
        width = WIDTH // len(row)
        for number, panel in enumerate(row):
            place = {"h": height, "w": width, "x": number * width, "y": top + 1}
            panels.append({"id": len(panels) + 1, **_panel(panel), "gridPos": place})
        top += height + 1
    return {
        "title": "Seatrial runs",
        "uid": "seatrial-runs",
        "tags": ["seatrial"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source(), _variable("namespace"), _variable("run")]},
        "annotations": {"list": [_restarts()]},
        "panels": panels,
    }


def _panel(panel: Panel) -> Json:
    settings: Json = {}
    options: Json = {}
    if panel.form == "timeseries":
        settings["custom"] = {"lineWidth": 1, "fillOpacity": 40 if panel.stacked else 0}
        settings["custom"]["showPoints"] = "never"
        if panel.stacked:
            settings["custom"]["stacking"] = {"mode": "normal", "group": "A"}
        if panel.logarithmic:
            settings["custom"]["scaleDistribution"] = {"type": "log", "log": 10}
        options = {"tooltip": {"mode": "multi", "sort": "desc"}}
        options["legend"] = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    else:
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "value_and_name"}
    return {
        "type": panel.form,
        "title": panel.title,
        "description": panel.about,
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "fieldConfig": {"defaults": {"unit": panel.unit, **settings}, "overrides": []},
        "options": options,
        "targets": [
            {"refId": chr(ord("A") + number), "expr": query.promql, "legendFormat": query.legend}
            for number, query in enumerate(panel.queries)
        ],
    }


def _source() -> Json:
    return {
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "label": "Prometheus",
    }


def _variable(label: str) -> Json:
    chosen = '{namespace=~"$namespace"}' if label == "run" else ""
    return {
        "name": label,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "query": f"label_values(seatrial_training_step{chosen}, {label})",
        "includeAll": True,
        "multi": True,
        # A Prometheus outside of a cluster knows no namespace.
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
        "sort": 1,
    }


def _restarts() -> Json:
    """A mark where training began again."""
    return {
        "name": "Starts",
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "enable": True,
        "iconColor": "orange",
        "expr": f"changes(seatrial_starts_total{RUN}[2m]) > 0",
        "titleFormat": "{{run}} starts",
        "step": "60s",
    }


def text() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
