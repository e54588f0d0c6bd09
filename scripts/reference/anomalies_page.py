# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page of anomalies: what is watched for while a run trains."""

from scripts.reference.markdown import code, page, plain, table
from seatrial.monitoring.anomalies.detector import Rule
from seatrial.monitoring.anomalies.registry import RULES

INTRODUCTION = """\
What is watched for while a run trains: by the worker, which writes findings into the event log as
they happen, and by whoever reads a log. [Anomalies while a run trains](../guides/anomalies.md) says
where they are seen. Each is told once when it begins and once when it is over."""


def anomalies_page() -> str:
    """The text of the page."""
    rows = [(f"[{rule.title}](#{_slug(rule)})", code(rule.code), rule.severity) for rule in RULES]
    return page(
        "# Anomalies",
        INTRODUCTION,
        table(("anomaly", "code", "severity"), rows),
        *[block for rule in RULES for block in _section(rule)],
    )


def _slug(rule: Rule) -> str:
    """What a heading's link is called."""
    return rule.title.lower().replace(" ", "-")


def _section(rule: Rule) -> list[str]:
    """One anomaly."""
    told = {
        "threshold": rule.threshold,
        "number of steps": rule.steps,
        "why": rule.reason,
        "what to do": rule.fix,
        "over": f"After {_looks(rule.calm)} without it, or when the processes start again.",
    }
    rows = [(name, _words(text)) for name, text in told.items()]
    return [f"## {rule.title}", table((code(rule.code), str(rule.severity)), rows)]


def _words(text: str) -> str:
    """Words outside of code that Markdown must not read as markup."""
    parts = text.split("`")
    return "`".join(part if place % 2 else plain(part) for place, part in enumerate(parts))


def _looks(count: int) -> str:
    return "one look" if count == 1 else f"{count} looks in a row"
