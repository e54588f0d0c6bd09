# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Scores `seatrial check` against the broken runs: caught where, and mended by what.

    python -m scripts.score_checks [SET] [--misses]

A defect is caught when an error or a warning stands at the field that the case names, or at one
that it calls as good. Two repairs are tried: the one of the case, and the one that the check itself
proposes. A repair is right when, applied, that finding is gone and no error is left.
"""

import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.checking.described_data import DescribedData
from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.checks.check import Verdict, check
from seatrial.checks.repairs.repair import Broken, repair_of
from seatrial.checks.situation import Checked
from seatrial.findings import Severity, has_errors

SETS = Path(__file__).parents[1] / "tests" / "data" / "broken_runs"
LATER = ("cluster", "resume")
"""Kinds that the static and the data check cannot see: they need a cluster or a checkpoint."""


@dataclass(frozen=True)
class Score:
    """What came of one case."""

    name: str
    kind: str
    caught: str
    """The code at the right place; empty when there is none."""
    mended: bool
    """Whether the repair of the case leaves no such finding and no error."""
    own: str
    """`mends`, `outside` where the check proposes no change of the spec, or `fails`."""
    said: str = ""
    """What the check said instead."""


def main() -> None:
    """Print a line a case that was missed, and the rates."""
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    folder = SETS / (words[0] if words else "first")
    catalog = default_catalog()
    cases = sorted(path for path in folder.iterdir() if (path / "case.toml").is_file())
    scores = [_score(case, catalog) for case in cases]
    for score in scores:
        poor = not score.caught or not score.mended or score.own == "fails"
        if "--misses" in sys.argv and poor and score.kind not in LATER:
            _say(
                f"{score.name}: caught {score.caught or 'no'}, case's fix "
                f"{'mends' if score.mended else 'does not'}, own fix {score.own}  {score.said}"
            )
    here = [score for score in scores if score.kind not in LATER]
    _say(_rates("static and data kinds", here))
    _say(_rates("all kinds", scores))
    for kind in dict.fromkeys(score.kind for score in scores):
        _say(_rates(f"  {kind}", [score for score in scores if score.kind == kind]))


def _score(folder: Path, catalog: Catalog) -> Score:
    case: dict[str, Any] = tomllib.loads((folder / "case.toml").read_text())
    text, data = (folder / "run.yaml").read_text(), DescribedData.of(folder)
    places = {case["field"], *case.get("also", ())}
    verdict = check(text, "run.yaml", catalog, data=data)
    found = _at(verdict, places)
    if found is None:
        said = str([f"{f.code} {f.where.field}" for f in verdict.findings])
        return Score(folder.name, case["kind"], "", False, "", said)
    finding = found.finding
    fixes = case.get("fix")
    mended = not fixes or _mends(check(text, "run.yaml", catalog, fixes, data=data), found)
    own = repair_of(Broken(text, "run.yaml", catalog, (), data), found)
    state = "outside"
    if own:
        after = check(text, "run.yaml", catalog, own, data=data)
        state = "mends" if _mends(after, found) else "fails"
    said = f"{finding.rule} | {finding.fix} | {' '.join(own)}"
    return Score(folder.name, case["kind"], finding.code, mended, state, said)


def _at(verdict: Verdict, places: set[str]) -> Checked | None:
    """The first error or warning at one of the places."""
    for found in verdict.checked:
        finding = found.finding
        if finding.where.field in places and finding.severity is not Severity.NOTE:
            return found
    return None


def _mends(after: Verdict, found: Checked) -> bool:
    """Whether that finding is gone, and no error is left."""
    finding = found.finding
    same = [
        f for f in after.findings if (f.code, f.where.field) == (finding.code, finding.where.field)
    ]
    return not same and not has_errors(after.findings)


def _rates(title: str, scores: list[Score]) -> str:
    """The rates of some cases, in a line."""
    caught = [score for score in scores if score.caught]
    own = Counter(score.own for score in caught)
    whole = [score for score in caught if score.mended]
    return (
        f"{title:<24} {len(scores):>4} cases   caught {len(caught):>4} = "
        f"{len(caught) / len(scores):6.1%}   caught and mended by the case's fix {len(whole):>4} = "
        f"{len(whole) / len(scores):6.1%}   own fix: {own['mends']} mend, {own['fails']} do not, "
        f"{own['outside']} outside the spec"
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
