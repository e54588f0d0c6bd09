# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the catch rates of `seatrial check`, and texts of findings, into docs/guides/check.md.

    python -m backtest.checks.rates_page

The rates are those stored by `backtest.checks.score SET --save docs/figures/checks-SET.json`. That
of the second set was scored once, before anybody who wrote rules had seen it. The findings are
those of the first set's own cases, run now.
"""

import io
import json
import shlex
from dataclasses import replace

from backtest.checks.score import SETS, Score, broken_of, rates_of
from docs.tools.page_parts import ROOT, put, table
from seatrial.catalog.catalog import default_catalog
from seatrial.checks.repairs.repair import repair_of
from seatrial.findings import Severity
from seatrial.reports.terminal import say_findings

PAGE = ROOT / "docs" / "guides" / "check.md"
FIGURES = ROOT / "docs" / "figures"
SHOWN = (
    *("136-operator-crashing", "138-queue-too-small", "142-claim-for-one-node"),
    *("144-claim-in-another-namespace", "146-efa-not-advertised", "147-gpus-not-advertised"),
    *("148-fewer-nodes-than-asked-for", "150-taint-not-tolerated", "151-secret-with-another-key"),
    *("155-quota-too-small", "157-namespace-that-forbids-root", "163-resume-optimizer-resharded"),
    *("164-resume-schedule-changed", "166-resume-blend-changed", "168-resume-tracker-ahead"),
)
"""Cases of the first set whose findings are shown."""


def main() -> None:
    put(PAGE, {"rates": rates_text(), "cluster-findings": findings_text()})


def rates_text() -> str:
    """A table of the rates, part by part and set by set."""
    rows: list[list[str]] = []
    for name in ("first", "second"):
        # What --fix writes was added after the second set was scored: of that, as it is today.
        now = _scores("second-mended" if name == "second" else name)
        written = {score.name for score in now if score.written}
        scores = [replace(score, written=score.name in written) for score in _scores(name)]
        rates = rates_of(scores)
        rows += [[name, part, *counts.values()] for part, counts in rates]
    return table(("set", "part", *rates[0][1]), rows)


def _scores(name: str) -> list[Score]:
    file = FIGURES / f"checks-{name}.json"
    return [Score(**row) for row in json.loads(file.read_text(encoding="utf-8"))]


def findings_text() -> str:
    catalog, out = default_catalog(), io.StringIO()
    said = set[str]()
    for name in SHOWN:
        folder = SETS / "first" / name
        kind = "resume" if "-resume-" in name else "cluster"
        broken = broken_of(folder, kind, catalog)
        for found in broken.again().checked:
            # One about an image that the cases share is shown once.
            if found.finding.severity is Severity.NOTE or found.finding.rule in said:
                continue
            said.add(found.finding.rule)
            say_findings([found.finding], out)
            repair = repair_of(broken, found)
            if repair is not None:
                out.write(f"        change: {' '.join(map(shlex.quote, repair.overrides))}\n")
    return f"```text\n{out.getvalue().rstrip()}\n```"


if __name__ == "__main__":
    main()
