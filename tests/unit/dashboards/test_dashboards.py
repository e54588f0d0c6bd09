# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The dashboard and the alerts ask for metrics that there are, and Prometheus understands them."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from seatrial.monitoring.goodput import Bucket
from seatrial.monitoring.prometheus import EXPORTED
from tests.debian import unpacked

ROOT = Path(__file__).parents[3]
RULES = ROOT / "dashboards" / "rules.yaml"
DASHBOARD = json.loads((ROOT / "dashboards" / "run.json").read_text(encoding="utf-8"))
COLUMNS = 24
"""Of Grafana's grid."""
CASES = Path(__file__).parent / "rules.test.yaml"
METRIC = re.compile(r"\bseatrial_[a-z_]+")
LABEL = re.compile(r'\b(\w+)=~?"([^"]*)"')

needs_promtool = pytest.mark.skipif(
    not (shutil.which("promtool") or shutil.which("apt-get")),
    reason="needs promtool, or apt-get to take it out of Debian's package prometheus",
)


def read_yaml(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


def rules() -> list[dict[str, Any]]:
    return [rule for group in read_yaml(RULES)["groups"] for rule in group["rules"]]


def alerts() -> list[str]:
    return [rule["alert"] for rule in rules() if "alert" in rule]


def expressions() -> Iterator[str]:
    """Every query of the dashboard and the rules."""
    yield from (rule["expr"] for rule in rules())
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (mark["expr"] for mark in DASHBOARD["annotations"]["list"])
    yield from (each["query"] for each in DASHBOARD["templating"]["list"])


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    command = [unpacked("promtool", "prometheus"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_metric_that_is_asked_for_is_exported() -> None:
    exported = {metric.name for metric in EXPORTED}
    asked: set[str] = set()
    for expression in expressions():
        # A recorded series has its own name, with colons.
        asked |= set(METRIC.findall(re.sub(r"\w+:\w+:\w+", "", expression)))
    assert len(asked) > 20
    assert asked <= exported


def test_every_recorded_series_that_is_asked_for_is_recorded() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    asked = {name for each in expressions() for name in re.findall(r"\w+:\w+:\w+", each)}
    assert asked == recorded


def test_labels_that_are_asked_for_have_those_values() -> None:
    known = {
        "bucket": {str(bucket) for bucket in Bucket},
        "statistic": {"min", "median", "max"},
        "part": {"data", "compute", "gradients", "optimizer", "other"},
        # Labels of the DCGM exporter: pods are named after their run.
        "pod": {"($run)-.*"},
        "exported_pod": {"($run)-.*"},
        "exported_namespace": {"$namespace"},
    }
    for expression in expressions():
        for label, value in LABEL.findall(expression):
            if label in ("namespace", "run"):
                assert value == f"${label}"
            else:
                assert value in known[label], expression


def test_no_panel_covers_another() -> None:
    taken: set[tuple[int, int]] = set()
    panels = DASHBOARD["panels"]
    for panel in panels:
        at = panel["gridPos"]
        rows, columns = range(at["y"], at["y"] + at["h"]), range(at["x"], at["x"] + at["w"])
        cells = {(row, column) for row in rows for column in columns}
        assert not cells & taken, panel["title"]
        assert max(columns) < COLUMNS
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


@needs_promtool
def test_prometheus_takes_the_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_every_alert_fires_and_stays_silent_when_it_should() -> None:
    done = promtool("test", "rules", str(CASES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    fires: dict[str, set[bool]] = {}
    for case in read_yaml(CASES)["tests"]:
        for test in case["alert_rule_test"]:
            fires.setdefault(test["alertname"], set()).add(bool(test["exp_alerts"]))
    assert fires == {name: {True, False} for name in alerts()}


@needs_promtool
@pytest.mark.parametrize("name", alerts())
def test_the_cases_of_an_alert_notice_another_number(name: str, tmp_path: Path) -> None:
    """A case that passes whatever the rule says would be worth nothing."""
    told = read_yaml(RULES)
    for rule in told["groups"][0]["rules"]:
        if rule.get("alert") == name:
            rule["expr"] = _with_other_number(rule["expr"])
    (tmp_path / "rules.yaml").write_text(json.dumps(told))
    cases = read_yaml(CASES)
    cases["rule_files"] = [str(tmp_path / "rules.yaml")]
    cases["tests"] = [case for case in cases["tests"] if case["name"] == name]
    (tmp_path / "cases.yaml").write_text(json.dumps(cases))
    done = promtool("test", "rules", str(tmp_path / "cases.yaml"))
    assert done.returncode != 0
    assert name in done.stdout + done.stderr


def _with_other_number(expression: str) -> str:
    """The expression with each threshold a hundred times as high."""
    found = re.compile(r"([<>]=?\s*)(\d+(?:\.\d+)?)")
    if found.search(expression):
        return found.sub(lambda m: f"{m[1]}{(float(m[2]) + 1) * 100}", expression)
    return re.sub(r"(\d+) \*|, (\d+)\)", lambda m: m[0].replace(m[1] or m[2], "900000"), expression)


def test_the_dashboard_names_no_source_of_data() -> None:
    panels = DASHBOARD["panels"]
    sources = {panel["datasource"]["uid"] for panel in panels if "datasource" in panel}
    assert sources == {"$datasource"}


@needs_promtool
def test_prometheus_understands_every_query_of_the_dashboard(tmp_path: Path) -> None:
    queries = [t["expr"] for panel in DASHBOARD["panels"] for t in panel.get("targets", ())]
    queries += [mark["expr"] for mark in DASHBOARD["annotations"]["list"]]
    made = [{"record": f"query:{n}", "expr": query} for n, query in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": made}]}))
    done = promtool("check", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(made) > 25
