# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Scores `seatrial check` against the broken runs: caught where, and mended by what.

    python -m backtest.checks.score [SET] [--misses] [--save FILE]

A defect is caught when an error or a warning stands at the field that the case names, or at one
that it calls as good, and with the right code when it is that of backtest/checks/right_codes.toml.
Two repairs are tried: the one of the case, and the one that the check itself proposes. A repair is
right when, applied, that finding is gone and no error is left. Where the repair is outside the
spec, the cluster afterwards is looked at instead.
"""

import json
import sys
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.checks.check import Verdict, check
from seatrial.checks.cluster.facts import ClusterFacts
from seatrial.checks.repairs.fix import plan_fix
from seatrial.checks.repairs.repair import Broken, repair_of
from seatrial.checks.resume_source import wanted_setup
from seatrial.checks.rule import Checked
from seatrial.findings import Severity, has_errors
from tests.unit.checks.described_checkpoints import DescribedCheckpoints
from tests.unit.checks.described_cluster import described_cluster
from tests.unit.checks.described_data import DescribedData

SETS = Path(__file__).parents[2] / "tests" / "data" / "broken_runs"
PARTS = {"cluster": "cluster", "resume": "checkpoints"}
"""Kinds that need more than a spec and data, by what they need."""
STATIC = "spec and data"


@dataclass(frozen=True)
class Score:
    name: str
    kind: str
    caught: str
    """The code at the right place; empty when there is none."""
    mended: bool
    """Whether the repair of the case leaves no such finding and no error."""
    own: str
    """`mends`, `outside` where the check proposes no change of the spec, or `fails`."""
    said: str = ""
    right: bool = False
    """Whether the code is the one that speaks of the defect."""
    written: bool = False
    """True if `--fix` writes something; else the change is only proposed."""


def part_of(kind: str) -> str:
    """The part of the check that a kind of defect is for."""
    return PARTS.get(kind, STATIC)


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    file = words.pop() if "--save" in sys.argv else ""
    folder = SETS / (words[0] if words else "first")
    scores = [_scored(case) for case in cases_of(folder)]
    if "--misses" in sys.argv:
        for score in scores:
            if not score.caught or not score.mended or score.own == "fails":
                print(
                    f"{score.name}: caught {score.caught or 'no'}, case's fix "
                    f"{'mends' if score.mended else 'does not'}, own fix {score.own}  {score.said}"
                )
    for part, rates in rates_of(scores):
        print(f"{part}: {', '.join(f'{name} {count}' for name, count in rates.items())}")
    if file:
        Path(file).write_text(json.dumps([asdict(score) for score in scores], indent=1) + "\n")


def _scored(folder: Path) -> Score:
    """What comes of one case; one that cannot be scored counts as missed."""
    try:
        return score_of(folder, default_catalog())
    except Exception as error:
        kind = tomllib.loads((folder / "case.toml").read_text())["kind"]
        said = f"not scored: {type(error).__name__}: {error}"
        return Score(folder.name, kind, "", False, "", said)


def cases_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if (path / "case.toml").is_file())


def broken_of(folder: Path, kind: str, catalog: Catalog) -> Broken:
    """The run of a case with all that is described around it."""
    text = (folder / "run.yaml").read_text()
    # The data around the cases of kind resume were made with a tokenizer that most of their runs
    # do not have (README of the first set), so that only the checkpoints are looked at.
    data = DescribedData.of(folder) if kind != "resume" else None
    situation = check(text, "run.yaml", catalog).situation
    saved = cluster = None
    if situation is not None:
        if situation.spec.engine.name == "megatron":
            saved = DescribedCheckpoints.of(folder, wanted_setup(situation))
        namespace = situation.spec.cluster.namespace
        cluster = described_cluster(folder / "cluster.toml", kind, namespace)
    return Broken(text, "run.yaml", catalog, (), data, None, saved, cluster)


def score_of(folder: Path, catalog: Catalog) -> Score:
    case: dict[str, Any] = tomllib.loads((folder / "case.toml").read_text())
    kind, places = case["kind"], {case["field"], *case.get("also", ())}
    broken = broken_of(folder, kind, catalog)
    verdict = broken.again()
    wanted = right_codes().get(folder.name, "")
    found = _at(verdict, places, wanted)
    if found is None:
        said = str([f"{f.code} {f.where.field}" for f in verdict.findings])
        return Score(folder.name, kind, "", False, "", said)
    finding = found.finding
    after = replace(broken, cluster=_afterwards(folder, kind, broken.cluster))
    fixes = tuple(case.get("fix", ()))
    changed = bool(fixes) or after.cluster != broken.cluster
    mended = not changed or _mends(after.again(fixes), found)
    own = repair_of(broken, found)
    state = "outside"
    if own is not None:
        state = "mends" if _mends(broken.again(own.overrides), found) else "fails"
    said = f"{finding.rule} | {finding.fix} | {' '.join(own.overrides) if own else ''}"
    right = finding.code == wanted
    written = bool(plan_fix(broken, verdict).changes)
    return Score(folder.name, kind, finding.code, mended, state, said, right, written)


@cache
def right_codes() -> dict[str, str]:
    """The code that each case should be reported under."""
    file = Path(__file__).parent / "right_codes.toml"
    by_set: dict[str, dict[str, str]] = tomllib.loads(file.read_text())
    return {name: code for codes in by_set.values() for name, code in codes.items()}


def _afterwards(folder: Path, kind: str, before: ClusterFacts | None) -> ClusterFacts | None:
    """The cluster after a repair that is outside the spec."""
    namespace = before.namespace if before is not None else ""
    return described_cluster(folder / "fixed-cluster.toml", kind, namespace) or before


def _at(verdict: Verdict, places: set[str], code: str) -> Checked | None:
    """The error or warning at one of the places: that of the right code, else the first."""
    there = [
        found
        for found in verdict.checked
        if found.finding.where.field in places and found.finding.severity is not Severity.NOTE
    ]
    right = (found for found in there if found.finding.code == code)
    return next(right, there[0] if there else None)


def _mends(after: Verdict, found: Checked) -> bool:
    """Whether that finding is gone, and no error is left."""
    finding = found.finding
    same = [
        f for f in after.findings if (f.code, f.where.field) == (finding.code, finding.where.field)
    ]
    return not same and not has_errors(after.findings)


def rates_of(scores: list[Score]) -> list[tuple[str, dict[str, str]]]:
    """What came of all runs, and of those of each part of the check."""
    found = []
    for part in ("all", STATIC, *PARTS.values()):
        alike = [score for score in scores if part in ("all", part_of(score.kind))]
        caught = [score for score in alike if score.caught]
        own = Counter(score.own for score in caught)
        counts = {
            "caught": len(caught),
            "with the right code": sum(s.caught == right_codes()[s.name] for s in caught),
            "caught, and the fix of the case removes the finding": sum(s.mended for s in caught),
        }
        rates = {
            name: f"{count} = {count / len(alike):.1%}" for name, count in counts.items() if alike
        }
        rates |= {
            "a change that the check proposes removes it": str(own["mends"]),
            "none is proposed": str(own["outside"]),
            "`--fix` writes a change": str(sum(score.written for score in alike)),
        }
        found += [(part, {"runs": str(len(alike))} | rates)] if alike else []
    return found


if __name__ == "__main__":
    main()
