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
from collections import Counter
from typing import Any

from backtest.checks.score import PARTS, SETS, STATIC, broken_of, part_of, right_codes
from docs.tools.page_parts import ROOT, put
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
Row = dict[str, Any]


def main() -> None:
    texts = {"rates": rates_text(), "cluster-findings": findings_text()}
    put(PAGE, texts)


def rates_text() -> str:
    """A table of the rates, part by part and set by set."""
    lines = [
        "| set | part | runs | caught | with the right code | caught, and the fix of the case "
        "removes the finding | a change that the check proposes removes it | none is proposed | "
        "`--fix` writes a change |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in ("first", "second"):
        rows = _rows(f"checks-{name}.json")
        written = {row["name"] for row in _now(name) if row.get("written")}
        for part in ("all", STATIC, *PARTS.values()):
            alike = [row for row in rows if part in ("all", part_of(row["kind"]))]
            if alike:
                caught = [row for row in alike if row["caught"]]
                right = [row for row in caught if row["caught"] == right_codes()[row["name"]]]
                whole = [row for row in caught if row["mended"]]
                own = Counter(row["own"] for row in caught)
                lines.append(
                    f"| {name} | {part} | {len(alike)} | {_share(caught, alike)} | "
                    f"{_share(right, alike)} | {_share(whole, alike)} | {own['mends']} | "
                    f"{own['outside']} | {sum(row['name'] in written for row in alike)} |"
                )
    return "\n".join(lines)


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


def _now(name: str) -> list[Row]:
    """The rows of a set as it is scored today; those of the second set were kept as they were."""
    return _rows("checks-second-mended.json" if name == "second" else f"checks-{name}.json")


def _rows(name: str) -> list[Row]:
    file = FIGURES / name
    found: list[Row] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    return found


def _share(some: list[Row], every: list[Row]) -> str:
    return f"{len(some)} = {len(some) / len(every):.1%}"


if __name__ == "__main__":
    main()
