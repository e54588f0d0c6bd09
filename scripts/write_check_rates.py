# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the catch rates of `seatrial check`, and texts of findings, into docs/guides/check.md.

    python -m scripts.write_check_rates

The rates are those that `scripts.score_checks SET --save docs/figures/checks-SET.json` stored. That
of the second set was scored once, before anybody who wrote rules had seen it; what was mended
afterwards is found by comparing with `checks-second-mended.json`. The findings are those of the
first set's own cases, run now.
"""

import io
import json
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from scripts.score_checks import PARTS, SETS, STATIC, broken_of, part_of, right_codes
from scripts.write_data_figures import replaced
from seatrial.catalog.catalog import default_catalog
from seatrial.checks.repairs.repair import repair_of
from seatrial.cli.output import say_findings
from seatrial.findings import Severity

ROOT = Path(__file__).parents[1]
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
    """Write the page."""
    page = PAGE.read_text(encoding="utf-8")
    page = replaced(page, "rates", rates_text())
    page = replaced(page, "mended", mended_text())
    page = replaced(page, "cluster-findings", findings_text())
    PAGE.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}\n")


def rates_text() -> str:
    """A table of the rates, part by part and set by set."""
    lines = [
        "| set | part | runs | caught | with the right code | caught, and mended by the fix of the "
        "case | the check's own change mends | none is offered |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in ("first", "second"):
        rows = _rows(f"checks-{name}.json")
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
                    f"{own['outside']} |"
                )
    return "\n".join(lines)


def mended_text() -> str:
    """What was missed, and what has become of it."""
    before = {row["name"]: row for row in _rows("checks-second.json")}
    after = {row["name"]: row for row in _rows("checks-second-mended.json")}
    lines = []
    for name, row in before.items():
        if row["caught"] and row["mended"]:
            continue
        now = after.get(name, row)
        was = "missed" if not row["caught"] else "caught, its fix left an error"
        state = "still so"
        if now["caught"] and now["mended"]:
            state = f"mended after scoring: {now['caught']}"
        lines.append(f"- `{name}`: {was}; {state}.")
    return "\n".join(lines) or "Nothing of the second set was missed."


def findings_text() -> str:
    """Findings of cases, as the command prints them."""
    catalog, out = default_catalog(), io.StringIO()
    for name in SHOWN:
        folder = SETS / "first" / name
        kind = "resume" if "-resume-" in name else "cluster"
        broken = broken_of(folder, kind, catalog)
        for found in broken.again().checked:
            if found.finding.severity is Severity.NOTE:
                continue
            say_findings([found.finding], out)
            repair = repair_of(broken, found)
            if repair:
                out.write(f"        change: {' '.join(map(shlex.quote, repair))}\n")
    return f"```text\n{out.getvalue().rstrip()}\n```"


def _rows(name: str) -> list[Row]:
    file = FIGURES / name
    found: list[Row] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    return found


def _share(some: list[Row], every: list[Row]) -> str:
    return f"{len(some)} = {len(some) / len(every):.1%}"


if __name__ == "__main__":
    main()
